import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.sending.idempotency import Remembered, Window, key_digest
from broker_store.sending.key_journal import KeyJournal

DIRECTORY = "/store/gantry/keys"
EVERYTHING = 1 << 62


def filled(count: int, start: int = 0) -> Window:
    window = Window(1 << 40, 1024)
    for key in range(start, start + count):
        window.remember(Remembered(key_digest("t", str(key)), 1, key, key * 100, key, 0))
    return window


def save(journal: KeyJournal, window: Window, covered: int, oldest_ms: int = 0) -> None:
    journal.append(window.packed(journal.saved_end), window.end, covered)
    journal.drop_before(oldest_ms)


def load(files: SimulatedFiles) -> tuple[Window, int]:
    window = Window(1 << 40, 1024)
    return window, KeyJournal(files, DIRECTORY).load(window, EVERYTHING)


def test_a_saved_snapshot_is_loaded_with_the_position_it_covers():
    files, window = SimulatedFiles(), filled(5)
    journal = KeyJournal(files, DIRECTORY)
    save(journal, window, 450)
    window.remember(Remembered(key_digest("t", "5"), 1, 5, 500, 5, 0))
    save(journal, window, 550)
    loaded, covered = load(files)
    assert loaded.packed(0) == window.packed(0)
    assert covered == 550


def test_a_run_whose_first_checkpoint_covers_no_more_than_the_last_one_keeps_the_earlier_keys():
    files, window = SimulatedFiles(), filled(5)
    save(KeyJournal(files, DIRECTORY), window, 450)
    again = Window(1 << 40, 1024)
    journal = KeyJournal(files, DIRECTORY)
    journal.load(again, EVERYTHING)
    again.remember(Remembered(key_digest("t", "5"), 1, 5, 500, 5, 0))  # visible beyond what is covered
    save(journal, again, 450)
    loaded, _ = load(files)
    assert loaded.packed(0) == again.packed(0)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_file_stays_as_long_as_any_of_its_keys_is_young_whatever_their_order(monkeypatch, is_loaded):
    monkeypatch.setattr("broker_store.sending.key_journal.FILE_ENTRIES_MAX", 2)
    files, window = SimulatedFiles(), Window(1 << 40, 1024)
    journal = KeyJournal(files, DIRECTORY)
    for key, store_ms in ((0, 900), (1, 5)):  # the second waited for its flush, the first did not
        window.remember(Remembered(key_digest("t", str(key)), 1, store_ms, key * 100, key, 0))
    save(journal, window, 200)
    if is_loaded:
        journal, window = KeyJournal(files, DIRECTORY), Window(1 << 40, 1024)
        journal.load(window, EVERYTHING)
    window.remember(Remembered(key_digest("t", "2"), 1, 1000, 200, 2, 0))
    save(journal, window, 300, oldest_ms=800)
    loaded, _ = load(files)
    assert loaded.find(key_digest("t", "0"), 1000) is not None
    assert set(journal.sizes(800)) == set(files.listdir(DIRECTORY))
    assert set(journal.sizes(950)) == {f"{300:020d}"}


def test_only_what_is_new_is_written():
    files, window = SimulatedFiles(), filled(500)
    journal = KeyJournal(files, DIRECTORY)
    save(journal, window, 1)
    size = files.size(f"{DIRECTORY}/{1:020d}")
    save(journal, window, 2)
    assert files.size(f"{DIRECTORY}/{1:020d}") == size


def test_files_with_nothing_young_go(monkeypatch):
    monkeypatch.setattr("broker_store.sending.key_journal.FILE_ENTRIES_MAX", 10)
    files, window = SimulatedFiles(), Window(1 << 40, 1024)
    journal = KeyJournal(files, DIRECTORY)
    for key in range(50):
        window.remember(Remembered(key_digest("t", str(key)), 1, key, key * 100, key, 0))
        save(journal, window, key * 100, oldest_ms=key - 15)
    assert len(files.listdir(DIRECTORY)) <= 4
    loaded, _ = load(files)
    assert all(loaded.find(key_digest("t", str(key)), 50) is not None for key in range(36, 50))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.integers(0, 255))
def test_a_flipped_byte_or_a_torn_chunk_ends_the_valid_part(at, value):
    files, window = SimulatedFiles(), filled(2)
    journal = KeyJournal(files, DIRECTORY)
    save(journal, window, 200)
    window.remember(Remembered(key_digest("t", "9"), 1, 9, 900, 9, 0))
    save(journal, window, 901)
    path = f"{DIRECTORY}/{200:020d}"
    content = bytearray(files.read_bytes(path))
    at %= len(content)
    content[at] = value
    files.open(path).pwrite(bytes(content), 0)
    loaded, covered = load(files)
    assert (len(loaded), covered) in {(0, 0), (2, 200), (3, 901)}
    assert loaded.packed(0) == window.packed(0)[: len(loaded.packed(0))]


def test_files_that_lost_whole_chunks_are_named_and_a_torn_chunk_above_them_is_not():
    files, window = SimulatedFiles(), filled(2)
    journal = KeyJournal(files, DIRECTORY)
    save(journal, window, 200)
    sizes = journal.sizes(0)
    window.remember(Remembered(key_digest("t", "9"), 1, 9, 900, 9, 0))
    save(journal, window, 901)
    path = f"{DIRECTORY}/{200:020d}"
    files.open(path).truncate(files.size(path) - 1)
    again = KeyJournal(files, DIRECTORY)
    again.load(Window(1 << 40, 1024), EVERYTHING)
    assert again.missing(sizes) == ""
    assert f"has {sizes[path[-20:]]} valid bytes" in again.missing(journal.sizes(0))


def test_destroy_forgets_everything():
    files = SimulatedFiles()
    journal = KeyJournal(files, DIRECTORY)
    save(journal, filled(3), 10)
    journal.destroy()
    assert load(files)[1] == 0
    assert journal.saved_end == 0


@pytest.mark.parametrize("junk", [b"", b"x", b"GKW1" + b"\0" * 40])
def test_junk_is_not_trusted(junk):
    files = SimulatedFiles()
    files.make_dirs(DIRECTORY)
    files.open(f"{DIRECTORY}/{7:020d}", create_bytes=0).pwrite(junk, 0)
    assert len(load(files)[0]) == 0
