"""Both halves of a store, built without nameservers."""

import asyncio

import pytest
from leasing_side import LeasingSide
from sending_side import ScriptedPeer

from broker_store.commit.topics import new_topic
from gantry_wire.codes import ResponseCode

pytestmark = pytest.mark.anyio


def ordered(side):
    topic = new_topic("orders", 1)
    topic.order = True
    side.topics.put(topic)


def answer_to_a_send(side):
    peer = ScriptedPeer()
    side.send(peer)
    side.flush()
    return peer.answers[0].code


async def test_a_changed_permission_of_the_broker_forbids_sends_also_without_nameservers():
    side = LeasingSide()
    ordered(side)
    assert answer_to_a_send(side) == ResponseCode.SUCCESS
    side.config.update({"brokerPermission": "4"})
    assert answer_to_a_send(side) == ResponseCode.NO_PERMISSION
    side.config.update({"brokerPermission": "6"})
    assert answer_to_a_send(side) == ResponseCode.SUCCESS


async def test_a_permission_that_is_set_at_the_start_forbids_sends_also_without_nameservers():
    side = LeasingSide(broker_permission=4)
    ordered(side)
    assert answer_to_a_send(side) == ResponseCode.NO_PERMISSION


async def test_a_deleted_topic_is_forgotten_by_both_halves_and_the_leases():
    side = LeasingSide()
    side.put("one")
    (message,) = side.lease()
    side.ack(message)
    assert side.committed() == 1
    side.sending.removal.remove(side.topics.find("orders"), lambda _refusal: None)
    side.flush()
    assert side.committed() is None
    assert side.leasing.in_flight == 0
    assert side.queues.find("orders", 0) is None


async def test_a_changed_group_is_saved_and_its_waits_end():
    side = LeasingSide()
    side.put("one")
    side.ack(*side.lease())
    opaque = side.wait()
    assert side.answer_to(opaque) is None
    side.consuming.groups.set_consume_enable("g", enable=False)
    assert side.answer_to(opaque) is not None
    side.flush()
    async with asyncio.timeout(60):
        await side.halves.group_records.close()
    assert b'"g"' in side.files.read_bytes("/store/config/subscriptionGroup.json")
