"""A start takes the offsets of the log or of the file, and moves those of a file into the log, whatever crash comes."""

import json
import zlib

import pytest
from offsets_side import FILE, JOURNAL, OffsetsSide, opened, put_file, refuse_appends

from broker_store.groups import offset_log
from broker_store.log.files.simulated_files import Crashed, SimulatedFiles

pytestmark = pytest.mark.anyio


def journal(*offsets, first=1):
    lines = [json.dumps([first + n, "orders", "g", 0, offset]).encode() for n, offset in enumerate(offsets)]
    return b"".join(b"%08x %b\n" % (zlib.crc32(line), line) for line in lines)


OLDER = b'{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":5},"gantryJournal":1,"offsetTable":{"orders@g":{0:5,1:9}}}'
ROCKETMQS = (
    b'{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":5},"offsetTable":{"orders@g":{0:5,1:9}}}'
)


@pytest.mark.parametrize(
    ("file", "lines", "offsets"),
    [
        (OLDER, b"", {0: 5, 1: 9}),
        (OLDER, journal(3, 7), {0: 7, 1: 9}),
        (OLDER, journal(3), {0: 5, 1: 9}),
        (ROCKETMQS, None, {0: 5, 1: 9}),
        (None, journal(3, 7), {0: 7}),
    ],
    ids=["stopped", "killed", "old lines", "RocketMQ", "no file"],
)
async def test_the_offsets_of_an_earlier_version_or_of_rocketmq_move_into_the_log_once(file, lines, offsets):
    disk = SimulatedFiles()
    for path, content in ((FILE, file), (JOURNAL, lines)):
        if content is not None:
            put_file(disk, path, content)
    side = OffsetsSide(disk)
    assert side.offsets() == offsets
    early = side.commit(33, 3)
    side.flush()
    assert early == [], "a commit was answered before the log had the offsets of the file"
    assert await side.keeper.save_file() is None
    assert disk.content(FILE) == (file or b"")
    await side.finish(side.keeper.save())
    side.flush()
    assert early == [None]
    assert side.known() == {**offsets, 3: 33}
    assert side.keeper.take_moved() == [("orders", "g", {3: 33})]
    await side.stop()
    count = len(side.rows())
    assert not disk.exists(JOURNAL)
    again = opened(disk)
    await again.finish(again.keeper.save())
    assert (again.offsets(), len(again.rows())) == ({**offsets, 3: 33}, count)


@pytest.mark.crash
@pytest.mark.parametrize("lines", [None, journal(3, 7)], ids=["no journal", "journal"])
@pytest.mark.parametrize("file", [OLDER, ROCKETMQS, None], ids=["older", "RocketMQ", "no file"])
async def test_no_crash_during_the_move_loses_the_offsets_or_an_answered_commit(file, lines):
    """At any step: the files hold everything, or the log does, and a file that the log has taken over never comes back."""

    async def day(step):
        disk, answers = SimulatedFiles(), []
        for path, content in ((FILE, file), (JOURNAL, lines)):
            if content is not None:
                put_file(disk, path, content)
        disk.crash_after = step
        try:
            side = OffsetsSide(disk)
            before = side.offsets()
            answers = [side.commit(70), side.commit(80, 8)]
            await side.finish(side.keeper.save())
            side.flush()
            answers.append(side.commit(71))
            side.flush()
            await side.keeper.save_file()
            answers.append(side.commit(72))
            side.flush()
        except Crashed:
            pass
        disk.crash_after = None
        return disk, answers, before

    whole, _, before = await day(None)
    steps = [step for step in range(1, len(whole.trace)) if step > opening_steps(whole)]
    assert len(steps) > 10
    for step in steps:
        disk, answers, _ = await day(step)
        done = sum(answer == [None] for answer in answers)
        for left in [disk.killed(), *disk.crash_states(2, seed=step)]:
            found = opened(left).offsets()
            assert found.get(1) == before.get(1)
            assert done < 2 or found.get(8) == 80
            least = (before.get(0, 0), before.get(0, 0), 70, 71, 72)[done]
            assert found.get(0, 0) >= least, f"after step {step}"


def opening_steps(disk):
    """The number of steps before the offsets move."""
    return next(n for n, entry in enumerate(disk.trace) if "commitlog" in str(entry)) - 1


@pytest.mark.parametrize("damage", [None, b"", b'{"offsetTable":'])
async def test_the_backup_moves_into_the_log_where_a_crash_of_rocketmq_left_it_alone(damage):
    """RocketMQ removes the file before it renames the new one."""
    disk = SimulatedFiles()
    put_file(disk, f"{FILE}.bak", ROCKETMQS)
    if damage is not None:
        put_file(disk, FILE, damage)
    side = OffsetsSide(disk)
    assert side.offsets() == {0: 5, 1: 9}
    await side.finish(side.keeper.save())
    assert side.known() == {0: 5, 1: 9}
    side.committed_now(6)
    assert opened(disk.killed()).offsets() == {0: 6, 1: 9}


GROUPS = [f"g{number}" for number in range(5)]


async def edited_by_hand():
    side = OffsetsSide()
    for group in GROUPS:
        side.committed_now(50, group=group)
    await side.stop()
    put_file(side.files, FILE, side.files.content(FILE).replace(b"0:50", b"0:10"))
    return side.files


async def left_by_rocketmq(name, damage=None):
    disk = SimulatedFiles()
    offsets = b",".join(b'"orders@%b":{0:10}' % group.encode() for group in GROUPS)
    put_file(disk, name, b'{"offsetTable":{%b}}' % offsets)
    if damage is not None:
        put_file(disk, FILE, damage)
    return disk


@pytest.mark.crash
@pytest.mark.parametrize(
    "directory",
    [
        edited_by_hand,
        lambda: left_by_rocketmq(FILE),
        lambda: left_by_rocketmq(f"{FILE}.bak"),
        lambda: left_by_rocketmq(f"{FILE}.bak", b"{"),
    ],
    ids=["by hand", "RocketMQ", "backup", "damaged"],
)
async def test_no_crash_between_the_records_of_a_takeover_leaves_a_part_of_the_file(directory, monkeypatch):
    monkeypatch.setattr(offset_log, "ROWS_BYTES_MAX", 40)
    start = await directory()

    async def day(step):
        disk = start.killed()
        begin, disk.crash_after = len(disk.trace), step
        try:
            side = opened(disk)
            await side.finish(side.keeper.save())
            side.committed_now(11, group=GROUPS[0])
        except Crashed:
            pass
        steps = len(disk.trace) - begin
        disk.crash_after = None
        return disk, steps

    _, steps = await day(None)
    for step in range(1, steps):
        disk, _ = await day(step)
        for left in [disk.killed(), *disk.crash_states(2, seed=step)]:
            again = opened(left)
            found = [again.offsets(group) for group in GROUPS[1:]]
            assert all(offsets == found[0] for offsets in found), f"after step {step}"
            assert found[0] in ({0: 10}, {0: 50})


async def test_a_takeover_that_finds_no_room_answers_the_commits_and_is_tried_again(monkeypatch):
    disk = SimulatedFiles()
    put_file(disk, FILE, ROCKETMQS)
    side = OffsetsSide(disk)
    with monkeypatch.context() as full:
        refuse_appends(side, full)
        answers = side.commit(6)
        assert isinstance(await side.finish(side.keeper.save()), OSError)
        assert [type(answer) for answer in answers] == [OSError]
    assert await side.finish(side.keeper.save()) is None
    assert side.known() == {0: 6, 1: 9}


async def test_rocketmq_that_ran_in_between_wins():
    side = OffsetsSide()
    side.committed_now(50)
    side.committed_now(60, 1)
    await side.stop()
    put_file(side.files, FILE, ROCKETMQS.replace(b"1:9", b"2:9"))
    again = opened(side.files)
    assert again.offsets() == {0: 5, 2: 9}
    await again.finish(again.keeper.save())
    assert again.known() == {0: 5, 2: 9}
    for disk in [again.files.killed(), *again.files.crash_states(8)]:
        assert opened(disk).offsets() == {0: 5, 2: 9}


async def test_a_change_by_hand_counts_after_an_orderly_stop_and_only_then():
    side = OffsetsSide()
    side.committed_now(50)
    side.committed_now(60, 1)
    await side.stop()
    changed = side.files.content(FILE).replace(b"0:50", b"0:10")
    put_file(side.files, FILE, changed)
    again = opened(side.files)
    assert again.offsets() == {0: 10, 1: 60}
    await again.finish(again.keeper.save())
    await again.keeper.save_file()
    put_file(again.files, FILE, again.files.content(FILE).replace(b"0:10", b"0:3"))
    killed = opened(again.files)
    assert killed.offsets() == {0: 10, 1: 60}
    assert await killed.keeper.save_file() is None
    assert killed.file()["offsetTable"] == {"orders@g": {"0": 10, "1": 60}}, (
        "the file keeps what does not count"
    )


@pytest.mark.parametrize("damage", [None, b"", b'{"offsetTable":'])
async def test_a_missing_or_damaged_file_costs_nothing(damage):
    side = OffsetsSide()
    side.committed_now(50)
    await side.keeper.save_file()
    side.committed_now(60, 1)
    await side.stop()
    if damage is None:
        side.files.remove(FILE)
    else:
        put_file(side.files, FILE, damage)
    again = opened(side.files)
    assert again.offsets() == {0: 50, 1: 60}
    await again.keeper.save_file()
    assert again.file()["offsetTable"] == {"orders@g": {"0": 50, "1": 60}}


async def test_a_store_that_lost_all_but_its_log_knows_every_offset():
    side = OffsetsSide()
    for number in range(5):
        side.committed_now(number, number % 2)
    await side.finish(side.sending.checkpoints.take())
    side.committed_now(50)
    disk = side.files.killed()
    for name in ("consumequeue", "index", "config", "gantry"):
        disk.remove_dir(f"/store/{name}")
    assert opened(disk).offsets() == {0: 50, 1: 3}


async def test_a_directory_of_an_earlier_version_needs_no_snapshot():
    side = OffsetsSide()
    side.put("a")
    await side.finish(side.sending.checkpoints.take())
    side.files.remove("/store/gantry/committed.snapshot")
    again = opened(side.files)
    assert not again.opening.is_rebuild
    assert again.opening.began_at > 0
