"""Gathers rows of one client after another, and places as many together as lie in one segment.

Records of one segment have the same bytes whether they are placed together or one by one. Together costs less.
Never decides what is stored.
"""

from collections.abc import Sequence

from broker_store.commit.record_writer import Placed, RecordWriter, Row


class GatheredRows:
    """Rows of one entry of the group commit."""

    def __init__(self, at: RecordWriter) -> None:
        self._at = at
        self._rows: list[Row] = []
        self._rows_bytes = 0
        self._born_host = b""
        self._room = self._fixed_size = 0
        self._placed: list[Placed] = []

    def add(self, rows: Sequence[Row], rows_bytes: int, born_host: bytes) -> None:
        """Add rows that lie in one segment. `rows_bytes` is the size of their pieces.

        Raises LogError when there is no room for them, and then changes nothing about them.
        """
        if born_host != self._born_host:
            self._place()
            self._born_host = born_host
        if not self._rows:
            self._room, self._fixed_size = self._at.room_for_pieces(born_host)
        self._room -= rows_bytes + self._fixed_size * len(rows)
        if self._room >= 0:
            self._rows += rows
            self._rows_bytes += rows_bytes
            return
        self._place()
        self._placed += self._at.place(rows, rows_bytes, born_host)  # begins the next segment, or raises

    def finish(self) -> list[Placed]:
        """Place what is left, and return all records since the last call in the order of adding.

        Call it before the same writer places other records, and at the end.
        """
        self._place()
        placed, self._placed = self._placed, []
        return placed

    def _place(self) -> None:
        if self._rows:
            self._placed += self._at.place(self._rows, self._rows_bytes, self._born_host)
            self._rows, self._rows_bytes = [], 0
