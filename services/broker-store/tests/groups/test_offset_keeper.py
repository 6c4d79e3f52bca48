"""Commits in the log: an answered one survives any crash, and table, log and file never contradict each other (P10)."""

import asyncio
import errno

import pytest
from offsets_side import FILE, OffsetsSide, opened, refuse_appends

from broker_store.commit.topics import COMMITTED_TOPIC
from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.errors import LogStopped
from broker_store.log.files.simulated_files import Fault

pytestmark = pytest.mark.anyio

# --- commits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_an_answered_commit_is_there_after_any_crash(flush):
    side = OffsetsSide(flush=flush)
    answers = side.commit(5) + side.commit(7, 1)
    side.end_turn()
    assert answers == []
    assert side.known() == {}
    side.flush()
    assert side.known() == {0: 5, 1: 7}
    for disk in [side.files.killed(), *side.files.crash_states(8)]:
        assert opened(disk, flush=flush).offsets() == {0: 5, 1: 7}


async def test_commits_of_one_turn_and_of_one_flush_are_one_record_and_all_answered():
    side = OffsetsSide()
    answers = [side.commit(number, number) for number in range(100)]
    side.end_turn()
    for number in range(100, 200):
        answers.append(side.commit(number, number))
        side.end_turn()  # the flush of the first record is under way
    side.flush()
    assert answers == [[None]] * 200
    assert [len(rows.rows[0][2]) for rows in side.rows()] == [100, 100]
    assert len(opened(side.files.killed()).offsets()) == 200


async def test_many_commits_are_records_of_limited_size():
    side = OffsetsSide()
    answers = [side.commit(9, number) for number in range(20_000)]
    side.flush()
    assert answers == [[None]] * 20_000
    sizes = [len(record.body) for record in side.records(COMMITTED_TOPIC)]
    assert len(sizes) > 1
    assert max(sizes) < 128 * 1024


async def test_commits_that_move_back_are_kept_in_order():
    side = OffsetsSide()
    side.committed_now(9)
    side.committed_now(2)
    assert opened(side.files.killed()).offsets() == {0: 2}
    assert side.consuming.offsets.went_back == 1


async def test_a_record_has_the_value_at_its_place_so_that_none_overtakes_a_newer_one():
    side = OffsetsSide()
    side.commit(5)
    saving = asyncio.ensure_future(side.keeper.save())
    await asyncio.sleep(0)
    side.commit(7)
    side.consuming.offsets.commit("g", "orders", 0, 8)
    side.flush()
    await side.finish(saving)
    assert opened(side.files.killed()).offsets() == {0: 8}
    assert side.known() == {0: 8}


async def test_a_negative_commit_is_answered_and_changes_nothing():
    side = OffsetsSide()
    assert side.commit(-1) == [None]
    assert side.offsets() == {}


async def test_what_nobody_waits_for_is_one_record_and_where_nothing_moved_is_none():
    side = OffsetsSide()
    for queue_id in range(4):
        side.keeper.commit_soon("g", "orders", queue_id, 3)
    assert await side.finish(side.keeper.save()) is None
    assert await side.finish(side.keeper.save()) is None
    assert [(rows.number, rows.rows) for rows in side.rows()] == [
        (1, [("orders", "g", dict.fromkeys(range(4), 3))])
    ]
    assert opened(side.files.killed()).offsets() == dict.fromkeys(range(4), 3)
    side.committed_now(4)
    assert await side.finish(side.keeper.save()) is None
    assert len(side.rows()) == 2, "the commit that waited was written a second time"


async def test_a_large_table_is_saved_in_several_records():
    side = OffsetsSide()
    for queue_id in range(20_000):
        side.keeper.commit_soon("g", "orders", queue_id, 3)
    await side.finish(side.keeper.save())
    assert len(side.rows()) > 3
    assert len(opened(side.files.killed()).offsets()) == 20_000


async def test_what_was_written_is_sampled_once():
    side = OffsetsSide()
    side.committed_now(5)
    side.keeper.commit_soon("g", "orders", 1, 3)
    await side.finish(side.keeper.save())
    side.keeper.commit_soon("g", "orders", 1, 4)
    assert side.keeper.take_moved() == [("orders", "g", {0: 5, 1: 4})]
    assert side.keeper.take_moved() == []
    side.consuming.offsets.remove_group("g")
    await side.finish(side.keeper.save())
    assert side.keeper.take_moved() == []


async def test_a_commit_that_finds_no_room_is_refused_and_written_later_with_its_newest_value(monkeypatch):
    side = OffsetsSide()
    side.committed_now(1)
    with monkeypatch.context() as full:
        refuse_appends(side, full)
        answers = side.commit(5)
        side.flush()
        assert isinstance(answers[0], OSError)
        side.keeper.commit_soon("g", "orders", 1, 6)
        assert isinstance(await side.finish(side.keeper.save()), OSError)
    assert (side.offsets(), side.known()) == ({0: 5, 1: 6}, {0: 1})
    side.keeper.commit_soon("g", "orders", 0, 7)
    assert await side.finish(side.keeper.save()) is None
    assert side.known() == {0: 7, 1: 6}
    side.committed_now(8)


async def test_a_full_disk_takes_commits_as_long_as_the_ballast_lasts():
    side = OffsetsSide()
    side.put("a")
    side.log.mark_disk_full(full=True)
    side.committed_now(5)
    capacity, side.files.capacity = side.files.capacity, side.files.used_bytes()
    for queue_id in range(100_000):  # until no room is left in what the segment's file already has
        answers = side.commit(6, queue_id)
        side.flush()
        if answers != [None]:
            break
    assert [type(answer) for answer in answers] == [OSError]
    assert queue_id not in side.known()
    assert isinstance(await side.finish(side.keeper.save()), OSError)
    side.files.capacity = capacity
    assert await side.finish(side.keeper.save()) is None
    assert opened(side.files.killed()).offsets() == side.offsets()
    assert side.offsets()[queue_id] == 6


async def test_a_commit_whose_flush_fails_is_refused():
    side = OffsetsSide()
    side.files.faults.append(Fault("sync", errno.EIO, "commitlog"))
    answers = side.commit(5)
    side.end_turn()
    with pytest.raises(LogStopped) as stop:
        side.log.sync()
    side.appends.failed(stop.value)
    assert [type(answer) for answer in answers] == [OSError]
    assert side.log.state is LogState.STOPPED
    answers = side.commit(6)
    side.end_turn()
    assert [type(answer) for answer in answers] == [OSError]
    saving = asyncio.ensure_future(side.keeper.save())
    await asyncio.sleep(0)
    side.end_turn()
    assert isinstance(await saving, OSError)
    assert side.known() == {}


async def test_a_deleted_group_or_topic_is_forgotten_in_the_log_too():
    side = OffsetsSide()
    side.committed_now(5)
    side.committed_now(6, group="h")
    side.consuming.offsets.remove_group("g")
    assert await side.finish(side.keeper.save()) is None
    assert opened(side.files.killed()).offsets() == {}
    side.keeper.forget_topic("orders")
    side.flush()
    assert opened(side.files.killed()).offsets("h") == {}


# --- the file ----------------------------------------------------------------------------------------------


async def test_the_file_has_what_the_log_has_and_nothing_that_is_under_way():
    side = OffsetsSide()
    assert await side.keeper.save_file() is None
    assert not side.files.exists(FILE)
    side.committed_now(5)
    side.commit(9)
    side.keeper.commit_soon("g", "orders", 1, 3)
    assert await side.keeper.save_file() is None
    assert (side.file()["offsetTable"], side.file()["gantryNumber"]) == ({"orders@g": {"0": 5}}, 1)
    trace = len(side.files.trace)
    assert await side.keeper.save_file() is None
    assert len(side.files.trace) == trace, "an unchanged file was written again"


async def test_the_file_is_not_written_before_the_log_is_durable(monkeypatch):
    side = OffsetsSide(flush="async")
    side.committed_now(5)
    with monkeypatch.context() as patch:
        patch.setattr(side.log, "stop_on", lambda _error: None)
        side.log.stop_for("the disk")
        assert isinstance(await side.keeper.save_file(), LogStopped)
    assert not side.files.exists(FILE)


async def test_a_file_that_could_not_be_written_is_written_with_the_next_call():
    side = OffsetsSide()
    side.committed_now(3)
    side.files.faults.append(Fault("rename", errno.ENOSPC, "consumerOffset"))
    assert isinstance(await side.keeper.save_file(), OSError)
    assert await side.keeper.save_file() is None
    assert side.file()["offsetTable"] == {"orders@g": {"0": 3}}


async def test_the_files_version_continues_after_a_restart():
    side = OffsetsSide()
    side.committed_now(3)
    await side.stop()
    assert side.file()["dataVersion"]["counter"] == 1
    again = opened(side.files)
    assert again.keeper.version.counter == 1
    again.committed_now(4)
    await again.stop()
    assert opened(side.files).keeper.version.counter == 2


# --- an end ------------------------------------------------------------------------------------------------


async def test_an_orderly_stop_saves_everything_and_the_next_start_writes_nothing():
    side = OffsetsSide()
    side.keeper.commit_soon("g", "orders", 0, 3)
    await side.stop()
    assert (side.file()["offsetTable"], side.file()["gantryNumber"]) == ({"orders@g": {"0": 3}}, 1)
    content = side.files.content(FILE)
    again = opened(side.files)
    assert await again.finish(again.keeper.save()) is None
    assert await again.keeper.save_file() is None
    assert (again.offsets(), len(again.rows()), again.files.content(FILE)) == ({0: 3}, 1, content)


async def test_a_commit_that_continues_after_the_end_is_answered():
    """The flush of the leases' note was late: an error in this answer would stop the other answers of the flush."""
    side = OffsetsSide()
    await side.stop()
    assert [type(answer) for answer in side.commit(7)] == [OSError]


async def test_saves_after_the_end_do_nothing():
    """The loops that save end later than the thread that writes."""
    side = OffsetsSide()
    await side.stop()
    side.consuming.offsets.commit("g", "orders", 0, 7)
    assert isinstance(await side.keeper.save(), OSError)
    assert await side.keeper.save_file() is None
    await side.keeper.roll(1 << 40)
    assert opened(side.files).offsets() == {}


async def test_a_save_that_waits_for_the_end_writes_nothing_behind_it():
    """The file would not have it, and would lose against the log at the next start, with a change by hand."""
    side = OffsetsSide()
    side.committed_now(5)
    side.keeper.commit_soon("g", "orders", 0, 6)
    closing = asyncio.ensure_future(side.keeper.close())
    saving = asyncio.ensure_future(side.keeper.save())
    for _ in range(3):
        await asyncio.sleep(0)
    side.end_turn()
    side.keeper.commit_soon("g", "orders", 0, 7)
    await side.finish(closing)
    await side.finish(saving)
    assert (side.known(), side.file()["gantryNumber"]) == ({0: 6}, side.rows()[-1].number)
