"""`up`: install everything, lock the data directory, start the system in this process or in its own."""

import os
import signal

from gantry_launcher import install
from gantry_launcher.access.exposure import refuse_exposed
from gantry_launcher.access.keys import FirstUser, folder_of, keys_in_use, switch_on
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import DEFAULT_USER, UpOptions
from gantry_launcher.output.terminal import Terminal, say
from gantry_launcher.serving.replica_record import replication_of
from gantry_launcher.serving.serve import OTHERS, claim, serve, unclaim
from gantry_launcher.serving.settings_check import refuse_wrong_sets


def up(options: UpOptions) -> int:
    """Run the command; returns its exit status, or raises Refused."""
    _let_signals_interrupt()
    data = DataDir(options.data)
    has_access = keys_in_use(data) is not None
    refuse_exposed(options, has_access=has_access or options.access)
    replicas = replication_of(data, options.replicas).replicas
    install.ensure(install.RUN_LOCK, say)
    refuse_wrong_sets(options.sets, has_access=has_access or options.access, replicas=replicas)
    os.umask(OTHERS)  # only the user may read the data of the system; .venv above may be readable
    if options.access and not has_access:
        _switch_on(data)
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


def _switch_on(data: DataDir) -> None:
    folder = folder_of(data)
    first = switch_on(data, folder, DEFAULT_USER)
    say(f"access control is on; its key file is {folder.key_file}")
    if first is not None:
        _show(first)


def _show(first: FirstUser) -> None:
    """Show the secret on the terminal: no log has it."""
    say(f"user {first.name}, secret {first.secret} (shown only now)")


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
