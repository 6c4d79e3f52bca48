"""How a process refuses to start: one line on stderr says why, and the exit status is 2."""

import sys
from typing import NoReturn

EXIT_REFUSED = 2
EXIT_RESTART = 75
"""A supervisor starts the process again at once. It is no crash."""


class StartRefused(Exception):
    """The process cannot start as configured (port taken, directory in use); the text says what to do."""


class RestartNeeded(Exception):
    """The life of the process is over, in order; the text says why. Its exit status is 75."""


def refuse_start(service: str, reason: str) -> NoReturn:
    """Print in one line why the process cannot start, and exit with status 2."""
    sys.stderr.write(f"{service}: {reason}\n")
    raise SystemExit(EXIT_REFUSED)
