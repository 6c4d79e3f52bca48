"""The keys of a data directory: made once, private, outside of it, and missed when they are gone."""

import base64
import json
from pathlib import Path

import pytest

from gantry_launcher.access.keys import (
    FirstUser,
    KeyFolder,
    default_folder,
    folder_of,
    keys_in_use,
    rotate,
    switch_off,
    switch_on,
)
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "data")


def on(data: DataDir, folder: KeyFolder | None = None) -> FirstUser | None:
    return switch_on(data, folder or default_folder(data), "admin")


def key_lines(folder: KeyFolder) -> list[str]:
    return [line for line in folder.key_file.read_text().splitlines() if not line.startswith("#")]


def test_keys_and_first_user_are_made_beside_the_data_directory_for_their_user_alone(data: DataDir) -> None:
    first = on(data)
    folder = keys_in_use(data)
    assert first is not None
    assert folder is not None
    assert folder.path == data.path.with_name("data-keys")
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert data.path.stat().st_mode & 0o777 == 0o700
    for path in (folder.key_file, folder.initial_user, data.access_marker):
        assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(folder.initial_user.read_text()) == {"username": "admin", "password": first.secret}
    [line] = key_lines(folder)
    key_id, key = line.split()
    assert key_id
    assert len(base64.b64decode(key, validate=True)) == 32
    assert first.secret not in repr([*data.path.rglob("*")])


def test_two_systems_share_neither_key_nor_secret(tmp_path: Path) -> None:
    ones = [DataDir(tmp_path / name) for name in ("one", "two")]
    firsts = [on(one) for one in ones]
    assert firsts[0] != firsts[1]
    assert key_lines(default_folder(ones[0])) != key_lines(default_folder(ones[1]))


def test_a_second_time_changes_nothing(data: DataDir) -> None:
    on(data)
    folder = default_folder(data)
    before = folder.key_file.read_text(), folder.initial_user.read_text()
    assert on(data) is None
    assert (folder.key_file.read_text(), folder.initial_user.read_text()) == before


def test_without_keys_access_control_is_off(data: DataDir) -> None:
    assert keys_in_use(data) is None
    assert not switch_off(data)


def test_keys_that_are_gone_refuse_the_start_instead_of_opening_the_system(data: DataDir) -> None:
    on(data)
    default_folder(data).key_file.unlink()
    with pytest.raises(
        Refused, match=r"access\.key is missing: put it back, or .* \./gantry access off --data"
    ):
        keys_in_use(data)


def test_keys_that_other_users_may_read_are_refused(data: DataDir) -> None:
    on(data)
    default_folder(data).key_file.chmod(0o640)
    with pytest.raises(Refused, match=r"\(mode 0640\): chmod 600 .*access\.key"):
        keys_in_use(data)


def test_a_directory_that_moved_with_its_keys_finds_them(data: DataDir) -> None:
    on(data)
    moved = DataDir(data.path.with_name("moved"))
    data.path.rename(moved.path)
    default_folder(data).path.rename(default_folder(moved).path)
    assert keys_in_use(moved) == default_folder(moved)


def test_a_restored_directory_without_its_marker_finds_the_keys_beside_it(data: DataDir) -> None:
    on(data)
    data.access_marker.unlink()
    assert keys_in_use(data) == default_folder(data)


def test_keys_elsewhere_are_remembered(data: DataDir, tmp_path: Path) -> None:
    elsewhere = KeyFolder(tmp_path / "safe" / "keys")
    assert on(data, elsewhere) is not None
    assert folder_of(data) == keys_in_use(data) == elsewhere


def test_keys_in_the_data_directory_are_refused(data: DataDir) -> None:
    with pytest.raises(Refused, match="lies in the data directory"):
        on(data, KeyFolder(data.path / "keys"))
    assert not data.path.exists()


def test_off_keeps_the_keys_and_on_takes_them_again(data: DataDir) -> None:
    on(data)
    folder = default_folder(data)
    keys = folder.key_file.read_text()
    assert switch_off(data)
    assert keys_in_use(data) is None
    assert folder.put_away.read_text() == keys
    assert on(data) is None
    assert folder.key_file.read_text() == keys
    assert keys_in_use(data) == folder


def test_a_new_key_goes_in_front_and_the_others_stay(data: DataDir) -> None:
    on(data)
    folder = default_folder(data)
    with folder.key_file.open("a") as file:
        file.write("# the key of the old cluster\nold AAAA\n")
    before = key_lines(folder)
    assert rotate(folder) == 3
    after = key_lines(folder)
    assert after[1:] == before
    assert len({line.split()[0] for line in after}) == 3
    assert "# the key of the old cluster" in folder.key_file.read_text()
    assert folder.key_file.stat().st_mode & 0o777 == 0o600
    assert rotate(folder) == 4
    assert folder.key_file.read_text().count("# The keys of one Gantry cluster") == 1
