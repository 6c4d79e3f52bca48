"""Locking of data directories."""

import os
from pathlib import Path

import pytest

from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.serving.serve import claim, unclaim


def test_a_directory_inside_another_systems_is_refused_and_not_made(tmp_path: Path) -> None:
    lock = claim(DataDir(tmp_path / "one"))
    inside = tmp_path / "one" / "broker-a" / "two"
    with pytest.raises(Refused, match=f"inside the data directory of another system, {tmp_path / 'one'}"):
        claim(DataDir(inside))
    assert not inside.exists()
    os.close(lock)


def test_directories_beside_each_other_are_two_systems(tmp_path: Path) -> None:
    for name in ("one", "two"):
        os.close(claim(DataDir(tmp_path / name)))
    assert (tmp_path / "two" / "gantry.lock").exists()


def test_a_refused_start_removes_a_new_directory_and_keeps_one_with_content(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "data")
    lock = claim(data)
    (data.path / "logs").mkdir()
    unclaim(data)
    assert data.lock_file.exists()
    (data.path / "logs").rmdir()
    unclaim(data)
    assert not data.path.exists()
    os.close(lock)


def test_a_start_that_waited_for_a_removed_directory_creates_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataDir(tmp_path / "data")
    first = claim(data)
    monkeypatch.setattr(
        "gantry_launcher.serving.serve._refuse_beside_launcher", lambda _data: _refused(data, first)
    )
    second = claim(data)
    assert os.path.samestat(os.fstat(second), data.lock_file.stat())
    os.close(second)


def _refused(data: DataDir, lock: int) -> None:
    """Do what a start does when the directory is locked."""
    unclaim(data)
    os.close(lock)


def test_only_the_owner_can_read_a_new_data_directory_and_its_lock(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        os.close(claim(DataDir(tmp_path / "data")))
    finally:
        os.umask(old)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "gantry.lock").stat().st_mode & 0o777 == 0o600


def test_a_data_directory_that_others_could_read_is_closed_with_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o755)
    os.close(claim(DataDir(tmp_path)))
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert capsys.readouterr().err == (
        f"gantry: other users could look into {tmp_path} (mode 0755); now only its owner can\n"
    )
    os.close(claim(DataDir(tmp_path)))
    assert capsys.readouterr().err == ""
