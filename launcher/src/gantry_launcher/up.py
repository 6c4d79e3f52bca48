"""`up`: have everything installed, claim the data directory, start the system here or in a process of its own."""

import os

from gantry_launcher import install
from gantry_launcher.layout import DataDir
from gantry_launcher.options import UpOptions
from gantry_launcher.serve import claim, serve
from gantry_launcher.settings_check import refuse_wrong_sets
from gantry_launcher.terminal import Terminal, say


def up(options: UpOptions) -> int:
    """Run the command; returns its exit status, or raises Refused."""
    install.ensure(install.RUN_LOCK, say)
    refuse_wrong_sets(options.sets)
    lock = claim(DataDir(options.data))
    try:
        if options.detach:
            from gantry_launcher.detach import start_detached

            return start_detached(options, lock)
        serve(options, lock, Terminal(as_json=options.json), echo=True)
        return 0
    finally:
        os.close(lock)
