"""`gantry/lost` says what a log has lost, to operators and to the next start, after any crash."""

import pytest

from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from broker_store.log.log_range import LogRange, joined
from broker_store.replication.copying import DERIVED
from broker_store.replication.lost_file import NAME, Lost, LostFile, clear_derived

OLD = (
    b"A start found that records of this log which were confirmed are damaged. Other replicas have them.\n"
    b"Replace this replica: docs/replication.md says how. While this file is here, it leads only where no other replica can.\n"
)
TWO = Lost((LogRange(0, 4096), LogRange(10_000, 10_500)))
STAYS = "commitlog/00000000000000000000", "gantry/log.note", "gantry/replica", "checkpoint"


@pytest.fixture
def files():
    made = SimulatedFiles()
    made.make_dirs("/store/gantry")
    return made


@pytest.mark.parametrize("lost", [TWO, Lost(is_filled=True), Lost()])
def test_what_is_written_is_read_again_also_after_a_power_cut(files, lost):
    LostFile(files, "/store").write(lost)
    for disk in files.crash_states(20):
        assert LostFile(disk, "/store").read() == lost


def test_its_text_names_the_ranges_for_operators(files):
    LostFile(files, "/store").write(TWO)
    lines = files.read_bytes("/store/gantry/lost").decode().splitlines()
    assert lines[-2:] == ["positions 0 to 4096", "positions 10000 to 10500"]


def test_a_file_of_an_earlier_version_says_that_it_is_not_known_what_was_lost(files):
    files.replace_atomically("/store/gantry/lost", OLD)
    lost = LostFile(files, "/store").read()
    assert lost == Lost()
    assert not lost.is_known


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe\0",
        b"positions 5 to 3\n",
        b"positions -1 to 7\n",
        b"positions 1 to 99999999999999999999\n",
        b"positions \xd9\xa1 to 7\n",
    ],
)
def test_a_damaged_file_never_says_that_nothing_or_another_range_is_lost(files, text):
    files.replace_atomically("/store/gantry/lost", text)
    assert LostFile(files, "/store").read() == Lost()


def test_a_file_with_ranges_is_never_one_of_a_filled_log(files):
    LostFile(files, "/store").write(Lost(is_filled=True))
    content = files.read_bytes("/store/gantry/lost")
    files.replace_atomically("/store/gantry/lost", content + b"positions 5 to 9\n")
    assert LostFile(files, "/store").read() == Lost((LogRange(5, 9),))


def test_without_a_file_nothing_is_lost_and_a_removed_one_does_not_come_back(files):
    file = LostFile(files, "/store")
    assert file.read() is None
    file.write(TWO)
    file.remove()
    for disk in files.crash_states(20):
        assert LostFile(disk, "/store").read() is None


def test_ranges_are_joined():
    ranges = LogRange(9, 12), LogRange(0, 4), LogRange(4, 6), LogRange(5, 5), LogRange(10, 11), LogRange(7, 7)
    assert joined(ranges) == ((0, 6), (9, 12))


def store_with(lost):
    """Return a disk with a log and all that is derived from it."""
    disk = SimulatedFiles()
    for name in (
        *(f"{directory}/x" for directory in DERIVED),
        "gantry/queues.json",
        "gantry/queues.json.bak",
        *STAYS,
    ):
        disk.make_dirs(f"/store/{name}".rpartition("/")[0])
        disk.replace_atomically(f"/store/{name}", name.encode())
    if lost is not None:
        LostFile(disk, "/store").write(lost)
    disk.sync_all("/store")
    return disk


def names(disk):
    return {path for path in disk._names if not path.endswith(NAME)}


@pytest.mark.parametrize("lost", [None, TWO, Lost()])
def test_what_is_derived_stays_while_the_log_is_not_filled(lost):
    disk = store_with(lost)
    before = names(disk)
    assert not clear_derived(disk, "/store")
    assert names(disk) == before


def test_what_is_derived_from_a_filled_log_goes_after_a_crash_anywhere_too():
    steps = 0
    while True:
        disk = store_with(Lost(is_filled=True))
        disk.crash_after = steps
        try:
            assert clear_derived(disk, "/store")
        except Crashed:
            disk = disk.crash_state(5, steps)
            assert clear_derived(disk, "/store")
        else:
            break
        steps += 1
        assert names(disk) == {f"/store/{name}" for name in STAYS}
        assert LostFile(disk, "/store").read() == Lost(is_filled=True)
    assert steps > len(DERIVED)
