"""The file `gantry` parses on an old Python, so that it can print which version it needs."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gantry_launcher.layout import ROOT

ENTRY = ROOT / "gantry"


def test_an_old_python_can_read_it() -> None:
    ast.parse(ENTRY.read_text(), feature_version=(3, 5))


def test_an_old_python_is_refused_in_one_line() -> None:
    code = f"import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_path({str(ENTRY)!r}, run_name='__main__')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith("gantry: needs Python 3.11 or newer, this is ")
    assert ran.stderr.count("\n") == 1


def test_it_answers_without_the_packages_of_the_venv() -> None:
    command = [sys.executable, "-S", "-E", str(ENTRY), "--help"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    "words", [["--help"], ["status", "--json", "--data", "nowhere"], ["bench", "--list"]]
)
def test_a_full_standard_output_is_one_line_and_a_status(words: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, str(ENTRY), *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (1, "gantry: cannot write the output: No space left on device\n")


def test_a_reader_that_has_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        [sys.executable, str(ENTRY), "--help"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, "")
