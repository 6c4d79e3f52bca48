"""The server's side of a connection of HTTP/2: bytes to calls, and answers to bytes (RFC 9113).

It does no IO and reads no clock. `receive` takes what the client sent and returns what happened; `take_output` returns what there is to write. After `Ended` nothing is
received any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from gantry_h2.budget import CONTENT_BYTES, PER_CALL, RESET_COST, FloodBudget
from gantry_h2.errors import ConnectionFault, ErrorCode, StreamFault
from gantry_h2.events import Data, Ended, Event, Request, Reset, Sent, Trailers
from gantry_h2.frames import (
    FRAME_BYTES_MAX,
    FRAME_BYTES_MIN,
    FRAME_HEADER,
    GOAWAY,
    PREFACE,
    SETTING,
    STREAM_MAX,
    U32,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    Flag,
    FrameType,
    Setting,
    frame,
    settings_frame,
    window_update,
)
from gantry_h2.header_blocks import Block, HeaderBlocks, unpadded
from gantry_h2.hpack.decoder import HeaderDecoder
from gantry_h2.hpack.encoder import encode_block
from gantry_h2.hpack.errors import HeadersTooLarge, HpackError
from gantry_h2.hpack.static_table import Header
from gantry_h2.limits import Limits
from gantry_h2.receiving import ReceiveWindows
from gantry_h2.request_headers import Malformed, check_request, check_trailers
from gantry_h2.sending import Sending
from gantry_h2.streams import Stream, Streams

FRAME_HEADER_BYTES: Final = FRAME_HEADER.size
SMALL_CONTENT: Final = 256
"""Content in smaller pieces costs like a frame without any, unless it ends its call."""
_DRAINING: Final = b"draining"
_ALIVE: Final = b"is alive"
"""Contents of our own PINGs."""
_DEBUG_BYTES_MAX: Final = 200


class Connection:
    """One client's connection. `now` is in seconds of a steady clock, the same one for all calls."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._budget = FloodBudget(now)
        self._now = now
        self._buffer = b""
        self._is_greeted = False
        self._has_settings = False
        self._ended: Ended | None = None
        self._last_accepted = STREAM_MAX
        """Streams with a higher number are ignored: GOAWAY said so."""
        self._blocks = HeaderBlocks(limits.header_list_bytes_max)
        self._decoder = HeaderDecoder(limits.header_table_bytes, limits.header_list_bytes_max)
        self._streams = Streams()
        self._sending = Sending()
        self._receiving = ReceiveWindows(limits, self._sending)
        self._events: list[Event] = []
        self._sending.write(settings_frame(limits.settings()))
        self._sending.write(window_update(0, limits.connection_window - WINDOW_DEFAULT))

    # --- what the client sends -------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Take bytes, cut anywhere. Return what happened, in its order; the last event is Ended if the client broke a rule."""
        if self._ended is not None:
            return []
        self._now = now
        self._buffer = self._buffer + data if self._buffer else data
        try:
            if self._is_greeted or self._greet():
                self._frames()
        except ConnectionFault as fault:
            self._end(fault.code, str(fault))
        events, self._events = self._events, []
        return events

    def _greet(self) -> bool:
        begin = self._buffer[: len(PREFACE)]
        if not PREFACE.startswith(begin):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the client does not begin as HTTP/2 does")
        if len(begin) < len(PREFACE):
            return False
        self._is_greeted = True
        self._buffer = self._buffer[len(PREFACE) :]
        return True

    def _frames(self) -> None:
        buffer, at = self._buffer, 0
        length = len(buffer)
        try:
            while length - at >= FRAME_HEADER_BYTES:
                high, low, kind, flags, stream = FRAME_HEADER.unpack_from(buffer, at)
                size = high << 8 | low
                if size > self._limits.frame_bytes_max:
                    raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
                begin = at + FRAME_HEADER_BYTES
                if length - begin < size:
                    break
                at = begin + size
                self._frame(kind, flags, stream & STREAM_MAX, buffer[begin:at])
        finally:
            self._buffer = buffer[at:]

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if not self._has_settings and kind != FrameType.SETTINGS:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is no SETTINGS")
        awaited = self._blocks.awaited
        if awaited and (kind != FrameType.CONTINUATION or stream != awaited):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame within a block of headers")
        handler = self._HANDLERS.get(kind)
        if handler is None:
            self._spend(1, "frames of unknown types")
            return
        try:
            handler(self, flags, stream, payload)
        except StreamFault as fault:
            self._spend(RESET_COST, "streams that break rules")
            if fault.stream in self._streams.open:
                self._events.append(Reset(fault.stream, fault.code))
            self._reset(fault.stream, fault.code)

    # --- calls -------------------------------------------------------------------------------------------------

    def _on_headers(self, flags: int, stream: int, payload: bytes) -> None:
        if stream not in self._streams.open and not self._streams.was_reset(stream):
            self._streams.check_new(stream)
        block = self._blocks.begin(stream, flags, payload)
        if block is not None:
            self._on_block(block)

    def _on_continuation(self, flags: int, stream: int, payload: bytes) -> None:
        self._spend(1, "CONTINUATION")
        block = self._blocks.follow(stream, flags, payload)
        if block is not None:
            self._on_block(block)

    def _on_block(self, block: Block) -> None:
        number = block.stream
        known = self._streams.open.get(number)
        is_new = known is None and number > self._streams.last
        if is_new:
            self._streams.last = number
        try:
            headers = self._decoder.decode(block.coded)
        except HpackError as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, str(error)) from None
        except HeadersTooLarge as error:
            raise StreamFault(number, ErrorCode.ENHANCE_YOUR_CALM, str(error)) from None
        if block.depends_on_itself:
            raise StreamFault(number, ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")
        if is_new:
            self._begin(number, headers, is_end=block.is_end)
        elif known is not None:
            self._on_trailers(known, headers, is_end=block.is_end)
        elif block.is_end:
            self._streams.forget_reset(number)

    def _begin(self, number: int, headers: tuple[Header, ...], *, is_end: bool) -> None:
        if number > self._last_accepted:
            return
        if len(self._streams.open) >= self._limits.streams_max:
            self._spend(RESET_COST, "calls beyond the limit")
            raise StreamFault(number, ErrorCode.REFUSED_STREAM, "too many calls at one time")
        try:
            announced = check_request(headers)
        except Malformed as error:
            raise StreamFault(number, ErrorCode.PROTOCOL_ERROR, str(error)) from None
        stream = Stream(number, self._limits.stream_window, self._sending.stream_window, announced)
        stream.count_content(0, is_end=is_end)
        stream.has_ended = is_end
        self._streams.open[number] = stream
        self._events.append(Request(number, headers, is_end))

    def _on_trailers(self, stream: Stream, headers: tuple[Header, ...], *, is_end: bool) -> None:
        if stream.has_ended:
            raise StreamFault(stream.id, ErrorCode.STREAM_CLOSED, "headers behind the end of a call")
        if not is_end:
            raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR, "headers within the content of a call")
        try:
            check_trailers(headers)
        except Malformed as error:
            raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR, str(error)) from None
        stream.count_content(0, is_end=True)
        stream.has_ended = True
        self._events.append(Trailers(stream.id, headers))

    def _on_data(self, flags: int, number: int, payload: bytes) -> None:
        self._streams.check_known(number, "DATA")
        is_end = bool(flags & Flag.END_STREAM)
        content = unpadded(flags, payload)
        size = len(content)
        if size < SMALL_CONTENT and not is_end:
            self._spend(1, "small DATA")
        else:
            self._budget.earn(size / CONTENT_BYTES)
        self._receiving.count(len(payload))
        stream = self._streams.open.get(number)
        if stream is None:
            self._receiving.give_back(len(payload))
            if not self._streams.was_reset(number) and number <= self._last_accepted:
                raise ConnectionFault(ErrorCode.STREAM_CLOSED, f"DATA on stream {number}, which is over")
            if is_end:
                self._streams.forget_reset(number)
            return
        self._receiving.count_stream(stream, len(payload))
        if stream.has_ended:
            raise StreamFault(number, ErrorCode.STREAM_CLOSED, "DATA behind the end of a call")
        stream.count_content(size, is_end=is_end)
        stream.has_ended = is_end
        if len(payload) > size:
            self._receiving.consumed(stream, len(payload) - size)
        self._events.append(Data(number, content, size, is_end))

    def _on_reset(self, flags: int, number: int, payload: bytes) -> None:  # noqa: ARG002 - a table calls it
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM has 4 bytes")
        self._streams.check_known(number, "RST_STREAM")
        self._spend(RESET_COST, "RST_STREAM")
        self._streams.forget_reset(number)
        stream = self._streams.open.get(number)
        if stream is not None:
            self._close(stream, is_reset=False)
            self._events.append(Reset(number, U32.unpack(payload)[0]))

    # --- the connection ----------------------------------------------------------------------------------------

    def _on_settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream")
        if len(payload) % SETTING.size or (flags & Flag.ACK and payload):
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS has a wrong length")
        if flags & Flag.ACK:
            if not self._has_settings:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first SETTINGS is an acknowledgement")
            return
        self._has_settings = True
        self._spend(1 + len(payload) / SETTING.size, "SETTINGS")
        for key, value in SETTING.iter_unpack(payload):
            self._set(key, value)
        self._sending.write(frame(FrameType.SETTINGS, Flag.ACK, 0))

    def _set(self, key: int, value: int) -> None:
        if key == Setting.ENABLE_PUSH and value > 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is 0 or 1")
        if key == Setting.INITIAL_WINDOW_SIZE:
            if value > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is too large")
            self._resize_windows(value)
        elif key == Setting.MAX_FRAME_SIZE:
            if not FRAME_BYTES_MIN <= value <= FRAME_BYTES_MAX:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of its bounds")
            self._sending.frame_bytes_max = min(value, 1 << 16)  # larger ones would delay other calls

    def _resize_windows(self, size: int) -> None:
        more = size - self._sending.stream_window
        self._sending.stream_window = size
        for stream in [*self._streams.open.values()]:
            stream.send_window += more
            if stream.send_window > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window of more than 2^31 - 1 bytes")
            if stream.pending:
                self._push(stream)

    def _on_window(self, flags: int, number: int, payload: bytes) -> None:  # noqa: ARG002 - a table calls it
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE has 4 bytes")
        self._spend(1, "WINDOW_UPDATE")
        size = U32.unpack(payload)[0] & WINDOW_MAX
        if number == 0:
            if size == 0:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a window of 0 bytes")
            before = self._sending.content_bytes
            for stream in self._sending.open_connection(size):
                self._push(stream)
            self._earn_content(before)
            return
        self._streams.check_known(number, "WINDOW_UPDATE")
        stream = self._streams.open.get(number)
        if stream is None:
            return  # it was over before the client knew
        if size == 0:
            raise StreamFault(number, ErrorCode.PROTOCOL_ERROR, "a window of 0 bytes")
        self._sending.open_stream(stream, size)
        if stream.pending:
            self._push(stream)

    def _on_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "PING has 8 bytes")
        if not flags & Flag.ACK:
            self._spend(1, "PING")
            self._sending.write(frame(FrameType.PING, Flag.ACK, 0, payload))
        elif payload == _DRAINING and self._last_accepted == STREAM_MAX:
            self._last_accepted = self._streams.last  # what the client sent before it knew has arrived
            self._write_goaway(ErrorCode.NO_ERROR, "")

    def _on_goaway(self, flags: int, stream: int, payload: bytes) -> None:  # noqa: ARG002 - a table calls it
        if stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < GOAWAY.size:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY is too short")
        self._spend(1, "GOAWAY")  # it begins no more calls, and closes when the open ones are answered

    def _on_priority(self, flags: int, number: int, payload: bytes) -> None:  # noqa: ARG002 - a table calls it
        if number == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        self._spend(1, "PRIORITY")
        if len(payload) != 5:
            raise StreamFault(number, ErrorCode.FRAME_SIZE_ERROR, "PRIORITY has 5 bytes")
        if U32.unpack_from(payload)[0] & STREAM_MAX == number:
            raise StreamFault(number, ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")

    def _on_push(self, flags: int, stream: int, payload: bytes) -> None:  # noqa: ARG002 - a table calls it
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client pushes nothing")

    # --- answers -----------------------------------------------------------------------------------------------

    def begin_answer(self, number: int, headers: tuple[Header, ...]) -> None:
        """Send the headers of an answer. Like all that follows here, it does nothing for a call that is over."""
        stream = self._streams.open.get(number)
        if stream is not None and not stream.is_begun:
            stream.is_begun = True
            self._sending.headers(number, encode_block(headers), is_end=False)

    def send(self, number: int, data: bytes) -> None:
        """Send content. What the client's windows do not allow waits: see `pending_bytes`."""
        stream = self._streams.open.get(number)
        if stream is not None and stream.end is None:
            self._sending.content(stream, data)
            self._push(stream)

    def finish(self, number: int, trailers: tuple[Header, ...]) -> None:
        """End an answer, with headers behind its content. Where no answer began, they are all of it."""
        stream = self._streams.open.get(number)
        if stream is not None and stream.end is None:
            stream.end = encode_block(trailers) if trailers else b""
            self._push(stream)

    def answer(
        self, number: int, headers: tuple[Header, ...], data: bytes, trailers: tuple[Header, ...]
    ) -> None:
        """Send a whole answer."""
        stream = self._streams.open.get(number)
        if stream is None or stream.is_begun or stream.end is not None:
            return
        stream.is_begun = True
        begin, end = encode_block(headers), encode_block(trailers) if trailers else b""
        if self._sending.whole(stream, begin, data, end):
            self._budget.earn(len(data) / CONTENT_BYTES + 1)
            self._answered(stream)
            return
        self._sending.headers(number, begin, is_end=False)
        self._sending.content(stream, data)
        stream.end = end
        self._push(stream)

    def reset(self, number: int, code: ErrorCode) -> None:
        """End a call without an answer, or without the rest of it."""
        if number in self._streams.open:
            self._reset(number, code)

    def consumed(self, number: int, size: int) -> None:
        """Allow the client to send as much again: the content of `Data` was used."""
        stream = self._streams.open.get(number)
        if stream is not None:
            self._receiving.consumed(stream, size)

    def pending_bytes(self, number: int) -> int:
        """Return how much of an answer waits for the client's windows, in bytes."""
        stream = self._streams.open.get(number)
        return 0 if stream is None else stream.pending_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of answers that wait for the client's windows. An answer is held whole until its last byte has left."""
        return self._sending.held_bytes

    @property
    def open_calls(self) -> int:
        """The number of calls that are not over."""
        return len(self._streams.open)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of a frame, or a block of headers, that has not arrived whole."""
        return len(self._buffer) + self._blocks.held_bytes

    @property
    def has_output(self) -> bool:
        """Say whether there is something to write."""
        return self._sending.has_output

    @property
    def is_drained(self) -> bool:
        """Say whether the client can begin no more calls, and all are over."""
        return self._last_accepted != STREAM_MAX and not self._streams.open

    def take_output(self) -> bytes:
        """Return what there is to write, once."""
        return self._sending.take()

    def ping(self) -> None:
        """Ask the client whether it is there. Any bytes that it sends are the answer."""
        if self._ended is None:
            self._sending.write(frame(FrameType.PING, 0, 0, _ALIVE))

    def drain(self) -> None:
        """Let the client begin no more calls; those that it has begun are served (RFC 9113, 6.8: two GOAWAY with a round trip between)."""
        if self._ended is None and self._last_accepted == STREAM_MAX:
            self._sending.write(frame(FrameType.GOAWAY, 0, 0, GOAWAY.pack(STREAM_MAX, ErrorCode.NO_ERROR)))
            self._sending.write(frame(FrameType.PING, 0, 0, _DRAINING))

    # --- ends --------------------------------------------------------------------------------------------------

    def _push(self, stream: Stream) -> None:
        before = self._sending.content_bytes
        is_answered = self._sending.push(stream)
        self._earn_content(before)
        if is_answered:
            self._answered(stream)
        elif stream.pending:
            stream.is_waiting = True
        elif stream.is_waiting:
            stream.is_waiting = False
            self._events.append(Sent(stream.id))

    def _answered(self, stream: Stream) -> None:
        self._budget.earn(PER_CALL)
        if not stream.has_ended:  # nobody reads the rest (RFC 9113, 8.1)
            self._sending.write(frame(FrameType.RST_STREAM, 0, stream.id, U32.pack(ErrorCode.NO_ERROR)))
        self._close(stream, is_reset=not stream.has_ended)

    def _reset(self, number: int, code: ErrorCode) -> None:
        self._sending.write(frame(FrameType.RST_STREAM, 0, number, U32.pack(code)))
        stream = self._streams.open.get(number)
        if stream is not None:
            self._close(stream, is_reset=not stream.has_ended)
        elif number <= self._streams.last:
            self._streams.close(number, is_reset=True)

    def _close(self, stream: Stream, *, is_reset: bool) -> None:
        self._sending.forget(stream)
        self._streams.close(stream.id, is_reset=is_reset)
        self._receiving.give_back(stream.unconsumed)

    def _spend(self, cost: float, what: str) -> None:
        self._budget.spend(cost, self._now, what)

    def _earn_content(self, before: int) -> None:
        if self._sending.content_bytes != before:
            self._budget.earn((self._sending.content_bytes - before) / CONTENT_BYTES + 1)

    def _write_goaway(self, code: ErrorCode, reason: str) -> None:
        debug = reason.encode()[:_DEBUG_BYTES_MAX]
        self._sending.write(frame(FrameType.GOAWAY, 0, 0, GOAWAY.pack(self._streams.last, code) + debug))

    def _end(self, code: ErrorCode, reason: str) -> None:
        self._write_goaway(code, reason)
        for number in [*self._streams.open]:
            self._events.append(Reset(number, code))
        for stream in self._streams.open.values():
            self._sending.forget(stream)
        self._streams.open.clear()
        self._ended = Ended(code, reason)
        self._events.append(self._ended)

    _HANDLERS: ClassVar[dict[int, Callable[[Connection, int, int, bytes], None]]] = {
        FrameType.DATA: _on_data,
        FrameType.HEADERS: _on_headers,
        FrameType.PRIORITY: _on_priority,
        FrameType.RST_STREAM: _on_reset,
        FrameType.SETTINGS: _on_settings,
        FrameType.PUSH_PROMISE: _on_push,
        FrameType.PING: _on_ping,
        FrameType.GOAWAY: _on_goaway,
        FrameType.WINDOW_UPDATE: _on_window,
        FrameType.CONTINUATION: _on_continuation,
    }
    """A table of its own in each connection would be a cycle of references."""
