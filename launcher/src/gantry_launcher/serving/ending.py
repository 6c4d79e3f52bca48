"""Ends a launcher that does not answer, then the services it leaves behind.

Signals go only to the process that the kernel names at the other end of the connection, and to that process's children. They go
through pidfds, so a pid that the kernel has given to another process is never hit.
"""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.output.terminal import say
from gantry_launcher.processes.control import Unresponsive

STOP_SECONDS_MAX = 48.0
"""The time a launcher needs at most to stop its services in order."""
REPLY_SECONDS_MAX = 10.0
"""A launcher that continues replies within this time; one that does not is killed."""
SERVICE_SECONDS_MAX = 27.0
"""The time a service has to end after its launcher was killed: the longest grace of any service, and a margin."""


class Stat(NamedTuple):
    """State and parent of a process, from /proc."""

    state: str
    parent: int


class _Service(NamedTuple):
    pid: int
    handle: int


def stat(pid: int) -> Stat | None:
    """Return state and parent of a process; None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, parent, *_ = text.rpartition(")")[2].split()
    return Stat(state, int(parent))


def is_stopped(pid: int) -> bool:
    """Return whether a signal (SIGSTOP, Ctrl-Z) or a debugger has stopped a process."""
    found = stat(pid)
    return found is not None and found.state in {"T", "t"}


def unresponsive(launcher: Unresponsive, data: Path) -> str:
    """Return a message that says which launcher does not answer, and what to do."""
    pid = launcher.launcher_pid
    if pid is None:
        return f"the launcher of {data} does not answer; find its pid with fuser {DataDir(data).lock_file}"
    end = f"./gantry down --data {data} ends it and its services"
    if is_stopped(pid):
        return f"the launcher of {data} (pid {pid}) is stopped: kill -CONT {pid} continues it, {end}"
    return f"the launcher of {data} (pid {pid}) does not answer: {end}"


def end_launcher(connection: socket.socket, pid: int) -> None:
    """End the launcher that holds the other end of `connection`, and its services. Raises Refused where this is not permitted.

    The connection must have carried `stop`: the launcher keeps such a connection open until it ends.
    """
    try:
        launcher = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError as error:
        raise Refused(f"cannot end the launcher (pid {pid}): {error.strerror or error}") from error
    try:
        if _has_closed(
            connection
        ):  # it ended before its pidfd was opened: the pid may belong to another process
            return
        _send(launcher, pid, signal.SIGTERM)
        _send(launcher, pid, signal.SIGCONT)  # second, so that a stopped launcher handles SIGTERM first
        if _wait_for_launcher(launcher, connection):
            return
        with _children(pid) as services:
            say(f"the launcher (pid {pid}) does not end by itself; killing it")
            _send(launcher, pid, signal.SIGKILL)
            _end_services(services)
    finally:
        os.close(launcher)


def _send(handle: int, pid: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    except OSError as error:
        raise Refused(
            f"cannot end the launcher (pid {pid}): {error.strerror or error}; run down as the user that started it"
        ) from error


def _has_closed(connection: socket.socket) -> bool:
    """Read what has arrived; return whether the other end is closed."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _wait_for_launcher(launcher: int, connection: socket.socket) -> bool:
    """Wait for the end of a launcher; one that replies has the time it needs to stop its services."""
    began = time.monotonic()
    until = began + REPLY_SECONDS_MAX
    watched: list[int | socket.socket] = [launcher, connection]
    while (left := until - time.monotonic()) > 0:
        readable, _, _ = select.select(watched, [], [], left)
        if launcher in readable:
            return True
        if connection in readable:
            _has_closed(connection)
            watched = [launcher]
            until = began + STOP_SECONDS_MAX
    return False


@contextlib.contextmanager
def _children(launcher: int) -> Generator[list[_Service]]:
    """Hold every child of a launcher by a pidfd. The launcher must still exist."""
    found: list[_Service] = []
    try:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _is_child(int(entry.name), launcher):
                with contextlib.suppress(ProcessLookupError):
                    found.append(_Service(int(entry.name), os.pidfd_open(int(entry.name))))
        yield [one for one in found if _is_child(one.pid, launcher)]
    finally:
        for one in found:
            os.close(one.handle)


def _is_child(pid: int, launcher: int) -> bool:
    found = stat(pid)
    return found is not None and found.parent == launcher


def _end_services(services: Sequence[_Service]) -> None:
    """Wait for services that the kernel has sent SIGTERM; kill those that do not end in time."""
    for one in services:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(one.handle, signal.SIGCONT)  # a stopped service cannot handle SIGTERM
    until = time.monotonic() + SERVICE_SECONDS_MAX
    left: list[_Service] = list(services)
    while left and (seconds := until - time.monotonic()) > 0:
        ended, _, _ = select.select([one.handle for one in left], [], [], seconds)
        left = [one for one in left if one.handle not in ended]
    for one in left:
        say(f"the service with pid {one.pid} does not end by itself; killing it")
        with contextlib.suppress(OSError):  # it ended just now
            os.killpg(one.pid, signal.SIGKILL)  # its workers too
