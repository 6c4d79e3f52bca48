"""The streams of a connection: which are open, and what became of the others (RFC 9113, 5.1)."""

from collections import deque
from typing import Final

from gantry_h2.errors import ConnectionFault, ErrorCode, StreamFault
from gantry_h2.request_headers import NO_LENGTH

RESET_KEPT_MAX: Final = 1000
"""Streams that we reset, of which frames may still arrive."""


class Stream:
    """A call that is not over."""

    __slots__ = (
        "announced", "end", "has_ended", "id", "is_begun", "is_finished", "is_waiting", "pending", "pending_bytes", "receive_window", "send_window", "unconsumed", "unreturned",
    )  # fmt: skip

    def __init__(self, number: int, receive_window: int, send_window: int, announced: int) -> None:
        self.id = number
        self.receive_window = receive_window
        self.send_window = send_window
        self.announced = announced
        """Bytes of content that must still come, NO_LENGTH if nobody said how many."""
        self.has_ended = False
        """The client has sent everything."""
        self.unconsumed = 0
        """Bytes that arrived and were not given back."""
        self.unreturned = 0
        """Bytes that were given back, and that the client does not know of yet."""
        self.is_begun = False
        """The headers of the answer have left."""
        self.pending = deque[memoryview]()
        """Content that waits for the client's windows."""
        self.is_waiting = False
        """Somebody will want to know when all of it has left."""
        self.pending_bytes = 0
        self.end: bytes | None = None
        """The block of the trailers that follow the pending content, empty for none; None while more content may come."""
        self.is_finished = False
        """The end of the answer has left."""

    def count_content(self, size: int, *, is_end: bool) -> None:
        """Compare the content with the length that was announced. Raises StreamFault."""
        if self.announced == NO_LENGTH:
            return
        self.announced -= size
        if self.announced < 0 or (is_end and self.announced):
            raise StreamFault(
                self.id, ErrorCode.PROTOCOL_ERROR, "the content is not as long as content-length says"
            )


class Streams:
    """Open streams by their numbers, and the last number that a client used."""

    def __init__(self) -> None:
        self.open: dict[int, Stream] = {}
        self.last = 0
        self._reset: dict[int, None] = {}

    def check_new(self, number: int) -> None:
        """Raise ConnectionFault unless a client may begin a stream with this number now."""
        if number % 2 == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's streams have odd numbers")
        if number <= self.last:
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, f"stream {number} is over")

    def check_known(self, number: int, what: str) -> None:
        """Raise ConnectionFault for a stream that nobody began (RFC 9113, 5.1: idle), and for 0."""
        if number == 0 or number > self.last or number % 2 == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{what} on stream {number}, which nobody began")

    def was_reset(self, number: int) -> bool:
        """Say whether we reset it, so that the client may not know yet that it is over."""
        return number in self._reset

    def close(self, number: int, *, is_reset: bool) -> None:
        """Forget a stream. `is_reset`: by us."""
        self.open.pop(number, None)
        if is_reset:
            self._reset[number] = None
            if len(self._reset) > RESET_KEPT_MAX:
                del self._reset[next(iter(self._reset))]

    def forget_reset(self, number: int) -> None:
        """Nothing more comes of a stream that we reset."""
        self._reset.pop(number, None)
