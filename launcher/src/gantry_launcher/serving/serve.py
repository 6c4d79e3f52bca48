"""From a claimed data directory to a running system: the plan, its ports, the log, the supervisor."""

import contextlib
import fcntl
import os
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from gantry_launcher.access.exposure import AccessControl
from gantry_launcher.access.keys import KeyFolder, keys_in_use
from gantry_launcher.errors import Refused, why
from gantry_launcher.layout import DataDir
from gantry_launcher.options import UpOptions
from gantry_launcher.output.service_log import Output
from gantry_launcher.output.terminal import say
from gantry_launcher.planning.plan import make_plan
from gantry_launcher.planning.ports import Ports
from gantry_launcher.planning.system_plan import SystemPlan
from gantry_launcher.processes import control
from gantry_launcher.processes.orders import Restarts
from gantry_launcher.processes.supervisor import Supervisor
from gantry_launcher.processes.waiting import Waiting
from gantry_launcher.serving.ending import unresponsive
from gantry_launcher.serving.group_orders import GroupOrders
from gantry_launcher.serving.replica_record import record, replication_of
from gantry_launcher.serving.side_secrets import make_side_secrets

DYING_SECONDS_MAX = 45.0
STARTING_SECONDS_MAX = 0.5
OTHERS = 0o077
"""The permissions of every user except the owner."""
LOOPBACKS = ("127.", "::1", "localhost")


class Reporter(Protocol):
    """Receives the progress of a start."""

    def say(self, message: str) -> None:
        """Report progress."""
        ...

    def ready(self, state: dict[str, Any]) -> None:
        """Report that the system is ready, with its addresses."""
        ...


def claim(data: DataDir) -> int:
    """Create the data directory and lock it; return the descriptor that holds the lock. Raises Refused."""
    for outer in data.path.resolve().parents:
        if DataDir(outer).lock_file.exists():
            raise Refused(f"{data.path} lies inside the data directory of another system, {outer}")
    try:
        data.path.mkdir(parents=True, exist_ok=True)
        lock = os.open(data.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(f"cannot use the data directory {data.path}: {why(error)}") from error
    until = time.monotonic() + DYING_SECONDS_MAX
    has_said = False
    while not _locked(lock):
        try:
            _refuse_beside_launcher(data)
            if time.monotonic() > until:
                raise Refused(f"the data directory {data.path} is in use; ./gantry down --data {data.path}")
        except Refused:
            os.close(lock)
            raise
        if not has_said:
            say("waiting for the last processes of an earlier run in this data directory")
        has_said = True
        time.sleep(0.05)
    _close_to_others(data.path)
    if not _is_in_place(lock, data):  # another start was refused and removed it meanwhile
        os.close(lock)
        return claim(data)
    return lock


def _close_to_others(path: Path) -> None:
    """Remove the permissions of other users from an existing data directory."""
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & OTHERS:
            return
        try:
            path.chmod(mode & ~OTHERS)
            say(f"other users could look into {path} (mode {mode:04o}); now only its owner can")
        except OSError as error:
            say(f"other users may look into {path} (mode {mode:04o}), and it cannot be changed: {why(error)}")


def unclaim(data: DataDir) -> None:
    """Remove a data directory that we have locked, when it contains only the lock file."""
    with contextlib.suppress(OSError):
        if [entry.name for entry in data.path.iterdir()] == [data.lock_file.name]:
            data.lock_file.unlink()
            data.path.rmdir()


def serve(options: UpOptions, lock: int, reporter: Reporter, *, echo: bool) -> None:
    """Run the system in this process until it is stopped. Raises Refused when it cannot start."""
    hosts = (options.listen,) if options.listen.startswith(LOOPBACKS) else ("127.0.0.1", options.listen)
    ports = Ports(hosts)
    output: Output | None = None
    try:
        keys = keys_in_use(DataDir(options.data))
        replication = replication_of(DataDir(options.data), options.replicas)
        plan = make_plan(options, ports, keys, replication)
        record(DataDir(options.data), replication)
        make_side_secrets(DataDir(options.data), plan.nats)
        if keys is not None:
            _make_audit_folder(DataDir(options.data))
        listener = listen(options.data)
        output = Output(DataDir(options.data).log, echo=echo)
        supervisor = supervisor_of(options, plan, output, lock, listener)
        if replication.replicas == 1:
            supervisor.run(_on_ready(plan, keys, output, reporter, _ignore), reporter.say, Restarts())
        else:
            orders = GroupOrders(options, ports, keys, replication, plan, output, reporter.say)
            on_ready = _on_ready(plan, keys, output, reporter, orders.note_ready)
            supervisor.run(on_ready, reporter.say, orders)
        output.line("gantry", "stopped")
    finally:
        ports.close()
        if output is not None:
            output.close()


def supervisor_of(
    options: UpOptions,
    plan: SystemPlan,
    output: Output,
    lock: int,
    listener: socket.socket,
    steady: Callable[[], float] = time.monotonic,
) -> Supervisor:
    """Return the supervisor of a plan, as the options ask for it."""
    waiting = Waiting((store.directory for store in plan.stores), steady(), options.timeout_seconds)
    return Supervisor(
        plan, output, lock, listener, options.asked_at, options.hung_seconds, waiting, steady,
    )  # fmt: skip


def listen(data: Path) -> socket.socket:
    """Return the socket for status and down. Raises Refused."""
    try:
        return control.listen(data)
    except OSError as error:
        message = f"cannot listen for status and down of {data}: {error.strerror}"
        raise Refused(f"{message}; another process has taken their address, take another --data") from error


def _locked(lock: int) -> bool:
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _is_in_place(lock: int, data: DataDir) -> bool:
    """Return whether the locked file is still the one at its path."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), data.lock_file.stat())
    return False


def _refuse_beside_launcher(data: DataDir) -> None:
    """Raise Refused where a launcher runs with the directory; one that is just starting answers within moments."""
    until = time.monotonic() + STARTING_SECONDS_MAX
    while time.monotonic() < until:
        answer = control.ask(data.path, "status")
        if answer is not None:
            answer.connection.close()
        if isinstance(answer, control.Unresponsive):
            raise Refused(unresponsive(answer, data.path))
        if answer is not None:
            raise Refused(f"the data directory {data.path} is in use; ./gantry down --data {data.path}")
        time.sleep(0.05)


def _ignore(_state: dict[str, Any]) -> None:
    """Add nothing to the state of a system without replicas."""


def _on_ready(
    plan: SystemPlan,
    keys: KeyFolder | None,
    output: Output,
    reporter: Reporter,
    note_ready: Callable[[dict[str, Any]], None],
) -> Callable[[dict[str, Any]], None]:
    def report(state: dict[str, Any]) -> None:
        output.line("gantry", f"ready after {state['seconds']} s at {plan.http}")
        if keys is not None:
            forget_first_user(keys)
        note_ready(state)
        if plan.access is not AccessControl.OFF:
            message = plan.access.words(plan.listen)
            output.line("gantry", message)
            reporter.say(message)
        reporter.ready(state)

    return report


def _make_audit_folder(data: DataDir) -> None:
    """Make the folder that the processes write their audit logs into. Raises Refused."""
    try:
        data.audit.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot make {data.audit}: {why(error)}") from error


def forget_first_user(keys: KeyFolder) -> None:
    """Remove the file of the first user: every store that is ready has taken it."""
    with contextlib.suppress(OSError):
        keys.initial_user.unlink()
