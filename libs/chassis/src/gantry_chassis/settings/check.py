"""Checks settings as a service would: `python -m gantry_chassis.settings.check MODULE:STRUCT SERVICE [--set name=value]…`.

The launcher runs it before it starts anything. Exits with 0, or with 2 and the service's own one-line error.
"""

import sys
from importlib import import_module

from gantry_chassis.settings.loading import settings_or_exit


def main(argv: list[str]) -> None:
    """Read the settings of the named Struct as its service does, and start nothing."""
    where, service, *arguments = argv
    module, _, name = where.partition(":")
    settings_or_exit(getattr(import_module(module), name), service, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
