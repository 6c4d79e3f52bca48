"""What the watch of a process sends on a connection, and when it is answered. Never waits."""

import contextlib
import socket
from typing import TYPE_CHECKING, Protocol

from gantry_launcher.planning.health import QUESTIONS, Check, speaks_tls, tls_context

if TYPE_CHECKING:
    import ssl

READ_BYTES = 65536


class Question(Protocol):
    """A request on one connection. Both methods raise OSError when the connection fails."""

    def send(self, connection: socket.socket) -> None:
        """Send it, or its first part."""
        ...

    def is_answered(self, connection: socket.socket) -> bool:
        """Read what came; return whether that is an answer. The end of the connection is one, too."""
        ...


def question_for(check: Check) -> Question:
    """Return the request that a process answers at once. Over TLS only where the port is known to speak nothing else."""
    if check.kind == "http" and speaks_tls(check):
        with contextlib.suppress(
            OSError
        ):  # without its certificate files: a closed plain connection is an answer, too
            return _OverTls(tls_context(check), QUESTIONS[check.kind])
    return _Plain(QUESTIONS[check.kind])


class _Plain:
    def __init__(self, sent: bytes) -> None:
        self._sent = sent

    def send(self, connection: socket.socket) -> None:
        connection.send(self._sent)

    def is_answered(self, connection: socket.socket) -> bool:
        connection.recv(READ_BYTES)
        return True


class _OverTls:
    """Completes the handshake: a port logs a warning about each one that is broken off."""

    def __init__(self, context: "ssl.SSLContext", sent: bytes) -> None:
        import ssl

        self._wants_more = ssl.SSLWantReadError
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._secure = context.wrap_bio(self._in, self._out)
        self._sent = sent

    def send(self, connection: socket.socket) -> None:
        with contextlib.suppress(self._wants_more):
            self._secure.do_handshake()
        connection.send(self._out.read())

    def is_answered(self, connection: socket.socket) -> bool:
        came = connection.recv(READ_BYTES)
        if not came:
            return True
        self._in.write(came)
        try:
            self._secure.do_handshake()
            if self._sent:
                self._secure.write(self._sent)
                self._sent = b""
            self._secure.read(READ_BYTES)
        except self._wants_more:
            return False
        else:
            return True
        finally:
            if more := self._out.read():
                connection.send(more)
