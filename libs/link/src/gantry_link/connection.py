"""One connection to a server, seen from the client: many calls on their way, answers in any order.

Calls of one turn leave in one write. A future per call, no task and no timer per call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from gantry_link.calls import Answer, Call, Calls
from gantry_link.errors import ConnectionBusy, ConnectionLost, NotConnected
from gantry_link.limits import JOIN_BYTES_MAX, LinkLimits
from gantry_link.turn import Turn
from gantry_wire.codes import ResponseCode
from gantry_wire.command import FLAG_RESPONSE
from gantry_wire.errors import WireError
from gantry_wire.frame import (
    Command,
    FrameDecoder,
    decode_command,
    encode_request,
    encode_response,
)
from gantry_wire.header import Header

REQUEST_SECONDS = 3.0
CONNECT_SECONDS = 3.0
SILENT_SECONDS = 10.0
"""Longer than any stall of a disk that a store survives: less would break calls that are still being worked on."""

PushHandler = Callable[["Connection", Command], None]
"""Called for every request the server sends us; it answers with `Connection.send`."""
Fields: TypeAlias = "Header | dict[str, str] | None"
Signer = Callable[[Fields, bytes], dict[str, str]]
"""Returns the fields of a request, given with its body, with what proves who sends it."""


class Connection(asyncio.Protocol):
    """A connected socket to one address. Made by `connect`; not reused after it was lost."""

    __slots__ = (
        "_asked_in_vain",
        "_calls",
        "_decoder",
        "_flush_bound",
        "_loop",
        "_lost",
        "_on_push",
        "_paused",
        "_received_at",
        "_transport",
        "_turn",
        "_unsent",
        "_unsent_bytes",
        "_unsent_key",
        "address",
        "is_open",
        "last_used",
        "limits",
        "next_opaque",
        "next_opaques",
        "on_lost",
        "sign",
    )

    def __init__(
        self, address: str, on_push: PushHandler | None = None, limits: LinkLimits | None = None
    ) -> None:
        self.address: str = address
        self.limits: LinkLimits = limits or LinkLimits()
        self.on_lost: Callable[[Connection], None] | None = None
        self.sign: Signer | None = None
        """Applied to requests that are encoded here; who encodes elsewhere signs there."""
        self._loop = asyncio.get_running_loop()
        self._received_at = self.last_used = self._loop.time()
        """Loop times of the last bytes in, and of the last bytes either way."""
        self._asked_in_vain = -1.0
        self._on_push = on_push
        self._turn = Turn.current()
        self._decoder = FrameDecoder()
        self._calls = Calls(self._withdraw, self.limits.calls_max)
        self._calls.on_silence = self._silent_since
        self.next_opaque: Callable[[], int] = self._calls.next_opaque
        """Returns the number for a frame that is encoded elsewhere and handed to `ask` at once."""
        self.next_opaques: Callable[[int], Sequence[int]] = self._calls.next_opaques
        """Returns the numbers for frames that are handed to `ask_together`."""
        self._transport: asyncio.Transport | None = None
        self._unsent: dict[int, bytes] = {}
        self._unsent_bytes = 0
        self._unsent_key = 0
        self._flush_bound = self._flush
        self._paused = False
        self._lost = False
        self.is_open: bool = False
        """Whether calls can be made. An attribute, as every send looks at it (a property takes 0.1 us more)."""

    @property
    def open_calls(self) -> int:
        """How many calls wait for an answer."""
        return len(self._calls)

    def request(
        self,
        code: int,
        header: Fields = None,
        body: bytes = b"",
        timeout: float = REQUEST_SECONDS,
    ) -> asyncio.Future[Command]:
        """Send a request at the end of this turn; the future gives the answer, whatever its code, or a LinkError.

        `timeout` in seconds, kept to SWEEP_SECONDS. Raises NotConnected or ConnectionBusy at once.
        """
        answer: asyncio.Future[Command] = self._loop.create_future()
        self.request_for(answer, code, header, body, timeout)
        return answer

    def request_for(
        self, answer: Answer, code: int, header: Fields, body: bytes = b"", timeout: float = REQUEST_SECONDS
    ) -> None:
        """As `request`, for something that waits already: it is told in the turn in which the answer came."""
        if not self.is_open:
            raise NotConnected(f"not connected to {self.address}")
        if self.sign is not None:
            header = self.sign(header, body)
        opaque = self._calls.next_opaque()
        self.ask(opaque, encode_request(code, opaque, header, body), answer, timeout)

    request_nowait = request

    def ask(self, opaque: int, frame: bytes, answer: Answer, timeout: float) -> None:
        """As `request`, with a whole frame, and with something that waits for the answer already."""
        if not self.is_open:
            raise NotConnected(f"not connected to {self.address}")
        if self._unsent_bytes + len(frame) > self.limits.output_bytes_max:
            raise ConnectionBusy(f"{self.address} does not read: {self._unsent_bytes} bytes wait")
        self._calls.open_for(answer, opaque, timeout)
        self._put(opaque, frame)

    def ask_together(self, calls: Mapping[int, Call], earliest: float, frames: bytes) -> bool:
        """As `ask`, for the whole frames of calls that begin together, the first of which times out at `earliest`.

        False, and nothing was done, where they would wait for room: then they are asked one by one, so that each can be taken back.
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
        """Send a request that nobody answers."""
        if self.sign is not None:
            header = self.sign(header, body)
        opaque = self._calls.next_opaque()
        self.send(encode_request(code, opaque, header, body, oneway=True))

    def send(self, frame: bytes) -> None:
        """Queue a whole frame: an answer to a push, or something encoded elsewhere."""
        if not self.is_open:
            raise NotConnected(f"not connected to {self.address}")
        if self._unsent_bytes + len(frame) > self.limits.output_bytes_max:
            raise ConnectionBusy(f"{self.address} does not read: {self._unsent_bytes} bytes wait")
        self._unsent_key -= 1  # below every opaque
        self._put(self._unsent_key, frame)

    def give_up(self, wanted: Callable[[Answer], bool], why: str) -> None:
        """End the calls that `wanted` says: nobody waits for their answers any more."""
        self._calls.give_up(wanted, why)

    def close(self) -> None:
        """Send what is queued, then close; open calls end with ConnectionLost."""
        if self._transport is not None and not self._lost:
            self._flush()
            self._transport.close()
            self._end("closed")

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = not self._lost
        pause = self.limits.output_pause_bytes
        self._transport.set_write_buffer_limits(high=pause, low=pause // 4)

    def data_received(self, data: bytes) -> None:
        """Handle every whole frame that has arrived."""
        resolve = self._calls.resolve
        self._received_at = self.last_used = self._loop.time()
        try:
            for frame in self._decoder.receive(data):
                command = decode_command(frame)
                if command.flag & FLAG_RESPONSE:
                    resolve(command)
                else:
                    self._asked(command)
        except WireError as error:
            if self._transport is not None:
                self._transport.abort()
            self._end(f"sent what is no answer: {error}")

    def pause_writing(self) -> None:
        """Note that the other side does not read."""
        self._paused = True

    def resume_writing(self) -> None:
        """Go on: the other side has read."""
        self._paused = False
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """End everything that waits on this connection."""
        self._transport = None
        self._end(f"was lost: {exc}" if exc else "was closed by the other side")

    def _asked(self, command: Command) -> None:
        """Hand on what the server asks, or say that nobody here answers."""
        if self._on_push is not None:
            self._on_push(self, command)
        elif not command.is_oneway:
            words = f" request type {command.code} not supported"
            self.send(encode_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, command.opaque, remark=words))

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
        """Give a connection up whose calls time out while nothing at all arrives: the other side is gone without a word."""
        if self._received_at > started:
            return
        if self._asked_in_vain < self._received_at:
            self._asked_in_vain = started
        if self._loop.time() - self._asked_in_vain >= SILENT_SECONDS and self._transport is not None:
            self._transport.abort()
            self._end("has gone silent")

    def _end(self, why: str) -> None:
        if self._lost:
            return
        self._lost = True
        self.is_open = False
        self._calls.fail_all(
            lambda sent: ConnectionLost(f"the connection to {self.address} {why}", sent=sent)
        )
        self._unsent.clear()
        if self.on_lost is not None:
            self.on_lost(self)


async def connect(
    address: str,
    *,
    on_push: PushHandler | None = None,
    limits: LinkLimits | None = None,
    within_seconds: float = CONNECT_SECONDS,
) -> Connection:
    """Connect to "host:port"; NotConnected with the reason when it cannot be done within the time."""
    host, port = split_address(address)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(within_seconds):
            _, connection = await loop.create_connection(
                lambda: Connection(address, on_push, limits), host, port
            )
    except TimeoutError as error:
        raise NotConnected(f"no connection to {address} within {within_seconds:g} s") from error
    except (OSError, UnicodeError) as error:  # the latter: a name that no host can have
        raise NotConnected(f"cannot connect to {address}: {error}") from error
    return connection


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of "host:port" or "[v6]:port"; NotConnected when it is neither."""
    host, colon, port = address.rpartition(":")
    if not host or not colon or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise NotConnected(f"{address!r} is no address; write host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
