"""A consumer moves a leased message to the dead letters: once, durably, with its reason."""

import asyncio

import pytest
from leasing_side import LeasingSide, bodies, item

from broker_store.settling import settling
from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.leases import ItemKind, ItemStatus, LeaseItemsHeader, pack_items

pytestmark = pytest.mark.anyio
DONE, EXPIRED, FAILED = ItemStatus.DONE, ItemStatus.EXPIRED, ItemStatus.FAILED


@pytest.fixture
async def side(anyio_backend):
    return LeasingSide()


async def bury(side, *messages, reasons=None):
    """Move messages to the dead letters. Returns the statuses."""
    header = LeaseItemsHeader(group="g", topic="orders", reasons=reasons)
    body = pack_items([item(one, ItemKind.DEAD) for one in messages])
    opaque = side.ask(side.client, GantryCode.ACK, header, body)
    async with asyncio.timeout(30):
        while side.answer_to(opaque) is None:
            await asyncio.sleep(0)
            side.flush()
    return list(side.answer_to(opaque).body)


async def test_a_moved_message_is_a_dead_letter_with_its_reason_and_done(side):
    side.put("bad", "good")
    bad, _good = side.lease()
    assert await bury(side, bad, reasons='{"0":"no such customer"}') == [DONE]
    (dead,) = side.records("%DLQ%g")
    properties = dead.property_map()
    assert dead.body == b"bad"
    assert properties["__GANTRY_DLQ_REASON"] == "no such customer"
    assert properties["__GANTRY_DLQ_ATTEMPTS"] == "1"
    assert properties["__GANTRY_ORIGIN"] == "orders:0:0"
    assert side.committed() == 1
    again = side.reopen()
    assert bodies(again.lease()) == ["good"]


async def test_a_move_without_a_reason_says_who_moved_it(side):
    side.put("bad")
    await bury(side, *side.lease())
    (dead,) = side.records("%DLQ%g")
    assert dead.property_map()["__GANTRY_DLQ_REASON"] == "its consumer moved it here after 1 tries"


async def test_a_repeated_move_writes_one_dead_letter(side):
    side.put("bad")
    (bad,) = side.lease()
    assert await bury(side, bad) == [DONE]
    assert await bury(side, bad) == [DONE]
    assert len(side.records("%DLQ%g")) == 1


async def test_a_move_under_a_lease_that_is_over_is_refused(side):
    side.put("bad")
    (bad,) = side.lease(invisible_ms=1000)
    side.pass_time(1.1)
    assert await bury(side, bad) == [EXPIRED]
    assert side.records("%DLQ%g") == []


async def test_a_move_that_cannot_be_written_leaves_the_lease(side, monkeypatch):
    def look_up(*_arguments):
        raise OSError(5, "Input/output error")

    side.put("bad")
    (bad,) = side.lease()
    with monkeypatch.context() as patched:
        patched.setattr(settling, "look_up", look_up)
        assert await bury(side, bad) == [FAILED]
    assert side.lease() == []
    assert side.ack(bad) == [DONE]
    assert side.records("%DLQ%g") == []


async def test_the_next_message_of_the_key_follows_a_moved_one(side):
    side.set_group(consume_message_orderly=True)
    side.put("bad", "next", __SHARDINGKEY="key")
    (bad,) = side.lease()
    assert side.lease() == []
    await bury(side, bad)
    assert bodies(side.lease()) == ["next"]


@pytest.mark.parametrize("step", range(0, 12, 2))
async def test_a_power_cut_leaves_a_moved_message_due_or_dead_and_never_both_or_neither(anyio_backend, step):
    side = LeasingSide()
    side.put("bad")
    (bad,) = side.lease()
    header = LeaseItemsHeader(group="g", topic="orders")
    opaque = side.ask(side.client, GantryCode.ACK, header, pack_items([item(bad, ItemKind.DEAD)]))
    for _ in range(step):
        await asyncio.sleep(0)
    if step > 6:
        side.flush()
    is_answered = side.answer_to(opaque) is not None
    again = side.reopen()
    due, dead = bodies(again.lease()), [record.body for record in again.records("%DLQ%g")]
    assert (due, dead) in ((["bad"], []), ([], [b"bad"]))
    assert not is_answered or dead
