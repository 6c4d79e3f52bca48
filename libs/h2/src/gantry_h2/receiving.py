"""What the client may send: our windows (RFC 9113, 5.2). They open again when the content was used, so a slow user stops the client."""

from gantry_h2.errors import ConnectionFault, ErrorCode, StreamFault
from gantry_h2.frames import window_update
from gantry_h2.limits import Limits
from gantry_h2.sending import Sending
from gantry_h2.streams import Stream


class ReceiveWindows:
    """The window of the connection, and those of its streams. Half of one is given back at a time."""

    def __init__(self, limits: Limits, sending: Sending) -> None:
        self._limits = limits
        self._sending = sending
        self._window = limits.connection_window
        self._unreturned = 0

    def count(self, size: int) -> None:
        """Count what arrived, padding included. Raises ConnectionFault for more than the window."""
        self._window -= size
        if self._window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more content than the window allows")

    def count_stream(self, stream: Stream, size: int) -> None:
        """Count it for its stream, too. Raises StreamFault for more than the window."""
        stream.receive_window -= size
        stream.unconsumed += size
        if stream.receive_window < 0:
            raise StreamFault(stream.id, ErrorCode.FLOW_CONTROL_ERROR, "more content than the window allows")

    def consumed(self, stream: Stream, size: int) -> None:
        """Give back content of a stream; at most what arrived."""
        size = min(size, stream.unconsumed)
        stream.unconsumed -= size
        self.give_back(size)
        if stream.has_ended:
            return
        stream.unreturned += size
        if stream.unreturned * 2 >= self._limits.stream_window:
            self._sending.write(window_update(stream.id, stream.unreturned))
            stream.receive_window += stream.unreturned
            stream.unreturned = 0

    def give_back(self, size: int) -> None:
        """Give back content of no stream, or of one that is over."""
        self._unreturned += size
        if self._unreturned * 2 >= self._limits.connection_window:
            self._sending.write(window_update(0, self._unreturned))
            self._window += self._unreturned
            self._unreturned = 0
