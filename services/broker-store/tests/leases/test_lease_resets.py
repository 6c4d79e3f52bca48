"""A set offset redelivers everything from there on, acknowledged or not, also after a crash."""

import asyncio

import pytest
from leasing_side import LeasingSide, bodies

from broker_store.leases.note_bodies import ACKS_TOPIC
from gantry_wire.private_requests.leases import ItemStatus

pytestmark = pytest.mark.anyio
DONE, EXPIRED = ItemStatus.DONE, ItemStatus.EXPIRED
TEN = list("0123456789")


@pytest.fixture
async def side(anyio_backend):
    return LeasingSide()


async def set_offset(side, offset):
    """Set it as a reset and a durable commit do. Returns its error, if any."""
    done = asyncio.get_running_loop().create_future()
    side.consuming.keeper.commit("g", "orders", 0, offset, done.set_result)
    side.flush()
    return await asyncio.wait_for(done, 60)


def again(side, offset):
    return side.store.states.leases.delivered_from("g", "orders", 0, offset)


def all_but(side, held):
    """Deliver ten messages and acknowledge all but one, which is returned."""
    side.put(*TEN)
    given = side.lease()
    assert set(side.ack(*[one for one in given if one.body != held])) == {DONE}
    (kept,) = [one for one in given if one.body == held]
    return kept


@pytest.mark.parametrize("held", ["0", "5", "9"])
async def test_everything_from_the_offset_on_is_redelivered_and_its_leases_are_over(side, held):
    kept = all_but(side, held)
    low = int(held)
    assert side.committed() == low
    assert low + again(side, 0) == 10
    assert await set_offset(side, 0) is None
    assert side.ack(kept) == [EXPIRED]
    given = side.lease()
    assert bodies(given) == TEN
    assert [one.attempt for one in given] == [1] * 10
    assert side.ack(*given) == [DONE] * 10
    assert side.committed() == 10
    assert side.lease() == []


async def test_after_a_forward_reset_what_lies_above_is_redelivered_and_what_lies_below_is_not(side):
    all_but(side, "0")
    assert again(side, 3) == 7
    assert await set_offset(side, 3) is None
    assert bodies(side.lease()) == TEN[3:]
    assert side.committed() == 3


async def test_undelivered_messages_are_not_counted(side):
    side.put(*TEN)
    one, two, three = side.lease(max_messages=3)
    side.ack(two)
    side.nack(three)
    assert again(side, 0) == 2
    assert await set_offset(side, 0) is None
    assert again(side, 0) == 0
    assert bodies(side.lease()) == TEN
    assert side.ack(one) == [EXPIRED]


@pytest.mark.parametrize("target", [0, 3])
async def test_a_kill_after_the_answer_changes_nothing_of_it(side, target):
    all_but(side, "0")
    assert await set_offset(side, target) is None
    side.files = side.files.killed()
    restarted = side.reopen()
    given = restarted.lease()
    assert bodies(given) == TEN[target:]
    assert restarted.ack(*given[1:]) == [DONE] * (9 - target)
    assert bodies(restarted.reopen().lease()) == [str(target)]


async def test_an_acknowledgement_after_a_reset_survives_a_kill(side):
    all_but(side, "0")
    assert await set_offset(side, 0) is None
    given = side.lease()
    assert side.ack(*given[2:4]) == [DONE, DONE]
    side.files = side.files.killed()
    assert bodies(side.reopen().lease()) == ["0", "1", *TEN[4:]]


async def test_where_nothing_was_delivered_nothing_is_logged(side):
    side.put(*TEN)
    side.ack(*side.lease(max_messages=4))
    notes = side.store.queues.find(ACKS_TOPIC, 0)
    end = notes.max_offset
    assert await set_offset(side, 4) is None
    assert await set_offset(side, 6) is None
    assert notes.max_offset == end
    assert bodies(side.lease()) == TEN[6:]


async def test_a_message_that_is_becoming_a_dead_letter_is_redelivered_after_a_reset(side, monkeypatch):
    side.set_group(retry_max_times=0)
    side.put("a")
    keeper = side.consuming.keeper
    side.before_dead_letters_read(
        monkeypatch, lambda: keeper.commit("g", "orders", 0, 0, lambda _error: None)
    )
    side.nack(*side.lease())
    async with asyncio.timeout(60):
        while side.leasing._moves._tasks:
            await asyncio.sleep(0.005)
    side.flush()
    assert side.records("%DLQ%g") == []
    assert bodies(side.lease()) == ["a"]
