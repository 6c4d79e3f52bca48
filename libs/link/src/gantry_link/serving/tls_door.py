"""TLS and plain connections on one port: the first byte of a connection decides, as in RocketMQ.

A door accepts the connections itself and looks at the first byte without taking it. 0x16 begins a TLS handshake; every other byte
belongs to the plain protocol. The server behind it gets a connection when its first byte is plain or its handshake is complete. Until
then it counts as one of the server's connections, within time limits, and a handshake counts bytes in the budget.

Knows no protocol and no files: the certificate is given as a function.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, cast

from gantry_link.serving.accepting import ACCEPTS_MAX
from gantry_link.serving.budget import Budget

TLS_RECORD = 0x16
"""First byte of a TLS connection: the type of a handshake record (RFC 8446, section 5.1)."""
SILENT_SECONDS = 60.0
"""Time for the first byte of a connection to arrive."""
HANDSHAKE_SECONDS = 10.0
HANDSHAKE_BYTES = 64 * 1024
"""Counted for a connection in its handshake: OpenSSL's state, its buffers, and what the client may send."""
ACCEPT_AGAIN_SECONDS = 1.0
"""Pause after the system had no descriptor or memory for a connection."""
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Refusal = Callable[[int, int], tuple[str, str] | None]
"""Gets the descriptor of a new connection, and how many of its port wait for their first byte or the end of their handshake.

Returns why it is refused as one word and as a message, or None.
"""
MakeProtocol = Callable[[], asyncio.BaseProtocol]


class ServerCertificate(Protocol):
    """The certificate of a process, with the mode of its ports."""

    @property
    def is_plain_allowed(self) -> bool:
        """Whether connections without TLS are served too."""
        ...

    def context(self, protocols: tuple[str, ...], /) -> ssl.SSLContext:
        """Return the context for a new connection, whose client may choose one of these protocols (ALPN)."""
        ...


class TlsDoor:
    """The doors of a process: its certificate, its budget, its time limits."""

    def __init__(
        self,
        certificate: ServerCertificate,
        budget: Budget,
        *,
        silent_seconds: float = SILENT_SECONDS,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        self.certificate, self.budget = certificate, budget
        self.silent_seconds, self.handshake_seconds = silent_seconds, handshake_seconds

    @classmethod
    def of(cls, certificate: ServerCertificate | None, budget: Budget) -> TlsDoor | None:
        """Return the door of a process; None without a certificate: its ports are plain."""
        return None if certificate is None else cls(certificate, budget)

    def open(
        self,
        listener: socket.socket,
        make: MakeProtocol,
        refusal: Refusal,
        protocols: tuple[str, ...] = (),
    ) -> OpenDoor:
        """Accept the connections of a listening, non-blocking socket. `make` creates the protocol of each. `protocols` are offered to clients of TLS (ALPN)."""
        return OpenDoor(self, listener, make, refusal, protocols)


class OpenDoor:
    """Accepts the connections of one listening socket."""

    def __init__(
        self,
        door: TlsDoor,
        listener: socket.socket,
        make: MakeProtocol,
        refusal: Refusal,
        protocols: tuple[str, ...],
    ) -> None:
        self.door, self.make, self.protocols = door, make, protocols
        self._listener, self._refusal = listener, refusal
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[_Waiting, None] = {}
        self._again: asyncio.TimerHandle | None = None
        self._loop.add_reader(listener, self._accept)

    @property
    def waiting(self) -> int:
        """Connections without a first byte or amid their handshake."""
        return len(self._waiting)

    def close(self) -> None:
        """Accept no more connections, and close those that have not begun."""
        if self._listener.fileno() < 0:
            return
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for one in list(self._waiting):
            one.cut()

    def left(self, one: _Waiting) -> None:
        """Forget a connection that has begun or ended."""
        self._waiting.pop(one, None)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # the client was gone before
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._loop.remove_reader(self._listener)
                    self._again = self._loop.call_later(ACCEPT_AGAIN_SECONDS, self._accept_again)
                return
            connection.setblocking(False)
            peer = f"{address[0]}:{address[1]}"
            refusal = self._refusal(connection.fileno(), len(self._waiting))
            if refusal is not None:
                self.door.budget.refused(refusal[0], peer, refusal[1])
                connection.close()
                continue
            one = _Waiting(self, connection, str(address[0]), peer)
            self._waiting[one] = None
            one.look()

    def _accept_again(self) -> None:
        self._again = None
        self._loop.add_reader(self._listener, self._accept)


class _Waiting:
    """A connection that its server does not know yet."""

    def __init__(self, port: OpenDoor, connection: socket.socket, host: str, peer: str) -> None:
        self._port, self._door = port, port.door
        self._connection, self._host, self._peer = connection, host, peer
        self._loop = asyncio.get_running_loop()
        self._is_watched = False
        self._is_handed_over = False
        self._beginning: asyncio.Task[None] | None = None
        self._deadline = self._loop.call_later(self._door.silent_seconds, self._late)

    def look(self) -> None:
        """Begin the connection if its first byte has arrived."""
        try:
            first = self._connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            if not self._is_watched:
                self._is_watched = True
                self._loop.add_reader(self._connection, self.look)
            return
        except OSError:
            first = b""
        self._stop_looking()
        if not first:
            self._end()
        elif first[0] == TLS_RECORD:
            self._begin(self._begin_tls())
        elif self._door.certificate.is_plain_allowed:
            self._begin(self._begin_plain())
        else:
            self._refuse("plain", "it does not speak TLS, and tls_mode=enforcing")

    def cut(self) -> None:
        """Close the connection."""
        self._stop_looking()
        if self._beginning is not None:
            self._beginning.cancel()
        else:
            self._end()

    def _begin(self, beginning: Coroutine[Any, Any, None]) -> None:
        self._beginning = self._loop.create_task(beginning, name="accepted")
        self._beginning.add_done_callback(self._begun)

    def _begun(self, beginning: asyncio.Task[None]) -> None:
        self._port.left(self)
        if not self._is_handed_over:
            self._connection.close()
        if not beginning.cancelled() and beginning.exception() is not None:
            context = {"message": f"accepting {self._peer} failed", "exception": beginning.exception()}
            self._loop.call_exception_handler(context)

    async def _begin_plain(self) -> None:
        self._is_handed_over = True
        with contextlib.suppress(OSError):  # the client was gone before
            await self._loop.connect_accepted_socket(self._port.make, self._connection)

    async def _begin_tls(self) -> None:
        budget = self._door.budget
        account = budget.account(self._host, "a TLS handshake", self._hoards)
        account.hold(HANDSHAKE_BYTES)
        context = self._door.certificate.context(self._port.protocols)
        self._is_handed_over = True
        try:
            await self._loop.connect_accepted_socket(
                self._port.make,
                self._connection,
                ssl=context,
                ssl_handshake_timeout=self._door.handshake_seconds,
            )
        except OSError as error:
            budget.refused("handshake", self._peer, f"its TLS handshake failed: {handshake_words(error)}")
        finally:
            account.hold(0)
            account.close()

    def _hoards(self, message: str) -> None:
        self._door.budget.refused("hoarding", self._peer, message)
        self.cut()

    def _late(self) -> None:
        self._refuse("silent", f"it sent nothing within {self._door.silent_seconds:g} s")

    def _refuse(self, reason: str, message: str) -> None:
        self._door.budget.refused(reason, self._peer, message)
        self._stop_looking()
        self._end()

    def _stop_looking(self) -> None:
        self._deadline.cancel()
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._connection)

    def _end(self) -> None:
        self._connection.close()
        self._port.left(self)


def handshake_words(error: OSError) -> str:
    """Return why a handshake failed, in OpenSSL's words if it has some."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return str(error) or type(error).__name__


def certificate_name(certificate: Mapping[str, Any] | None) -> str:
    """Return the first URI of a verified certificate's SAN, or else its first DNS name; empty if there is neither.

    `certificate` has the form of `ssl.SSLSocket.getpeercert`. The common name is no identity (RFC 9525, section 2).
    """
    names = cast("tuple[tuple[str, str], ...]", (certificate or {}).get("subjectAltName", ()))
    for wanted in ("URI", "DNS"):
        for kind, name in names:
            if kind == wanted:
                return name
    return ""
