"""Waits for messages, and unusual clients, in a store over a simulated disk."""

import asyncio

import pytest
from leasing_side import LeasingSide, item

from gantry_wire.codes import GantryCode
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.private_requests.leases import (
    ItemKind,
    ItemStatus,
    LeaseItemsHeader,
    WaitReplyHeader,
    pack_items,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(anyio_backend):
    return LeasingSide()


async def test_a_wait_checks_all_queues_even_after_an_empty_one(side):
    side.queues.open("orders", 0)
    side.put("a", queue_id=1)
    assert side.answer_to(side.wait()).read(WaitReplyHeader).ready


async def test_a_wait_with_the_id_of_another_replaces_it(side):
    side.put("a")
    side.ack(*side.lease())
    first, second = side.wait(7), side.wait(7)
    assert not side.answer_to(first).read(WaitReplyHeader).ready
    assert side.leasing.waits.count == 1
    side.put("b")
    assert side.answer_to(second).read(WaitReplyHeader).ready
    assert side.leasing.waits.count == 0


async def dead_letter(side):
    """Wait for the first dead letter of the group and return it."""
    async with asyncio.timeout(60):
        while not side.records("%DLQ%g"):
            await asyncio.sleep(0.005)
            side.flush()
    return side.records("%DLQ%g")[0]


@pytest.mark.parametrize(("times", "attempt"), [(-3, 1), (100_000, 65_535)])
async def test_tries_beyond_a_replys_maximum_do_not_stop_delivery(side, times, attempt):
    side.put("a")
    side.lease()
    named = {"UNIQ_KEY": "K", "RETRY_TOPIC": "orders"}
    more = {"properties": named, "reconsume_times": times, "max_reconsume_times": 2**31 - 1}
    side.send(side.client, "%RETRY%g", b"again", 0, **more)
    side.flush()
    (message,) = side.lease()
    assert (message.body, message.attempt) == ("again", attempt)


async def test_a_dead_letter_with_a_maximal_count_is_written_and_harms_no_send(side):
    most = 2**31 - 1
    named = {"UNIQ_KEY": "K", "RETRY_TOPIC": "orders"}
    more = {"properties": named, "reconsume_times": most, "max_reconsume_times": most}
    side.put("a")
    side.ack(*side.lease())
    side.send(side.client, "%RETRY%g", b"again", 0, **more)
    side.flush()
    side.lease(invisible_ms=1000)
    side.pass_time(1.1)
    assert (await dead_letter(side)).reconsume_times == most
    side.put("b")
    assert len(side.records()) == 2


async def test_a_last_lease_that_a_receive_ends_before_the_tick_leaves_a_dead_letter(side):
    side.set_group(retry_max_times=0)
    side.put("a")
    side.lease(invisible_ms=1000)
    super(LeasingSide, side).pass_time(1.1)  # without a tick
    assert side.lease() == []
    side.leasing.tick()
    assert (await dead_letter(side)).body == b"a"


@pytest.mark.parametrize("room", [0, 60, 400])
async def test_a_dead_letter_without_room_for_its_extra_properties_is_still_written(side, room):
    side.set_group(retry_max_times=0)
    side.put("a")
    added = len(side.records()[0].properties)
    side.put("full", long="x" * (PROPERTIES_BYTES_MAX - added - room - 10))
    side.ack(side.lease(max_messages=1)[0])
    side.lease(invisible_ms=1000)
    side.pass_time(1.1)
    letter = await dead_letter(side)
    assert letter.body == b"full"
    assert ("__GANTRY_DLQ_ATTEMPTS" in letter.property_map()) == (room > 0)


async def test_a_group_that_was_reset_may_give_a_message_back_for_long_once_more(side):
    side.put("a")
    for _ in range(2):
        (message,) = side.lease()
        header = LeaseItemsHeader(group="g", topic="orders")
        opaque = side.ask(
            side.client, GantryCode.ACK, header, pack_items([item(message, ItemKind.NACK, 60_000)])
        )
        async with asyncio.timeout(60):
            while side.answer_to(opaque) is None:
                await asyncio.sleep(0.005)
                side.flush()
        assert list(side.answer_to(opaque).body) == [ItemStatus.DONE]
        assert side.lease() == []
        header = {"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "0"}
        side.ask(side.client, 15, header)
        side.flush()
