"""The newest bytes of a log in memory, as pieces that may be shipped, so that followers that keep up cost no reads. Bounded."""

from collections import OrderedDict
from typing import NamedTuple


class Piece(NamedTuple):
    """Bytes of a log that followers get together: whole records, and all records that were written as one, within one segment."""

    position: int
    data: bytes
    end: int
    """Where the log continues: behind the data, or at the end of the segment if the data ends with its blank."""


class FreshBytes:
    """The last pieces, without a gap, of at most `bytes_max` bytes together. For one thread."""

    def __init__(self, bytes_max: int, segment_bytes: int) -> None:
        self._bytes_max, self._segment_bytes = bytes_max, segment_bytes
        self._pieces: OrderedDict[int, Piece] = OrderedDict()
        self._bytes = 0
        self._end = -1

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._bytes

    def add(self, piece: Piece) -> None:
        """Keep a piece; forget the oldest ones beyond the bound, and all if it does not continue the last one."""
        if piece.position != self._end:
            self._pieces.clear()
            self._bytes = 0
        self._pieces[piece.position] = piece
        self._bytes += len(piece.data)
        self._end = piece.end
        while self._bytes > self._bytes_max:
            _, oldest = self._pieces.popitem(last=False)
            self._bytes -= len(oldest.data)

    def gather(self, position: int, bytes_max: int) -> Piece | None:
        """Return the bytes from the start of a kept piece on: that one, and those after it in its segment up to `bytes_max` bytes together.

        None: no kept piece begins there.
        """
        first = piece = self._pieces.get(position)
        if first is None or piece is None:
            return None
        parts, size = [first.data], len(first.data)
        while piece.end % self._segment_bytes:  # at the end of a segment is its blank
            following = self._pieces.get(piece.end)
            if following is None or size + len(following.data) > bytes_max:
                break
            piece = following
            parts.append(piece.data)
            size += len(piece.data)
        return first if len(parts) == 1 else Piece(position, b"".join(parts), piece.end)
