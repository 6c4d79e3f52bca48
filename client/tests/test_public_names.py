"""`import gantrymq`: every public name exists, and is loaded on first use."""

import subprocess
import sys

import pytest

import gantrymq


def test_every_public_name_exists_and_no_other() -> None:
    assert sorted(gantrymq.__all__) == sorted(gantrymq._MODULES)
    for name in gantrymq.__all__:
        assert getattr(gantrymq, name) is not None
    assert gantrymq.errors.GantryError is gantrymq.GantryError


def test_an_unknown_name_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'gantrymq' has no attribute 'Consumre'"):
        _ = gantrymq.Consumre


def test_the_command_line_loads_no_producer() -> None:
    source = "import sys, gantrymq.cli.main; print([name for name in sys.modules if name.startswith(('gantry_link', 'gantrymq.prod', 'httpx'))])"
    found = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
