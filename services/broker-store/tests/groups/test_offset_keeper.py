"""Commits on disk: an answered commit survives any crash, and file and journal never contradict each other (P10)."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_store.config.config_files import ConfigFile, DataVersionCounter
from broker_store.groups.offset_keeper import OffsetKeeper, drop_older_journal
from broker_store.groups.offsets import OffsetTable
from broker_store.log.errors import LogStopped
from broker_store.log.files.real_files import RealFile, RealFiles
from broker_store.log.files.simulated_files import Fault, SimulatedFiles
from gantry_chassis.machine.environment import machine

pytestmark = pytest.mark.anyio


class FailingFiles(RealFiles):
    """The disk. `broken` names what it refuses."""

    broken = ""

    def open(self, path, create_bytes=None):
        if self.broken and self.broken in path:
            raise OSError(28, "No space left on device")
        return super().open(path, create_bytes)


def opened(directory, files=None, before_commit=lambda *_commit: False, sync_log=lambda: None):
    files = files or RealFiles()
    table = OffsetTable()
    file = ConfigFile(files, str(directory / "config" / "consumerOffset.json"))
    journal = str(directory / "gantry" / "offsets.journal")
    keeper = OffsetKeeper(
        table,
        file,
        files,
        journal,
        DataVersionCounter(lambda: 1),
        machine().workers(1, "offsets"),
        before_commit,
        sync_log,
    )
    keeper.load()
    return keeper, table


async def committed(keeper, offset, queue_id=0):
    done = asyncio.get_running_loop().create_future()
    keeper.commit("g", "t", queue_id, offset, done.set_result)
    return await done


async def test_an_answered_commit_is_there_after_a_crash(tmp_path):
    keeper, _ = opened(tmp_path)
    assert await committed(keeper, 5) is None
    assert await committed(keeper, 7, 1) is None
    _, table = opened(tmp_path)  # nothing was closed or flushed
    assert dict(table.of("g", "t")) == {0: 5, 1: 7}


async def test_commits_of_one_turn_are_written_together_and_all_answered(tmp_path):
    keeper, _ = opened(tmp_path)
    errors = await asyncio.gather(*(committed(keeper, number, number) for number in range(200)))
    assert errors == [None] * 200
    _, table = opened(tmp_path)
    assert len(table.of("g", "t")) == 200


async def test_a_flush_empties_the_journal_and_loses_nothing(tmp_path):
    keeper, table = opened(tmp_path)
    await committed(keeper, 5)
    table.commit("g", "t", 1, 9)  # one-way
    await keeper.flush()
    assert (tmp_path / "gantry" / "offsets.journal").stat().st_size == 0
    assert dict(opened(tmp_path)[1].of("g", "t")) == {0: 5, 1: 9}


async def test_a_crash_between_file_and_journal_replays_nothing_old_over_something_new(tmp_path):
    keeper, table = opened(tmp_path)
    await committed(keeper, 5)
    journal = (tmp_path / "gantry" / "offsets.journal").read_bytes()
    table.commit("g", "t", 0, 9)
    await keeper.flush()
    (tmp_path / "gantry" / "offsets.journal").write_bytes(journal)  # as if it had never been emptied
    assert opened(tmp_path)[1].find("g", "t", 0) == 9


async def test_a_commit_below_the_known_offset_is_kept_in_order(tmp_path):
    keeper, _ = opened(tmp_path)
    await committed(keeper, 9)
    await committed(keeper, 2)
    assert opened(tmp_path)[1].find("g", "t", 0) == 2


async def test_an_unchanged_table_is_not_written_again(tmp_path):
    keeper, _ = opened(tmp_path)
    await keeper.flush()
    assert not (tmp_path / "config" / "consumerOffset.json").exists()


async def test_a_journal_that_cannot_be_written_refuses_until_a_flush_has_saved_everything(tmp_path):
    files = FailingFiles()
    keeper, table = opened(tmp_path, files)
    files.broken = "offsets.journal"
    assert isinstance(await committed(keeper, 5), OSError)
    files.broken = ""
    assert isinstance(await committed(keeper, 6), OSError)
    await keeper.flush()
    assert await committed(keeper, 7) is None
    assert opened(tmp_path)[1].find("g", "t", 0) == table.find("g", "t", 0) == 7


async def test_what_is_answered_after_the_journal_could_not_be_emptied_is_there_after_a_crash(
    tmp_path, monkeypatch
):
    """The journal was empty, but the next line was written where the old ones had ended: no start found it."""
    keeper, table = opened(tmp_path)
    await committed(keeper, 5)
    sync = RealFile.sync

    def fails(file):
        if file.path.endswith("offsets.journal"):
            raise OSError(5, "Input/output error")
        sync(file)

    with monkeypatch.context() as disk:
        disk.setattr(RealFile, "sync", fails)
        assert isinstance(await keeper.flush(), OSError)
    durable = 9 if await committed(keeper, 9) is None else 5
    assert opened(tmp_path)[1].find("g", "t", 0) == durable
    await keeper.flush()
    assert await committed(keeper, 7) is None
    assert opened(tmp_path)[1].find("g", "t", 0) == table.find("g", "t", 0) == 7


async def test_lines_that_only_the_page_cache_holds_are_written_again_before_the_next_is_answered(tmp_path):
    """A sync failed, and the process was killed: its lines were read, but the device never got them."""
    disk = SimulatedFiles()
    keeper, _ = opened(tmp_path, disk)
    assert await committed(keeper, 1) is None
    disk.faults.append(Fault("sync", 5, "offsets.journal", skip=1))  # the lines that waited for the first
    errors = await asyncio.gather(*(committed(keeper, number, number) for number in range(1, 100)))
    assert any(isinstance(error, OSError) for error in errors)
    keeper, _ = opened(tmp_path, disk)  # a kill keeps what the cache holds
    assert await committed(keeper, 2) is None
    for after in disk.crash_states(8):
        assert opened(tmp_path, after)[1].find("g", "t", 0) == 2


async def test_an_unanswered_line_behind_a_torn_one_never_replaces_a_later_commit(tmp_path):
    """A power cut may take a sector of a line and keep the sectors after it."""
    keeper, _ = opened(tmp_path)
    await committed(keeper, 5)
    await committed(keeper, 6)
    path = tmp_path / "gantry" / "offsets.journal"
    path.write_bytes(b"\0" + path.read_bytes()[1:])
    keeper, _ = opened(tmp_path)
    assert await committed(keeper, 7) is None
    assert opened(tmp_path)[1].find("g", "t", 0) == 7


async def test_the_offsets_of_another_broker_that_ran_after_a_kill_are_newer_than_the_journal(tmp_path):
    keeper, _ = opened(tmp_path)
    assert await committed(keeper, 5) is None
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_bytes(b'{"offsetTable":{"t@g":{0:9}}}')
    drop_older_journal(RealFiles(), str(tmp_path / "config"), str(tmp_path / "gantry" / "offsets.journal"))
    keeper, table = opened(tmp_path)
    assert table.find("g", "t", 0) == 9
    assert await committed(keeper, 12) is None
    assert opened(tmp_path)[1].find("g", "t", 0) == 12


async def test_a_failed_flush_is_retried(tmp_path):
    files = FailingFiles()
    keeper, table = opened(tmp_path, files)
    table.commit("g", "t", 0, 3)
    files.broken = "consumerOffset"
    await keeper.flush()
    files.broken = ""
    await keeper.flush()
    assert opened(tmp_path)[1].find("g", "t", 0) == 3


async def test_offsets_are_not_saved_before_the_log_is_durable(tmp_path):
    refusals = [LogStopped("the disk")]

    def sync_log():
        if refusals:
            raise refusals.pop()

    keeper, table = opened(tmp_path, sync_log=sync_log)
    await committed(keeper, 5)
    table.commit("g", "t", 0, 9)
    await keeper.flush()
    assert opened(tmp_path)[1].find("g", "t", 0) == 5
    await keeper.flush()
    assert opened(tmp_path)[1].find("g", "t", 0) == 9


async def test_the_files_version_continues_after_a_restart(tmp_path):
    keeper, table = opened(tmp_path)
    table.commit("g", "t", 0, 3)
    await keeper.flush()
    again, table = opened(tmp_path)
    assert again.version.counter == 1
    table.commit("g", "t", 0, 4)
    await again.flush()
    assert opened(tmp_path)[0].version.counter == 2


@pytest.mark.parametrize("version", [b"null", b'"x"', b"{}"])
async def test_a_version_that_cannot_be_read_starts_again(tmp_path, version):
    (tmp_path / "config").mkdir()
    content = b'{"dataVersion":%s,"offsetTable":{"t@g":{0:1}}}' % version
    (tmp_path / "config" / "consumerOffset.json").write_bytes(content)
    keeper, table = opened(tmp_path)
    assert (keeper.version.counter, table.find("g", "t", 0)) == (0, 1)


async def test_closing_saves_everything(tmp_path):
    keeper, table = opened(tmp_path)
    table.commit("g", "t", 0, 3)
    await keeper.close()
    assert opened(tmp_path)[1].find("g", "t", 0) == 3


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 400), flip=st.integers(0, 400))
def test_any_torn_or_flipped_journal_gives_a_clean_prefix(tmp_path_factory, cut, flip):
    directory = tmp_path_factory.mktemp("keeper")

    async def fill():
        keeper, _ = opened(directory)
        for number in range(1, 6):
            await committed(keeper, number)

    asyncio.run(fill())
    path = directory / "gantry" / "offsets.journal"
    content = bytearray(path.read_bytes())[: max(len(content_of(path)) - cut, 0)]
    if content:
        content[flip % len(content)] ^= 1
    path.write_bytes(content)
    assert opened(directory)[1].find("g", "t", 0) in {None, 1, 2, 3, 4, 5}

    async def go_on():
        keeper, _ = opened(directory)
        assert await committed(keeper, 77) is None

    asyncio.run(go_on())
    assert opened(directory)[1].find("g", "t", 0) == 77


def content_of(path):
    return path.read_bytes()


async def test_a_commit_that_continues_after_the_end_is_answered_and_fails_no_other(tmp_path):
    """The flush of the leases' note was late: an error in this answer would stop the other answers of the flush."""
    waiting = []
    keeper, _ = opened(tmp_path, before_commit=lambda *commit: waiting.append(commit[-1]) is None)
    answers = []
    keeper.commit("g", "t", 0, 7, answers.append)
    await keeper.close()
    waiting[0](None)
    assert [type(answer) for answer in answers] == [OSError]


async def test_a_flush_after_the_end_does_nothing(tmp_path):
    """The loop that flushes ends later than the thread that writes."""
    keeper, table = opened(tmp_path)
    await keeper.close()
    table.commit("g", "t", 0, 7)
    await keeper.flush()
    assert opened(tmp_path)[1].find("g", "t", 0) is None
