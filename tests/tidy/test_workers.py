"""How tests are distributed to workers: whole files, and everything with Spark in one worker."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES_PER_FOLDER = 4
TEST = """
import os
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", range(3))
def test_it(number):
    with (Path(__file__).parents[1] / "ran").open("a") as ran:
        print(f"{Path(__file__).parent.name}/{Path(__file__).name} {os.environ['PYTEST_XDIST_WORKER']}", file=ran)
"""


@pytest.fixture
def ran(tmp_path: Path) -> dict[str, list[str]]:
    """The worker of each test of each file, in a small tree that two workers run with this tree's conftest.py."""
    pytest.importorskip("xdist")
    shutil.copy(ROOT / "conftest.py", tmp_path)
    for folder in ("spark", "libs"):
        (tmp_path / folder).mkdir()
        for number in range(FILES_PER_FOLDER):
            (tmp_path / folder / f"test_{number}.py").write_text(TEST)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "xdist",
        "-n",
        "2",
        "-c",
        "/dev/null",
        "--rootdir",
        ".",
        ".",
    ]
    done = subprocess.run(
        [*command, "--import-mode=importlib"],
        cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    workers: dict[str, list[str]] = {}
    for line in (tmp_path / "ran").read_text().splitlines():
        file, worker = line.split()
        workers.setdefault(file, []).append(worker)
    return workers


def test_one_worker_runs_a_whole_file_and_one_worker_runs_all_of_spark(ran: dict[str, list[str]]) -> None:
    assert {file: len(workers) for file, workers in ran.items()} == {
        f"{folder}/test_{number}.py": 3 for folder in ("spark", "libs") for number in range(FILES_PER_FOLDER)
    }
    assert all(len(set(workers)) == 1 for workers in ran.values())
    of_spark = {worker for file, workers in ran.items() if file.startswith("spark/") for worker in workers}
    assert len(of_spark) == 1
    assert {worker for workers in ran.values() for worker in workers} == {"gw0", "gw1"}
