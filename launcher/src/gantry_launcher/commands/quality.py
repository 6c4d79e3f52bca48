"""`check` and `test`: the same steps locally and in CI."""

import os
import subprocess
import time
from collections.abc import Mapping
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


LOCKS = (install.TEST_LOCK, install.SPARK_LOCK, install.LOAD_LOCK)
CHECKS = (
    Step("format", ("ruff", "format", "--check", ".")),
    Step("lint", ("ruff", "check", ".")),
    Step("types", ("pyright",)),
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
    results = [(step.name, *_run(step)) for step in steps]
    write_out("\n")
    for name, status, seconds in results:
        write_out(f"{name:<14} {'ok' if status == 0 else 'FAILED':<7} {seconds:6.1f} s\n")
    return 1 if any(status for _, status, _ in results) else 0


def _run(step: Step) -> tuple[int, float]:
    """Return (exit status, seconds) of a step whose output goes where ours goes."""
    write_out(f"\n== {step.name}: {' '.join(step.command)}\n")
    began = time.monotonic()
    program, *arguments = step.command
    command = [str(VENV / "bin" / program), *arguments]
    status = subprocess.run(command, cwd=ROOT, env=step.environment, check=False).returncode
    return status, time.monotonic() - began
