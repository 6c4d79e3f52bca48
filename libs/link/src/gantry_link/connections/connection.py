"""One client connection to a server: many open calls, with answers in any order.

All calls of a turn leave in one write. A call costs a future, but no task and no timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from gantry_link.connections.calls import Answer, Call, Calls
from gantry_link.connections.client_tls import TlsContext
from gantry_link.connections.turn import Turn
from gantry_link.errors import ConnectionBusy, ConnectionLost, NotConnected
from gantry_link.limits import JOIN_BYTES_MAX, LinkLimits
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import FLAG_RESPONSE, Command, decode_command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.typed_header import Header

REQUEST_SECONDS = 3.0
CONNECT_SECONDS = 3.0
SILENT_SECONDS = 10.0
"""Longer than any disk stall that a store survives. A shorter time would end calls that are still in progress."""

RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""Of SO_LINGER: the kernel sends a reset instead of what is left."""

PushHandler = Callable[["Connection", Command], None]
"""Called for every request from the server. It answers with `Connection.send`."""
Lost = Callable[["Connection"], None]
Fields: TypeAlias = "Header | dict[str, str] | None"
Signer = Callable[[Fields, bytes], dict[str, str]]
"""Takes the fields and the body of a request and returns the fields with a signature."""


class Connection(asyncio.Protocol):
    """A connected socket to one address. Created by `connect`; not reused after it ended."""

    __slots__ = (
        "__weakref__",
        "_calls",
        "_decoder",
        "_flush_bound",
        "_loop",
        "_lost",
        "_on_lost",
        "_on_push",
        "_paused",
        "_received_at",
        "_transport",
        "_turn",
        "_unanswered_since",
        "_unsent",
        "_unsent_bytes",
        "_unsent_key",
        "address",
        "is_open",
        "last_used",
        "limits",
        "next_opaque",
        "next_opaques",
        "sign",
    )

    def __init__(
        self,
        address: str,
        on_push: PushHandler | None = None,
        limits: LinkLimits | None = None,
        *,
        on_lost: Lost | None = None,
        sign: Signer | None = None,
    ) -> None:
        """`on_lost` is called when the connection ended by itself."""
        self.address: str = address
        self.limits: LinkLimits = limits or LinkLimits()
        self._on_lost = on_lost
        self.sign: Signer | None = sign
        """Signs the requests that this class encodes. Callers that encode frames sign them."""
        self._loop = asyncio.get_running_loop()
        self._received_at = self.last_used = self._loop.time()
        """Loop times of the last bytes received, and of the last bytes in either direction."""
        self._unanswered_since = -1.0
        self._on_push = on_push
        self._turn = Turn.current()
        self._decoder = FrameDecoder()
        self._calls = Calls(self._withdraw, self.limits.calls_max, self._silent_since)
        self.next_opaque: Callable[[], int] = self._calls.next_opaque
        """Returns the opaque for a frame that the caller encodes and passes to `ask` at once."""
        self.next_opaques: Callable[[int], Sequence[int]] = self._calls.next_opaques
        """Returns the opaques for frames that the caller passes to `ask_together`."""
        self._transport: asyncio.Transport | None = None
        self._unsent: dict[int, bytes] = {}
        self._unsent_bytes = 0
        self._unsent_key = 0
        self._flush_bound = self._flush
        self._paused = False
        self._lost = False
        self.is_open: bool = False
        """Whether calls are possible. An attribute, because every send reads it (a property takes 0.1 us more)."""

    @property
    def remote(self) -> tuple[str, int]:
        """IP address and port of the server, as the socket knows them; `("", 0)` once the connection ended."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return (str(name[0]), int(name[1])) if name else ("", 0)

    @property
    def open_calls(self) -> int:
        """Number of calls without an answer."""
        return len(self._calls)

    @property
    def silent_seconds(self) -> float:
        """How long the server has sent nothing although calls are open; 0 without any."""
        started = self._calls.oldest_started
        return 0.0 if started is None else max(0.0, self._loop.time() - max(started, self._received_at))

    def request(
        self,
        code: int,
        header: Fields = None,
        body: bytes = b"",
        timeout: float = REQUEST_SECONDS,
    ) -> asyncio.Future[Command]:
        """Send a request at the end of this turn. The future gets the answer, whatever its code, or a LinkError.

        `timeout` is in seconds, accurate to SWEEP_SECONDS. Raises NotConnected or ConnectionBusy at once.
        """
        answer: asyncio.Future[Command] = self._loop.create_future()
        self.request_for(answer, code, header, body, timeout)
        return answer

    def request_for(
        self, answer: Answer, code: int, header: Fields, body: bytes = b"", timeout: float = REQUEST_SECONDS
    ) -> None:
        """As `request`, with a given receiver, which gets the answer in the turn in which it arrives."""
        if not self.is_open:
            raise NotConnected(f"not connected to {self.address}")
        if self.sign is not None:
            header = self.sign(header, body)
        opaque = self._calls.next_opaque()
        self.ask(opaque, encode_request(code, opaque, header, body), answer, timeout)

    def ask(self, opaque: int, frame: bytes, answer: Answer, timeout: float) -> None:
        """As `request`, with an encoded frame and a given receiver of the answer."""
        if not self.is_open:
            raise NotConnected(f"not connected to {self.address}")
        if self._unsent_bytes + len(frame) > self.limits.output_bytes_max:
            raise ConnectionBusy(f"{self.address} does not read: {self._unsent_bytes} bytes wait")
        self._calls.open_for(answer, opaque, timeout)
        self._put(opaque, frame)

    def ask_together(self, calls: Mapping[int, Call], earliest: float, frames: bytes) -> bool:
        """As `ask`, for the frames of several calls. The first deadline is `earliest`.

        Returns False and does nothing if the frames would have to wait. The caller then asks one by one, so that each call can be
        withdrawn.
        """
        limits = self.limits
        if (
            self._paused
            or not self.is_open
            or len(self._calls) + len(calls) > limits.calls_max
            or self._unsent_bytes + len(frames) > limits.output_bytes_max
        ):
            return False
        self._calls.open_together(calls, earliest)
        self._unsent_key -= 1  # below every opaque
        self._put(self._unsent_key, frames)
        return True

    def oneway(self, code: int, header: Fields = None, body: bytes = b"") -> None:
        """Send a request without an answer."""
        if self.sign is not None:
            header = self.sign(header, body)
        opaque = self._calls.next_opaque()
        self.send(encode_request(code, opaque, header, body, oneway=True))

    def send(self, frame: bytes) -> None:
        """Queue an encoded frame, for example an answer to a push."""
        if not self.is_open:
            raise NotConnected(f"not connected to {self.address}")
        if self._unsent_bytes + len(frame) > self.limits.output_bytes_max:
            raise ConnectionBusy(f"{self.address} does not read: {self._unsent_bytes} bytes wait")
        self._unsent_key -= 1  # below every opaque
        self._put(self._unsent_key, frame)

    def give_up(self, wanted: Callable[[Answer], bool], why: str) -> None:
        """End the calls that `wanted` selects: their callers no longer wait."""
        self._calls.give_up(wanted, why)

    def abandon(self, why: str) -> None:
        """Close at once, also if the server hangs. Open calls end with ConnectionLost, whose `sent` says which may have been carried out."""
        self._reset(why)

    def close(self) -> None:
        """Send the queued frames, then close. Open calls end with ConnectionLost."""
        if self._transport is not None and not self._lost:
            self._flush()
            self._transport.close()
            self._end("closed")

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = not self._lost
        pause = self.limits.output_pause_bytes
        self._transport.set_write_buffer_limits(high=pause, low=pause // 4)

    def data_received(self, data: bytes) -> None:
        """Handle every whole frame."""
        resolve = self._calls.resolve
        self._received_at = self.last_used = self._loop.time()
        try:
            for frame in self._decoder.receive(data):
                command = decode_command(frame)
                if command.flag & FLAG_RESPONSE:
                    resolve(command)
                else:
                    self._handle_push(command)
        except WireError as error:
            self._reset(f"sent an invalid frame: {error}")

    def pause_writing(self) -> None:
        """Stop writing: the server does not read."""
        self._paused = True

    def resume_writing(self) -> None:
        """Write again: the server has read."""
        self._paused = False
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all calls on this connection."""
        self._transport = None
        self._end(f"was lost: {exc}" if exc else "was closed by the server")

    def _handle_push(self, command: Command) -> None:
        """Pass a request of the server to the push handler, or answer that there is none."""
        if self._on_push is not None:
            self._on_push(self, command)
        elif not command.is_oneway:
            remark = f" request type {command.code} not supported"
            self.send(encode_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, command.opaque, remark=remark))

    def _put(self, key: int, frame: bytes) -> None:
        if not self._unsent and not self._paused:
            self._turn.write_at_end(self._flush_bound)
        self._unsent[key] = frame
        self._unsent_bytes += len(frame)

    def _flush(self) -> None:
        transport = self._transport
        if self._paused or not self._unsent or transport is None:
            return
        frames, self._unsent = self._unsent, {}
        size, self._unsent_bytes = self._unsent_bytes, 0
        self.last_used: float = self._loop.time()
        if size <= JOIN_BYTES_MAX:
            transport.write(b"".join(frames.values()))
        else:
            transport.writelines(list(frames.values()))

    def _withdraw(self, opaque: int) -> bool:
        frame = self._unsent.pop(opaque, None)
        if frame is None:
            return False
        self._unsent_bytes -= len(frame)
        return True

    def _silent_since(self, started: float) -> None:
        """Close the connection if its calls time out and nothing arrives for SILENT_SECONDS: the server vanished."""
        if self._received_at > started:
            return
        if self._unanswered_since < self._received_at:
            self._unanswered_since = started
        if self._loop.time() - self._unanswered_since >= SILENT_SECONDS:
            self._reset(f"was silent for {SILENT_SECONDS:g} s")

    def _reset(self, why: str) -> None:
        """Give the connection up. The server must not take this for the end of the process and free its queue locks."""
        if self._transport is not None:
            connected = self._transport.get_extra_info("socket")
            if connected is not None:
                with contextlib.suppress(OSError):  # it is gone already
                    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
            self._transport.abort()
            self._end(why)

    def _end(self, why: str) -> None:
        if self._lost:
            return
        self._lost = True
        self.is_open = False
        self._calls.fail_all(
            lambda sent: ConnectionLost(f"the connection to {self.address} {why}", sent=sent)
        )
        self._unsent.clear()
        if self._on_lost is not None:
            self._on_lost(self)


async def connect(
    address: str,
    *,
    on_push: PushHandler | None = None,
    limits: LinkLimits | None = None,
    within_seconds: float = CONNECT_SECONDS,
    on_lost: Lost | None = None,
    sign: Signer | None = None,
    tls: TlsContext | None = None,
) -> Connection:
    """Connect to "host:port", by TLS with the context of `tls`.

    Raises NotConnected with the reason if that, or the verification of the server's certificate, fails or takes too long.
    """
    host, port = split_address(address)
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {}
    if tls is not None:
        options = {"ssl": tls(), "server_hostname": host}
    try:
        async with asyncio.timeout(within_seconds):
            _, connection = await loop.create_connection(
                lambda: Connection(address, on_push, limits, on_lost=on_lost, sign=sign),
                host,
                port,
                **options,
            )
    except TimeoutError as error:
        raise NotConnected(f"no connection to {address} within {within_seconds:g} s") from error
    except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
        raise NotConnected(f"cannot connect to {address}: {error}") from error
    return connection


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of "host:port" or "[v6]:port". Raises NotConnected if it is neither."""
    host, colon, port = address.rpartition(":")
    if not host or not colon or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise NotConnected(f"{address!r} is not an address; write host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
