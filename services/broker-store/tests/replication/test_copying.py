"""A void directory is cleared whole or stays void, whatever crash comes between; then the log begins where the kept file says."""

from dataclasses import replace

import pytest
from replica_disk import open_log, send
from sending_side import ScriptedPeer, SendingSide

from broker_store.log.errors import LogUnreadable
from broker_store.log.files.real_files import RealFiles
from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from broker_store.replication import copying
from broker_store.replication.copying import STAYS, clear_void
from broker_store.replication.epochs import Epoch, EpochTable
from broker_store.replication.kept_file import KeptFile
from broker_store.replication.register.record import Registered
from broker_store.replication.steps import Kept

STORE = "/store"
RECORD = Registered(3, "broker-a", 2, "b", ("b",), 2, "b-1-7", "a-0-1")
VOID = Kept(3, RECORD, EpochTable((Epoch(1, 0), Epoch(2, 100))), begin=8192, is_void=True)
CLEARED = replace(VOID, is_void=False)
DERIVED = (
    "consumequeue/T/0/0",
    "index/1",
    "config/topics.json",
    "checkpoint",
    "abort",
    "gantry/log.note",
    "gantry/keys/1",
)


def old_directory() -> SimulatedFiles:
    """A replica's directory with a log and files derived from it, whose log is void."""
    files = SimulatedFiles()
    log = open_log(files)
    for _ in range(6):
        send(log, b"x" * 1500)
    log.sync()
    for name in (*DERIVED, *STAYS):
        files.make_dirs(f"{STORE}/{name}".rpartition("/")[0])
        files.replace_atomically(f"{STORE}/{name}", b"of the old log")
    files.remove(f"{STORE}/gantry/replica")
    KeptFile(files, STORE).write(VOID)
    files.sync_all(STORE)
    return files


def left(files) -> set[str]:
    names = (*DERIVED, *STAYS, "commitlog")
    return {name for name in names if files.listdir(f"{STORE}/{name}") or files.content(f"{STORE}/{name}")}


def test_only_promises_and_what_belongs_to_the_machine_stay():
    files = old_directory()
    kept = KeptFile(files, STORE)
    assert clear_void(files, STORE, kept)
    assert left(files) == STAYS
    assert kept.kept == KeptFile(files, STORE).kept == CLEARED
    log = open_log(files, begin=kept.kept.begin)
    assert (log.min_position, log.written_end, log.confirm) == (8192, 8192, 8192)
    assert not clear_void(files, STORE, kept)


def test_a_log_that_is_not_void_is_left_alone():
    files = old_directory()
    files.remove(f"{STORE}/gantry/replica")
    KeptFile(files, STORE).write(replace(CLEARED, begin=0))
    before = left(files)
    assert not clear_void(files, STORE, KeptFile(files, STORE))
    assert left(files) == before >= {"commitlog", *DERIVED}


def test_a_power_cut_at_any_step_leaves_it_void_or_cleared_and_never_both():
    found, step, is_over = set(), 0, False
    while not is_over:
        files = old_directory()
        files.crash_after = step
        try:
            clear_void(files, STORE, KeptFile(files, STORE))
            is_over = True
        except Crashed:
            step += 1
        for state in files.crash_states(60, seed=step):
            kept = KeptFile(state, STORE)
            found.add(kept.kept)
            was_void = kept.kept.is_void
            assert was_void or left(state) == STAYS
            assert clear_void(state, STORE, kept) == was_void
            assert left(state) == STAYS
            assert KeptFile(state, STORE).kept == CLEARED
    assert found == {VOID, CLEARED}
    assert step > 15


def test_a_mark_that_goes_before_the_log_is_found(monkeypatch):
    """Otherwise the test above proves nothing."""
    remove_dir = SimulatedFiles.remove_dir

    def mark_first(files, path):
        kept = KeptFile(files, STORE)
        if kept.kept.is_void:
            kept.write(replace(kept.kept, is_void=False))
        remove_dir(files, path)

    monkeypatch.setattr(SimulatedFiles, "remove_dir", mark_first)
    with pytest.raises(AssertionError):
        test_a_power_cut_at_any_step_leaves_it_void_or_cleared_and_never_both()


def test_old_segments_are_never_continued(monkeypatch):
    monkeypatch.setattr(copying, "DIRECTORIES", copying.DIRECTORIES[1:])
    files = old_directory()
    kept = KeptFile(files, STORE)
    clear_void(files, STORE, kept)
    with pytest.raises(LogUnreadable, match="of another log"):
        open_log(files, begin=kept.kept.begin)


@pytest.mark.anyio
async def test_of_a_real_store_nothing_else_stays():
    side = SendingSide()
    for number in range(3):
        side.send(ScriptedPeer(), body=b"x", properties={"UNIQ_KEY": f"key {number}"})
        side.flush()
    await side.sending.checkpoints.take()
    files = side.files.killed()
    assert len(all_files(files, STORE)) > 15
    KeptFile(files, STORE).write(VOID)
    assert clear_void(files, STORE, KeptFile(files, STORE))
    stay = {f"{STORE}/{name}" for name in STAYS}
    assert set(all_files(files, STORE)) <= stay


def all_files(files, directory) -> list[str]:
    names = []
    for name in files.listdir(directory):
        path = f"{directory}/{name}"
        below = all_files(files, path)
        names += below or ([path] if path in files._names else [])
    return names


def test_a_real_disk_is_cleared(tmp_path):
    files, store = RealFiles(), str(tmp_path)
    for name in (*DERIVED, *STAYS, "commitlog/00000000000000000000"):
        files.make_dirs(f"{store}/{name}".rpartition("/")[0])
        files.replace_atomically(f"{store}/{name}", b"old")
    files.remove(f"{store}/gantry/replica")
    kept = KeptFile(files, store)
    kept.write(VOID)
    assert clear_void(files, store, kept)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == STAYS
    assert KeptFile(files, store).kept == CLEARED
