"""Would a service take these settings? `python -m gantry_chassis.check_settings MODULE:STRUCT SERVICE [--set name=value]…`.

For the launcher, which asks before it starts anything. Exit status 0, or one line and 2, as the service itself would answer.
"""

import sys
from importlib import import_module

from gantry_chassis.settings import settings_or_exit


def main(argv: list[str]) -> None:
    """Read the settings of the named Struct as its service does; nothing is started."""
    where, service, *words = argv
    module, _, name = where.partition(":")
    settings_or_exit(getattr(import_module(module), name), service, words)


if __name__ == "__main__":
    main(sys.argv[1:])
