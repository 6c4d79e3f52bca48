"""Descriptors: the standard streams, how many files this process may open, and how many of them connections may use."""

import os
import resource
import sys
from pathlib import Path

WANTED = 65_536
"""Enough for all connections and open files together."""
FILES_MAX = 1024
"""Descriptors reserved for files and outgoing connections, where the limit allows that many."""
FILES_SHARE = 3
"""Under a low limit, the reserved share is one in this many."""
STDERR = 2


def fill_standard_streams() -> None:
    """Open descriptors 0, 1 and 2 on the null device when the parent process has closed them. Call it first.

    Otherwise the event loop or a file takes such a number, and the log, which writes to 2, damages it.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= STDERR:
        os.set_inheritable(descriptor, True)
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - None when it was closed
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def raise_limit() -> int:
    """Raise the soft limit of open files as far as allowed, at most to WANTED; return the new limit.

    Many machines start at 1,024, too few for ten thousand clients. Needs no privileges: the hard limit stays.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def for_connections() -> int:
    """Return the bound below which a descriptor may belong to an incoming connection.

    The kernel assigns the lowest free number. A number at or above the bound means that all below are in use.
    """
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = WANTED if soft == resource.RLIM_INFINITY else soft
    return limit - min(FILES_MAX, limit // FILES_SHARE)
