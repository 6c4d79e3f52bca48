"""The control socket through which `status` and `down` reach a running launcher. It has no file, so it works on a dead disk.

A caller sends one word and gets one JSON line. After `stop` the connection stays open until the launcher ends. Any local user can take
the name of such a socket, so each end checks the credentials that the kernel reports for the other end.
"""

import contextlib
import hashlib
import json
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any, NamedTuple

from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir

ASK_SECONDS_MAX = 10.0
"""A launcher answers in milliseconds, and in seconds on an overloaded machine."""
RETRY_SECONDS = 0.05
CALLERS_MAX = 1024
"""Callers that may wait for a paused launcher: each `status` leaves one waiting."""
ANSWER_SECONDS_MAX = 0.1
"""An answer fits into the buffer of the socket, so the launcher waits only for a caller that does not read."""
WORD_BYTES_MAX = 64
PEER_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid of SO_PEERCRED


class Answer(NamedTuple):
    """The state of a system as its launcher reports it, and the connection to the launcher, which the caller closes."""

    state: dict[str, Any]
    connection: socket.socket
    launcher_pid: int
    """From the kernel, never from `state`."""


class Unresponsive(NamedTuple):
    """A launcher that exists but does not answer in time, and the connection to it, which the caller closes."""

    connection: socket.socket
    launcher_pid: int | None
    """From the kernel; None when it does not name one, as for a launcher with too many callers waiting."""


def address(data: Path) -> str:
    """Return the abstract socket address that belongs to a data directory."""
    return "\0gantry-" + hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:32]


def listen(data: Path) -> socket.socket:
    """Listen for `status` and `down`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address(data))
    listener.listen(CALLERS_MAX)
    listener.setblocking(False)
    return listener


def accept(listener: socket.socket) -> socket.socket | None:
    """Accept one caller without waiting for its word; return None when its user has no right to ask."""
    try:
        connection, _ = listener.accept()
    except OSError:
        return None
    connection.setblocking(False)
    _, uid = _peer(connection)
    if uid in {os.getuid(), 0}:
        return connection
    connection.close()
    return None


def word(connection: socket.socket) -> str | None:
    """Return the word of a caller when it can be read; close the connection and return None when the caller has left."""
    with contextlib.suppress(OSError):
        asked = connection.recv(WORD_BYTES_MAX).decode("ascii", "replace").strip()
        if asked:
            connection.setblocking(True)
            connection.settimeout(ANSWER_SECONDS_MAX)
            return asked
    connection.close()
    return None


def answer(connection: socket.socket, value: dict[str, Any]) -> None:
    """Answer a caller, and ignore one that has left."""
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(value).encode() + b"\n")


def ask(data: Path, word: str) -> Answer | Unresponsive | None:
    """Ask the launcher of a data directory; None when there is none.

    Raises Refused when the process that listens belongs neither to the caller, nor to root, nor to the owner of the directory's lock
    file: nothing is sent to it, and nothing it says is read.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    until = time.monotonic() + ASK_SECONDS_MAX
    pid: int | None = None
    try:
        _connect(connection, address(data), until)
        pid = _trusted_peer(connection, data)
        connection.sendall(word.encode() + b"\n")
        return Answer(json.loads(_line(connection, until)), connection, pid)
    except TimeoutError:
        return Unresponsive(connection, pid or None)
    except OSError:
        connection.close()
        return None
    except Refused:
        connection.close()
        raise


def _connect(connection: socket.socket, name: str, until: float) -> None:
    """Connect; raises TimeoutError when the launcher has taken no caller from its full queue until then."""
    while True:
        connection.settimeout(max(0.0, until - time.monotonic()))
        try:
            return connection.connect(name)
        except (
            BlockingIOError
        ) as error:  # the queue is full; the kernel does not wait for a socket with a timeout
            if time.monotonic() >= until:
                raise TimeoutError from error
            time.sleep(RETRY_SECONDS)


def _trusted_peer(connection: socket.socket, data: Path) -> int:
    """Return the pid of the process that listens. Raises Refused when its user may not speak for the data directory."""
    pid, uid = _peer(connection)
    if uid not in _trusted(data):
        raise Refused(
            f"user {uid} listens in the place of the launcher of {data} (pid {pid}) and is not believed: "
            "end that process, or take another --data"
        )
    return pid


def _line(connection: socket.socket, until: float) -> bytes:
    """Return the line that arrives until then. Raises TimeoutError, or ConnectionResetError when the launcher ends."""
    received = b""
    while not received.endswith(b"\n"):
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        part = connection.recv(65536)
        if not part:
            raise ConnectionResetError
        received += part
    return received


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return process and user at the other end of a connection."""
    pid, uid, _ = PEER_CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER_CREDENTIALS.size)
    )
    return pid, uid


def _trusted(data: Path) -> set[int]:
    """Return the users whose launcher may speak for a data directory. Only the owner of the directory can create its lock file."""
    users = {os.getuid(), 0}
    with contextlib.suppress(OSError):
        users.add(DataDir(data).lock_file.lstat().st_uid)
    return users
