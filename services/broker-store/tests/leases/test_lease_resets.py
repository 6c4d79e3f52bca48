"""A set offset redelivers everything from there on, acknowledged or not, also after a crash."""

import asyncio
import errno

import pytest
from leasing_side import DIRECTORY, LeasingSide, bodies, item

from broker_store.leases import message_moves
from broker_store.leases.note_bodies import ACKS_TOPIC
from broker_store.log.files.simulated_files import Fault
from gantry_wire.codes import GantryCode, RequestCode
from gantry_wire.private_requests.leases import ItemKind, ItemStatus, LeaseItemsHeader, pack_items

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


async def moves_placed(side):
    """Let dead letters and far retries read their messages and wait for the next flush."""
    async with asyncio.timeout(60):
        while side.leasing._moves._tasks:
            await asyncio.sleep(0.005)


def begin_move(side, kind, *messages):
    """Give messages back so that each becomes a dead letter or waits in the queue of delays. Their records wait for a flush."""
    if kind == "dead letter":
        side.nack(*messages)
        return
    items = pack_items([item(one, ItemKind.NACK, 3_600_000) for one in messages])
    side.ask(side.client, GantryCode.ACK, LeaseItemsHeader(group="g", topic="orders"), items)


def moved(side, kind):
    return side.records("%DLQ%g" if kind == "dead letter" else "rmq_sys_wheel_timer")


@pytest.mark.parametrize("kind", ["dead letter", "far retry"])
@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_a_reset_behind_the_record_of_a_move_delivers_the_message_again(kind, flush):
    """Both become visible with one flush, or the reset alone at once. The log has the reset last: so it holds, also after a start."""
    side = LeasingSide(flush=flush)
    side.set_group(retry_max_times=0 if kind == "dead letter" else 16)
    side.put("a", "b")
    begin_move(side, kind, side.lease(max_messages=1)[0])
    await moves_placed(side)
    if flush == "async":
        side.end_turn()
    assert await set_offset(side, 0) is None
    side.flush()
    assert len(moved(side, kind)) == 1
    await side.sending.checkpoints.take()
    disk = side.files.killed()
    assert bodies(side.lease()) == ["a", "b"]
    assert side.committed() == 0
    side.files = disk.killed()
    assert bodies(side.reopen().lease()) == ["a", "b"]
    side.files = disk
    side.files.remove(f"{DIRECTORY}/gantry/leases.snapshot")
    assert bodies(side.reopen().lease()) == ["a", "b"]


@pytest.mark.parametrize("kind", ["dead letter", "far retry"])
async def test_a_deletion_of_the_group_behind_the_record_of_a_move_forgets_the_move(kind):
    """A new group of that name begins at the first message. In a store with `flush=async` the deletion is visible before the move."""
    side = LeasingSide(flush="async")
    side.set_group(retry_max_times=0 if kind == "dead letter" else 16)
    side.put("a", "b")
    begin_move(side, kind, side.lease(max_messages=1)[0])
    await moves_placed(side)
    side.end_turn()
    side.ask(side.client, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g", "cleanOffset": "true"})
    side.flush()
    side.set_group()
    assert bodies(side.lease()) == ["a", "b"]


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_a_move_that_is_flushed_late_is_no_failure(flush):
    """Its request is answered before the flush. Then the log has the move: the message is not delivered here as well."""
    side = LeasingSide(flush=flush)
    side.put("a", "b")
    begin_move(side, "far retry", side.lease(max_messages=1)[0])
    await moves_placed(side)
    side.end_turn()
    side.pass_time(20)
    side.appends.answer_late()
    side.flush()
    assert len(moved(side, "far retry")) == 1
    side.pass_time(60)
    assert bodies(side.lease()) == ["b"]
    assert bodies(side.reopen().lease()) == ["b"]


async def test_a_reset_right_before_a_dead_letter_that_exists_already_delivers_the_message_again():
    side = LeasingSide(flush="async")
    side.set_group(retry_max_times=0)
    side.put("a")
    side.nack(*side.lease())
    await moves_placed(side)
    side.flush()
    assert await set_offset(side, 0) is None
    side.nack(*side.lease())
    await moves_placed(side)
    assert await set_offset(side, 0) is None
    assert len(side.records("%DLQ%g")) == 1
    assert bodies(side.lease()) == ["a"]


def begin_reset(side):
    """Place a reset to the beginning. It waits for its flush."""
    side.consuming.keeper.commit("g", "orders", 0, 0, lambda _error: None)
    side.end_turn()


@pytest.mark.parametrize("kind", [ItemKind.ACK, ItemKind.NACK])
async def test_an_item_that_follows_a_reset_in_the_log_is_expired(side, kind):
    """The reset is not visible yet when the request comes. Its answer says that every message is delivered again."""
    side.put("a", "b")
    one, two = side.lease()
    begin_reset(side)
    assert side.settle(item(one, kind), item(two, kind)) == [EXPIRED, EXPIRED]
    assert bodies(side.lease()) == ["a", "b"]
    assert bodies(side.reopen().lease()) == ["a", "b"]


async def test_an_item_below_a_forward_reset_is_done(side):
    side.put(*TEN)
    given = side.lease()
    side.consuming.keeper.commit("g", "orders", 0, 5, lambda _error: None)
    side.end_turn()
    assert side.ack(*given[3:7]) == [DONE, DONE, EXPIRED, EXPIRED]
    assert bodies(side.lease()) == TEN[5:]


@pytest.mark.parametrize("kind", ["dead letter", "far retry"])
async def test_a_move_that_follows_a_reset_in_the_log_does_not_happen(side, kind, monkeypatch):
    """It began before the reset, and its message is read when the reset waits for its flush."""
    monkeypatch.setattr(message_moves, "AGAIN_SECONDS", 0.001)
    side.set_group(retry_max_times=0 if kind == "dead letter" else 16)
    side.put("a", "b")
    begin_move(side, kind, side.lease(max_messages=1)[0])
    begin_reset(side)
    await moves_placed(side)
    side.flush()
    await asyncio.sleep(0.01)
    await moves_placed(side)
    side.flush()
    assert moved(side, kind) == []
    assert bodies(side.lease()) == ["a", "b"]
    assert bodies(side.reopen().lease()) == ["a", "b"]


async def test_after_a_refused_reset_the_dead_letter_that_waited_for_it_is_written(side, monkeypatch):
    monkeypatch.setattr(message_moves, "AGAIN_SECONDS", 0.001)
    side.set_group(retry_max_times=0)
    side.put("a", "b")
    one, two = side.lease()
    side.nack(one)
    errors = []
    side.consuming.keeper.commit("g", "orders", 0, 0, errors.append)
    await moves_placed(side)
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "commitlog"))
    side.flush()
    assert errors[0] is not None
    await asyncio.sleep(0.01)
    await moves_placed(side)
    side.flush()
    assert [letter.body for letter in side.records("%DLQ%g")] == [b"a"]
    assert side.ack(two) == [DONE]
    assert side.committed() == 2


async def test_a_message_that_becomes_the_same_dead_letter_after_a_reset_is_done_also_after_a_kill(side):
    """Its only dead letter precedes the reset in the log."""
    side.set_group(retry_max_times=0)
    side.put("a")
    for _ in range(2):
        side.nack(*side.lease())
        await moves_placed(side)
        side.flush()
        side.flush()
        assert side.lease() == []
        files = side.files.killed()
        assert await set_offset(side, 0) is None
    assert len(side.records("%DLQ%g")) == 1
    side.files = files
    assert side.reopen().lease() == []
