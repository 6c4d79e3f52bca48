"""`simulate`: drawn lives of the whole system in one process, in the Python of .venv; docs/simulation.md."""

import os
import sys
from typing import NoReturn

from gantry_launcher import install
from gantry_launcher.layout import PYTHON
from gantry_launcher.output.terminal import say

MODULE = "gantry_simulation"


def simulate(words: list[str]) -> NoReturn:
    """Become the program: Ctrl-C and the exit status are its own. Installs what the services need, if that is missing."""
    install.ensure(install.RUN_LOCK, say)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(PYTHON, [str(PYTHON), "-m", MODULE, *words])  # noqa: S606 - no shell is wanted
