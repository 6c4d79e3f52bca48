"""How `status` and `down` reach a running launcher: a socket without a file, so that a dead disk is no obstacle.

One word is asked; the answer is one JSON line. After `stop` the connection stays open until the launcher ends.
"""

import contextlib
import hashlib
import json
import os
import socket
import struct
from pathlib import Path
from typing import Any

ASK_SECONDS_MAX = 10.0
"""A launcher that lives answers in milliseconds; on a machine with more to do than it can, in seconds."""
ANSWER_SECONDS_MAX = 0.1
"""An answer fits into the socket's buffer: only a caller that does not read makes it wait."""
WORD_BYTES_MAX = 64
PEER_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid of SO_PEERCRED


def address(data: Path) -> str:
    """Return the abstract socket address that belongs to a data directory."""
    return "\0gantry-" + hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:32]


def listen(data: Path) -> socket.socket:
    """Listen for `status` and `down`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address(data))
    listener.listen(16)
    listener.setblocking(False)
    return listener


def accept(listener: socket.socket) -> socket.socket | None:
    """Take one caller, whose word may take its time to come; None when it may not ask."""
    try:
        connection, _ = listener.accept()
    except OSError:
        return None
    connection.setblocking(False)
    size = PEER_CREDENTIALS.size
    _, uid, _ = PEER_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if uid in {os.getuid(), 0}:
        return connection
    connection.close()
    return None


def word(connection: socket.socket) -> str | None:
    """Return what a caller asks, once it can be read; None, and the connection is closed, when it has gone away."""
    with contextlib.suppress(OSError):
        asked = connection.recv(WORD_BYTES_MAX).decode("ascii", "replace").strip()
        if asked:
            connection.setblocking(True)
            connection.settimeout(ANSWER_SECONDS_MAX)
            return asked
    connection.close()
    return None


def answer(connection: socket.socket, value: dict[str, Any]) -> None:
    """Answer a caller; one that has gone away is none of our trouble."""
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(value).encode() + b"\n")


def ask(data: Path, word: str) -> tuple[dict[str, Any], socket.socket] | None:
    """Ask the launcher of a data directory; None when there is none. The caller closes the connection."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(ASK_SECONDS_MAX)
        connection.connect(address(data))
        connection.sendall(word.encode() + b"\n")
        received = b""
        while not received.endswith(b"\n"):
            part = connection.recv(65536)
            if not part:
                raise ConnectionResetError
            received += part
        return json.loads(received), connection
    except OSError:
        connection.close()
        return None
