"""`up`: install everything, lock the data directory, start the system in this process or in its own."""

import os
import signal

from gantry_launcher import install
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import UpOptions
from gantry_launcher.output.terminal import Terminal, say
from gantry_launcher.serving.serve import OTHERS, claim, serve, unclaim
from gantry_launcher.serving.settings_check import refuse_wrong_sets


def up(options: UpOptions) -> int:
    """Run the command; returns its exit status, or raises Refused."""
    _let_signals_interrupt()
    install.ensure(install.RUN_LOCK, say)
    refuse_wrong_sets(options.sets)
    os.umask(OTHERS)  # only the user may read the data of the system; .venv above may be readable
    data = DataDir(options.data)
    is_new = not data.path.exists()
    lock = claim(data)
    try:
        return _start(options, lock)
    except Refused:
        if is_new:
            unclaim(data)
        raise
    finally:
        os.close(lock)


def _start(options: UpOptions, lock: int) -> int:
    if options.detach:
        from gantry_launcher.serving.detach import start_detached

        return start_detached(options, lock)
    terminal = Terminal(as_json=options.json)
    try:
        serve(options, lock, terminal, echo=True)
    finally:
        terminal.close()
    return 0


def _let_signals_interrupt() -> None:
    """Let SIGTERM and SIGHUP end a start as Ctrl-C does, unless `nohup` ignores them."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
