"""Who may take a data directory."""

import os
from pathlib import Path

import pytest

from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.serve import claim


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
