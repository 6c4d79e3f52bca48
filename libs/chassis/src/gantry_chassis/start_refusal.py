"""How a process refuses to start: one line on stderr says why, and the exit status is 2."""

import sys
from typing import NoReturn

EXIT_REFUSED = 2


class StartRefused(Exception):
    """The process cannot start as configured (port taken, directory in use); the text says what to do."""


def refuse_start(service: str, reason: str) -> NoReturn:
    """Print in one line why the process cannot start, and exit with status 2."""
    sys.stderr.write(f"{service}: {reason}\n")
    raise SystemExit(EXIT_REFUSED)
