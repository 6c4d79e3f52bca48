import pytest

from broker_store.config.config_files import ConfigFile, DataVersionCounter
from broker_store.log.files.simulated_files import SimulatedFiles

PATH = "/store/config/topics.json"


@pytest.fixture
def files():
    return SimulatedFiles()


def test_stored_content_is_loaded(files):
    ConfigFile(files, PATH).store({"a": {0: 1}})
    assert ConfigFile(files, PATH).load() == {"a": {"0": 1}}


def test_a_missing_file_loads_none(files):
    assert ConfigFile(files, PATH).load() is None


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe"])
def test_a_damaged_file_is_read_from_its_backup(files, damage):
    file = ConfigFile(files, PATH)
    file.store({"version": 1})
    file.store({"version": 2})
    files.replace_atomically(PATH, damage)
    assert file.load() == {"version": 1}


def test_a_damaged_file_never_replaces_a_good_backup(files):
    file = ConfigFile(files, PATH)
    file.store({"version": 1})
    file.store({"version": 2})
    files.replace_atomically(PATH, b"{broken")
    file.store({"version": 3})
    files.replace_atomically(PATH, b"{broken")
    assert file.load() == {"version": 1}


def test_with_both_damaged_there_is_nothing(files):
    file = ConfigFile(files, PATH)
    file.store({"version": 1})
    files.replace_atomically(PATH, b"x")
    files.replace_atomically(f"{PATH}.bak", b"x")
    assert file.load() is None


def test_the_version_counts_changes():
    version = DataVersionCounter(lambda: 7)
    version.bump()
    assert (version.value.counter, version.value.timestamp) == (1, 7)
