"""`report` and `export`: what Spark needs, installed at their first use, then the program itself in the Python of .venv."""

import os
import sys
from typing import NoReturn

from gantry_launcher import install
from gantry_launcher.layout import PYTHON, ROOT, SOURCES
from gantry_launcher.output.terminal import say

MODULES = {"report": "gantry_spark.reports", "export": "gantry_spark.export"}
_NAMES_LOGS = frozenset({"--data", "--store", "--snapshot", "--merge"})
_SIZE = "a gigabyte on disk, once; it may take some minutes"


def spark(word: str, words: list[str]) -> NoReturn:
    """Become the program of a word: Ctrl-C and the exit status are its own. Without a place given, the data directory here is meant."""
    sys.stdout.flush()
    sys.stderr.flush()
    if {"-h", "--help"} & set(words):
        _help(word)
    for lock in (install.RUN_LOCK, install.SPARK_LOCK):
        if not install.is_ready(lock):
            say(f"{word} needs what {lock} names" + (f": {_SIZE}" if lock == install.SPARK_LOCK else ""))
            install.ensure(lock, say)
    place = [] if _names_logs(words) else ["--data", str(ROOT / "data")]
    os.execve(PYTHON, [str(PYTHON), "-m", MODULES[word], *place, *words], dict(os.environ))  # noqa: S606 - no shell is wanted


def _help(word: str) -> NoReturn:
    """Become the program that only prints its help: it needs nothing but Python, so nothing is installed for it."""
    sources = os.pathsep.join(str(ROOT / source) for source in SOURCES)
    environment = {**os.environ, "PYTHONPATH": sources}
    os.execve(sys.executable, [sys.executable, "-m", MODULES[word], "--help"], environment)  # noqa: S606


def _names_logs(words: list[str]) -> bool:
    """Whether it is said which logs are meant."""
    return any(word.partition("=")[0] in _NAMES_LOGS for word in words)
