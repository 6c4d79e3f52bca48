"""Handles of leases that a restart forgot, in a store over a simulated disk: who holds the messages, and in which order others get the next ones."""

import asyncio

import pytest
from leasing_side import LeasingSide, bodies, item

from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.leases import ItemKind, ItemStatus, LeaseItemsHeader, pack_items

pytestmark = pytest.mark.anyio
DONE, EXPIRED = ItemStatus.DONE, ItemStatus.EXPIRED


@pytest.fixture
async def side(anyio_backend):
    return LeasingSide()


async def test_a_handle_the_restart_forgot_is_accepted_unless_the_message_was_redelivered(side):
    side.put(*"abc")
    old = side.lease()
    restarted = side.reopen()
    assert restarted.ack(old[1]) == [DONE]
    assert bodies(restarted.lease(max_messages=1)) == ["a"]
    assert restarted.ack(old[0]) == [EXPIRED]
    assert restarted.extend(old[2]) == [DONE]
    assert restarted.lease() == []
    assert restarted.ack(old[2]) == [DONE]


async def ordered_and_restarted(side):
    """Return a store that forgot the leases of an ordered group, and the messages under them."""
    side.set_group(attributes={"gantry.receive.order": "shardingKey"})
    side.put("a1", "a2", __SHARDINGKEY="a")
    side.put("b1", __SHARDINGKEY="b")
    held = side.lease()
    assert bodies(held) == ["a1", "b1"]
    return side.reopen(), held


async def test_a_message_whose_lease_the_restart_forgot_holds_the_next_of_its_key_while_it_is_extended(side):
    restarted, (a1, _b1) = await ordered_and_restarted(side)
    assert restarted.extend(a1) == [DONE]
    assert bodies(restarted.lease()) == ["b1"]
    assert restarted.ack(a1) == [DONE]
    assert bodies(restarted.lease()) == ["a2"]


async def test_a_message_whose_lease_the_restart_forgot_comes_before_the_next_of_its_key_when_it_is_given_back(
    side,
):
    restarted, (a1, _b1) = await ordered_and_restarted(side)
    assert restarted.nack(a1) == [DONE]
    again = restarted.lease()
    assert [(one.body, one.attempt) for one in again] == [("a1", 2), ("b1", 1)]
    assert restarted.lease() == []
    restarted.ack(*again)
    assert bodies(restarted.lease()) == ["a2"]


async def test_the_key_of_an_adopted_message_is_read_in_a_thread_where_it_is_not_in_memory(side, monkeypatch):
    restarted, (a1, _b1) = await ordered_and_restarted(side)
    monkeypatch.setattr(restarted.store.log, "read_nowait", lambda *_place: None)
    header = LeaseItemsHeader(group="g", topic="orders")
    opaques = [
        restarted.ask(restarted.client, GantryCode.EXTEND_LEASE, header_of(60_000), pack_items([item(a1, ItemKind.EXTEND)])),
        restarted.ask(restarted.client, GantryCode.ACK, header, pack_items([item(a1, ItemKind.ACK)])),
    ]  # fmt: skip
    restarted.end_turn()
    assert [restarted.answer_to(opaque) for opaque in opaques] == [None, None]
    async with asyncio.timeout(20):
        while any(restarted.answer_to(opaque) is None for opaque in opaques):
            await asyncio.sleep(0.005)
            restarted.flush()
    assert [list(restarted.answer_to(opaque).body) for opaque in opaques] == [[DONE], [DONE]]
    monkeypatch.undo()
    assert bodies(restarted.lease()) == ["a2", "b1"]


def header_of(invisible_ms: int) -> LeaseItemsHeader:
    return LeaseItemsHeader(group="g", topic="orders", invisible_ms=invisible_ms)


async def test_a_message_of_a_retry_topic_whose_lease_the_restart_forgot_returns_to_receivers_of_its_topic(
    side,
):
    side.put("o", "first", topic="orders")
    side.put("p", topic="payments")
    side.ack(*side.lease())
    side.put("back", topic="%RETRY%g", RETRY_TOPIC="orders")
    (back,) = side.lease()
    restarted = side.reopen()
    assert restarted.nack(back) == [DONE]
    assert bodies(restarted.lease(topic="payments")) == ["p"]
    assert bodies(restarted.lease()) == ["back"]
