"""How many files and connections this process may have open at once."""

import resource

WANTED = 65_536
"""Connections and open files together; more than this nobody needs here."""


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
