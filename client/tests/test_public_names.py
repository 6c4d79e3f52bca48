"""`import gantry`: every public name exists, and is loaded on first use."""

import subprocess
import sys

import pytest

import gantry


def test_every_public_name_exists_and_no_other() -> None:
    assert sorted(gantry.__all__) == sorted(gantry._MODULES)
    for name in gantry.__all__:
        assert getattr(gantry, name) is not None
    assert gantry.errors.GantryError is gantry.GantryError


def test_an_unknown_name_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'gantry' has no attribute 'Consumre'"):
        _ = gantry.Consumre


def test_the_command_line_loads_no_producer() -> None:
    source = "import sys, gantry.cli.main; print([name for name in sys.modules if name.startswith(('gantry_link', 'gantry.prod', 'httpx'))])"
    found = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
