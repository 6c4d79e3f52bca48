"""`check` and `test`: the same steps locally and in CI."""

import os
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gantry_launcher import install
from gantry_launcher.layout import ROOT, VENV
from gantry_launcher.options import parse_test
from gantry_launcher.output.terminal import say, write_out

NOT_BY_DEFAULT = "not soak"


@dataclass(frozen=True)
class Step:
    """One tool and what it judges."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] | None = None
    """In the place of our own."""
    is_beside: bool = False
    """It starts with the first step and runs beside all others, on what they leave of the machine. Its output follows theirs."""


@dataclass(frozen=True)
class Ran:
    """How a step ended."""

    status: int
    seconds: float
    output: str = ""
    """Of a step beside others; any other has written it already."""


LOCKS = (install.TEST_LOCK, install.SPARK_LOCK, install.LOAD_LOCK)
CHECKS = (
    Step("format", ("ruff", "format", "--check", ".")),
    Step("lint", ("ruff", "check", ".")),
    Step("types", ("pyright",), is_beside=True),  # one process, longer than the other checks together
    Step("import rules", ("lint-imports", "--no-cache")),
    Step("spelling", ("codespell",)),
)


def check() -> int:
    """Run every check, also after one that failed; exit status 0 when all passed."""
    for lock in LOCKS:
        install.ensure(lock, say)
    return _run_all(CHECKS)


def test(words: list[str]) -> int:
    """Run the checks and the tests. Long runs (marker soak) only where the arguments choose markers themselves."""
    command = pytest_command(words)
    for lock in LOCKS:
        install.ensure(lock, say)
    return _run_all((*CHECKS, Step("tests", command, test_environment(os.environ))))


def pytest_command(words: list[str]) -> tuple[str, ...]:
    """Return the command line of pytest. Raises Refused where `--workers` is no sensible number."""
    workers, arguments = parse_test(words)
    chosen = any(word.startswith("-m") for word in arguments)
    markers = () if chosen else ("-m", NOT_BY_DEFAULT)
    parallel = ("-n", str(workers)) if workers > 1 else ()
    return ("python", "-m", "pytest", *parallel, *markers, *arguments)


def test_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the tests. They start a thousand processes, which compile no source again and again.

    If compiled files cannot be next to the sources, they are in the virtual environment.
    """
    theirs = dict(ours)
    if theirs.pop("PYTHONDONTWRITEBYTECODE", ""):
        theirs["PYTHONPYCACHEPREFIX"] = str(VENV / "pycache")
    return theirs


def _run_all(steps: tuple[Step, ...]) -> int:
    beside = [step for step in steps if step.is_beside]
    with ThreadPoolExecutor(len(beside) or 1) as threads:
        running = [(step, threads.submit(_run_beside, step)) for step in beside]
        ran = {step.name: _run(step) for step in steps if not step.is_beside}
        for step, begun in running:
            ran[step.name] = begun.result()
            write_out(f"{_heading(step)}{ran[step.name].output}")
    write_out("\n")
    for step in steps:
        result = "ok" if ran[step.name].status == 0 else "FAILED"
        write_out(f"{step.name:<14} {result:<7} {ran[step.name].seconds:6.1f} s\n")
    return 1 if any(each.status for each in ran.values()) else 0


def _heading(step: Step) -> str:
    return f"\n== {step.name}: {' '.join(step.command)}\n"


def _run(step: Step) -> Ran:
    """Run a step whose output goes where ours goes."""
    write_out(_heading(step))
    began = time.monotonic()
    status = subprocess.run(_command(step), cwd=ROOT, env=step.environment, check=False).returncode
    return Ran(status, time.monotonic() - began)


def _run_beside(step: Step) -> Ran:
    """Run a step and keep its output."""
    began = time.monotonic()
    done = subprocess.run(
        _command(step), cwd=ROOT, env=step.environment, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    return Ran(done.returncode, time.monotonic() - began, done.stdout)


def _command(step: Step) -> list[str]:
    program, *arguments = step.command
    return [str(VENV / "bin" / program), *arguments]
