"""`load`: what the load profiles need, installed at their first use, then the program itself in the Python of .venv."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from gantry_launcher import install
from gantry_launcher.layout import PYTHON, ROOT, SOURCES
from gantry_launcher.output.terminal import say

MODULE = "gantry_loadtest"
ONLY_TELL = frozenset({"-h", "--help", "--list"})
LOCKS = (install.RUN_LOCK, install.LOAD_LOCK)


def load(words: list[str]) -> int:
    """Become the program: Ctrl-C and the exit status are its own. A wrong word is refused before anything is installed."""
    sys.stdout.flush()
    sys.stderr.flush()
    if ONLY_TELL & set(words):
        return _become(Path(sys.executable), words, _environment())  # needs nothing but Python
    missing = [lock for lock in LOCKS if not install.is_ready(lock)]
    if missing:
        command = [sys.executable, "-m", MODULE, "--check", *words]
        status = subprocess.run(command, env=_environment(), check=False).returncode
        if status:
            return status
    for lock in missing:
        say(f"load needs what {lock} names")
        install.ensure(lock, say)
    return _become(PYTHON, words, dict(os.environ))


def _become(python: Path, words: list[str], environment: dict[str, str]) -> NoReturn:
    os.execve(python, [str(python), "-m", MODULE, *words], environment)  # noqa: S606 - no shell is wanted


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / source) for source in SOURCES)}
