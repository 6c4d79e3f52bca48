"""Hands the commands of the client to its command line, in the Python of .venv."""

import os
import sys

from gantry_launcher import install
from gantry_launcher.layout import PYTHON, ROOT
from gantry_launcher.output.terminal import say
from gantry_launcher.processes import control
from gantry_launcher.serving.ending import unresponsive
from gantry_launcher.usage import COMPLETING

HTTP = "GANTRY_HTTP"


def client(words: list[str]) -> int:
    """Replace this process with the client, with the address of the system on the default data directory unless another is given."""
    install.ensure(install.RUN_LOCK, say)
    environment = dict(os.environ, GANTRY_PROGRAM="./gantry")
    if not environment.get(HTTP) and COMPLETING not in environment and not _names_data(words):
        running = control.ask(ROOT / "data", "status")
        if running is not None:
            running.connection.close()
        if isinstance(running, control.Unresponsive):
            say(f"{unresponsive(running, ROOT / 'data')}; trying the default address")
        elif running is not None:
            environment[HTTP] = running.state["http"]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(PYTHON, [str(PYTHON), "-m", "gantrymq.cli", *words], environment)  # noqa: S606 - no shell is wanted


def _names_data(words: list[str]) -> bool:
    """Whether --data is given: the command line itself asks for the system on it."""
    options = words[: words.index("--")] if "--" in words else words
    return any(word == "--data" or word.startswith("--data=") for word in options)
