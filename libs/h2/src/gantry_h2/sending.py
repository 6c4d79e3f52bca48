"""What leaves: frames in their order, and content as the client's windows allow (RFC 9113, 5.2)."""

from typing import Final, cast

from gantry_h2.errors import ConnectionFault, ErrorCode, StreamFault
from gantry_h2.frames import (
    FRAME_BYTES_MIN,
    FRAME_HEADER,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    Flag,
    FrameType,
    frame,
    frame_header,
)
from gantry_h2.streams import Stream

DATA: Final = int(FrameType.DATA)
HEADERS: Final = int(FrameType.HEADERS)
END_HEADERS: Final = Flag.END_HEADERS
END_STREAM: Final = Flag.END_STREAM


class Sending:
    """The output of a connection. Streams with content that waits take turns, a frame each."""

    def __init__(self) -> None:
        self.window = WINDOW_DEFAULT
        self.stream_window = WINDOW_DEFAULT
        """The window that a new stream begins with."""
        self.frame_bytes_max = FRAME_BYTES_MIN
        self.content_bytes = 0
        """Bytes of content that left so far."""
        self.held_bytes = 0
        """Bytes of contents of which a part waits for the client's windows. They are held whole until their last byte leaves."""
        self._output: list[bytes | memoryview] = []
        self._waiting: dict[int, Stream] = {}
        """Streams that wait for the window of the connection alone, the next one first."""

    def take(self) -> bytes:
        """Return what there is to write, once."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    @property
    def has_output(self) -> bool:
        """Say whether `take` would return something."""
        return bool(self._output)

    def write(self, whole: bytes) -> None:
        """Add a frame that no window counts."""
        self._output.append(whole)

    def headers(self, stream: int, block: bytes, *, is_end: bool) -> None:
        """Add a block of headers, in as many frames as it needs."""
        flags = Flag.END_STREAM if is_end else Flag.NONE
        size = self.frame_bytes_max
        if len(block) <= size:
            self._output.append(frame(FrameType.HEADERS, flags | Flag.END_HEADERS, stream, block))
            return
        self._output.append(frame(FrameType.HEADERS, flags, stream, block[:size]))
        for at in range(size, len(block), size):
            is_last = at + size >= len(block)
            end = Flag.END_HEADERS if is_last else Flag.NONE
            self._output.append(frame(FrameType.CONTINUATION, end, stream, block[at : at + size]))

    def whole(self, stream: Stream, begin: bytes, data: bytes, end: bytes) -> bool:
        """Add a whole answer with its two blocks of headers, if it needs no more than a frame for each part and the windows have room for it. Return whether it did."""
        size = len(data)
        if not 0 < size <= min(self.window, stream.send_window, self.frame_bytes_max):
            return False
        if len(begin) > FRAME_BYTES_MIN or not 0 < len(end) <= FRAME_BYTES_MIN:
            return False
        self.window -= size
        self.content_bytes += size
        number = stream.id
        self._output += (
            FRAME_HEADER.pack(len(begin) >> 8, len(begin) & 0xFF, HEADERS, END_HEADERS, number),
            begin,
            FRAME_HEADER.pack(size >> 8, size & 0xFF, DATA, 0, number),
            data,
            FRAME_HEADER.pack(len(end) >> 8, len(end) & 0xFF, HEADERS, END_HEADERS | END_STREAM, number),
            end,
        )
        return True

    def content(self, stream: Stream, data: bytes) -> None:
        """Add content of an answer; what no window allows waits. Call `push` afterwards."""
        if data:
            stream.pending.append(memoryview(data))
            stream.pending_bytes += len(data)
            self.held_bytes += len(data)

    def push(self, stream: Stream) -> bool:
        """Let all leave that the windows allow. Return whether the answer has left whole, with its end."""
        while stream.pending and self._one_frame(stream):
            pass
        if stream.pending:
            if stream.send_window > 0:
                self._waiting[stream.id] = stream
            return False
        return self._finish(stream)

    def forget(self, stream: Stream) -> None:
        """Drop what waits of a stream."""
        self._waiting.pop(stream.id, None)
        self.held_bytes -= sum(map(_whole_bytes, stream.pending))
        stream.pending.clear()
        stream.pending_bytes = 0

    def open_stream(self, stream: Stream, size: int) -> None:
        """Count a window that the client gave a stream. Raises StreamFault where it becomes too large."""
        stream.send_window += size
        if stream.send_window > WINDOW_MAX:
            raise StreamFault(stream.id, ErrorCode.FLOW_CONTROL_ERROR, "a window of more than 2^31 - 1 bytes")

    def open_connection(self, size: int) -> list[Stream]:
        """Count a window for all streams. Return the ones whose pending content has all left. Raises ConnectionFault where it becomes too large."""
        self.window += size
        if self.window > WINDOW_MAX:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window of more than 2^31 - 1 bytes")
        emptied: list[Stream] = []
        waiting = self._waiting
        while waiting and self.window > 0:
            number = next(iter(waiting))
            stream = waiting.pop(number)
            self._one_frame(stream)
            if not stream.pending:
                emptied.append(stream)
            elif stream.send_window > 0:
                waiting[number] = stream  # behind the others
        return emptied

    def _one_frame(self, stream: Stream) -> bool:
        """Let one frame of content leave, if the windows allow one."""
        size = min(self.window, stream.send_window, self.frame_bytes_max)
        if size <= 0:
            return False
        piece = stream.pending[0]
        if len(piece) > size:
            stream.pending[0] = piece[size:]
            piece = piece[:size]
        else:
            stream.pending.popleft()
            self.held_bytes -= _whole_bytes(piece)
        size = len(piece)
        stream.pending_bytes -= size
        stream.send_window -= size
        self.window -= size
        self.content_bytes += size
        is_end = stream.end == b"" and not stream.pending
        self._output.append(
            frame_header(size, FrameType.DATA, Flag.END_STREAM if is_end else Flag.NONE, stream.id)
        )
        self._output.append(piece)
        if is_end:
            stream.is_finished = True
        return True

    def _finish(self, stream: Stream) -> bool:
        """Let the end leave, if it is known and did not leave with the content."""
        if stream.end is None:
            return False
        if not stream.is_finished:
            stream.is_finished = True
            if stream.end:
                self.headers(stream.id, stream.end, is_end=True)
            else:
                self._output.append(frame_header(0, FrameType.DATA, Flag.END_STREAM, stream.id))
        return True


def _whole_bytes(piece: memoryview) -> int:
    """Return the size of what a piece keeps in memory."""
    return len(cast("bytes", piece.obj))
