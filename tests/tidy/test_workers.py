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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small tree with this tree's conftest.py."""
    made = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "conftest.py", made)
    for folder in ("spark", "libs"):
        (made / folder).mkdir()
        for number in range(FILES_PER_FOLDER):
            (made / folder / f"test_{number}.py").write_text(TEST)
    return made


@pytest.fixture(scope="module")
def shown(tree: Path) -> str:
    """What two workers show, after they have run the tree."""
    pytest.importorskip("xdist")
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
        cwd=tree, capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def ran(tree: Path, shown: str) -> dict[str, list[str]]:
    """The worker of each test of each file."""
    workers: dict[str, list[str]] = {}
    for line in (tree / "ran").read_text().splitlines():
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


def test_the_longest_files_and_the_end_of_each_worker_are_shown(shown: str) -> None:
    lines = shown[shown.index("longest files") :].splitlines()
    files = [line.partition(" s ")[2] for line in lines if " s " in line and "ended" not in line][1:]
    assert sorted(files) == ["libs/test_0.py", "libs/test_1.py", "libs/test_2.py", "libs/test_3.py", "spark"]
    assert [line.split()[:3] for line in lines if "ended" in line] == [
        ["gw0", "ended", "after"],
        ["gw1", "ended", "after"],
    ]
