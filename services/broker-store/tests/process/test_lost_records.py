"""What a start finds, and what earlier ones noted, decide together whether a log has lost records, and which."""

from types import SimpleNamespace

import pytest

from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.log.log_range import LogRange
from broker_store.process.group.lost_records import LostRecords
from broker_store.replication.lost_file import Lost, LostFile

HELD, FOUND = LogRange(100, 200), LogRange(5000, 6000)
WHOLE, FROM_CHECKPOINT = 0, 4096


def start(noted, began, *found):
    """Return what a start knows that read the log from `began` on, and what the file says then."""
    files = SimulatedFiles()
    files.make_dirs("/store/gantry")
    if noted is not None:
        LostFile(files, "/store").write(noted)
    log = SimpleNamespace(min_position=0)
    store = SimpleNamespace(
        files=files, directory="/store", skipped=list(found), recovery_start=began, log=log
    )
    records = LostRecords(store)
    assert records.are_any is (noted is not None or bool(found))
    records.settle()
    assert records.are_any is (records.lost is not None)
    for disk in files.crash_states(10):
        assert LostFile(disk, "/store").read() == records.lost
    return records.lost


@pytest.mark.parametrize(
    ("noted", "began", "found", "lost"),
    [
        (None, WHOLE, (), None),
        (None, FROM_CHECKPOINT, (), None),
        (None, FROM_CHECKPOINT, (FOUND,), Lost((FOUND,))),
        (Lost((HELD,)), FROM_CHECKPOINT, (), Lost((HELD,))),
        (Lost((HELD,)), FROM_CHECKPOINT, (FOUND,), Lost((HELD, FOUND))),
        (Lost((HELD, FOUND)), WHOLE, (FOUND,), Lost((FOUND,))),
        (Lost((HELD,)), WHOLE, (), Lost(is_filled=True)),
        (Lost(), FROM_CHECKPOINT, (), Lost()),
        (Lost(), FROM_CHECKPOINT, (FOUND,), Lost((FOUND,))),
        (Lost(), WHOLE, (), Lost(is_filled=True)),
        (Lost(is_filled=True), WHOLE, (), None),
        (Lost(is_filled=True), WHOLE, (FOUND,), Lost((FOUND,))),
        (Lost(is_filled=True), FROM_CHECKPOINT, (), Lost()),
    ],
)
def test_what_is_lost(noted, began, found, lost):
    assert start(noted, began, *found) == lost


def test_a_file_that_cannot_be_written_leaves_the_replica_unfit_until_it_can():
    files = SimulatedFiles(capacity=0)
    files.make_dirs("/store/gantry")
    log = SimpleNamespace(min_position=0)
    store = SimpleNamespace(files=files, directory="/store", skipped=[FOUND], recovery_start=0, log=log)
    records = LostRecords(store)
    with pytest.raises(OSError):
        records.settle()
    assert records.are_any
    files.capacity = 1 << 20
    records.settle()
    assert LostFile(files, "/store").read() == Lost((FOUND,))
