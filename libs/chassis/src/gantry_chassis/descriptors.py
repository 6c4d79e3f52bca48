"""How many files and connections this process may have open at once, and how many of them are for connections."""

import resource

WANTED = 65_536
"""Connections and open files together; more than this nobody needs here."""
FILES_MAX = 1024
"""Descriptors kept for files and for connections of our own, where the limit allows that many."""
FILES_SHARE = 3
"""Under a low limit, one part of so many is kept."""


def raise_limit() -> int:
    """Raise the soft limit of open files as far as the machine allows, at most to WANTED; returns what it is now.

    Many machines begin at 1,024, which ten thousand clients are not held with. Needs no rights: the hard limit stays.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def for_connections() -> int:
    """Return below which number a descriptor may belong to a connection that came in.

    The kernel gives the lowest free number: one at or above this says that all below are taken, and the rest is for files.
    """
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = WANTED if soft == resource.RLIM_INFINITY else soft
    return limit - min(FILES_MAX, limit // FILES_SHARE)
