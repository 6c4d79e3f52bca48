"""Writes committed offsets into GANTRY_SYS_COMMITTED: single commits, everything that moved, and dumps of all offsets.

A record reads the offsets from the table when it gets its place in the log, so that the log has them in the order of the table's changes.
What a record cannot store counts as unsaved again: the next one writes it, with its newest value.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from broker_store.groups.committed_offsets import CommittedOffsets
from broker_store.groups.offset_rows import (
    ROWS_BYTES_MAX,
    DumpPart,
    Key,
    OffsetRows,
    Origin,
    Piece,
    Row,
    encode_rows,
    pieces_of,
)
from broker_store.groups.offsets import OffsetTable
from gantry_wire.errors import RefusedRequest

Answer = Callable[[OSError | None], None]
"""Called when a commit is durable, or with the reason why it may not be."""


class AppendRecord(Protocol):
    """Appends one record to the log, durably whatever the store's flush mode is."""

    def __call__(
        self,
        build: Callable[[], bytes],
        on_visible: Callable[[int], None],
        on_answer: Callable[[RefusedRequest | None], None],
    ) -> None:
        """Take the record's body from `build` when it gets its place.

        Calls `on_visible` with its position, then `on_answer` with None; or only `on_answer`, with the reason why it is not stored.
        """
        ...


@dataclass(eq=False, slots=True)
class _Record:
    """A record under way."""

    rows: list[Row] = field(default_factory=list[Row])
    moved: list[Piece] = field(default_factory=list[Piece])
    """Those of its offsets that the log did not have, for samples."""
    origin: Origin | None = None
    content: OffsetRows | None = None


class _Dump:
    """A dump under way."""

    def __init__(self, origin: Origin | None) -> None:
        self.origin = origin
        self.first = self.parts = 0
        self.pending: deque[Piece] = deque()


Choose = Callable[[_Record], DumpPart | None]
"""Fills a record with rows when it gets its place."""


class OffsetLog:
    """The writer of one store's committed offsets."""

    def __init__(self, table: OffsetTable, state: CommittedOffsets, append: AppendRecord) -> None:
        self._table, self._state, self._append = table, state, append
        self._number = 0
        self._moved: dict[Key, set[int]] = {}
        self._under_way = 0
        self._is_settled = asyncio.Event()
        self._is_settled.set()
        self.dumps = 0
        """Complete dumps since the start."""

    # --- what it writes --------------------------------------------------------------------------------------

    def write(self, pieces: Callable[[], Iterable[Piece]], answer: Answer) -> None:
        """Write offsets in one record, and answer when it is durable. `pieces` returns them when the record gets its place."""

        def choose(record: _Record) -> None:
            record.moved = list(pieces())
            record.rows = self._rows_of(record.moved)

        self._submit(choose, answer)

    async def write_moved(self) -> OSError | None:
        """Write what has moved or was forgotten until now. Returns once it is durable, or with the reason why it may not be."""
        pending = deque(pieces_of(self._table.unsaved()))

        def choose(record: _Record) -> None:
            record.moved = self._still_unsaved(_fill(pending))
            record.rows = self._rows_of(record.moved)

        while pending:
            if (error := await self._written(choose)) is not None:
                return error
        return None

    async def dump(self, origin: Origin | None = None) -> OSError | None:
        """Write all offsets. `origin`: the files that the table was read from. Returns as `write_moved`."""
        dump = _Dump(origin)
        choose = partial(self._choose_for_dump, dump)
        while not dump.parts or dump.pending:
            if (error := await self._written(choose)) is not None:
                return error
        self.dumps += 1
        return None

    async def settle(self) -> None:
        """Return once every record is durable or refused."""
        await self._is_settled.wait()

    def take_moved(self) -> list[Row]:
        """Return the offsets that were written since the last call, with their current values."""
        moved, self._moved = self._moved, {}
        rows: list[Row] = []
        for (topic, group), queue_ids in moved.items():
            offsets = self._table.of(group, topic)
            known = {queue_id: offsets[queue_id] for queue_id in sorted(queue_ids) if queue_id in offsets}
            if known:
                rows.append(Row(topic, group, known))
        return rows

    # --- records ---------------------------------------------------------------------------------------------

    async def _written(self, choose: Choose) -> OSError | None:
        done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        self._submit(choose, lambda error: None if done.done() else done.set_result(error))
        return await done

    def _submit(self, choose: Choose, answer: Answer) -> None:
        record = _Record()
        self._under_way += 1
        self._is_settled.clear()

        def visible(position: int) -> None:
            assert record.content is not None
            self._state.apply(record.content, position)
            for topic, group, queue_ids in record.moved:
                self._moved.setdefault((topic, group), set()).update(queue_ids)

        def answered(refusal: RefusedRequest | None) -> None:
            self._under_way -= 1
            if not self._under_way:
                self._is_settled.set()
            if refusal is None:
                answer(None)
                return
            for row in record.rows:
                self._table.not_saved(row)
            answer(OSError(refusal.remark))

        self._append(partial(self._build, record, choose), visible, answered)

    def _build(self, record: _Record, choose: Choose) -> bytes:
        self._number = max(self._number, self._state.number) + 1
        dump = choose(record)
        rows = [(topic, group, dict(offsets)) for topic, group, offsets in record.rows]
        record.content = OffsetRows(self._number, rows, dump, record.origin)
        return encode_rows(record.content)

    def _choose_for_dump(self, dump: _Dump, record: _Record) -> DumpPart:
        if not dump.parts:  # as of the place of its first record: all records before it become superfluous
            dump.first, dump.pending = self._number, deque(pieces_of(self._all_keys()))
        chosen = _fill(dump.pending)
        record.moved = self._still_unsaved(chosen)
        record.rows = self._rows_of(chosen)
        dump.parts += 1
        record.origin = dump.origin
        return DumpPart(dump.first, dump.parts, is_last=not dump.pending)

    def _rows_of(self, pieces: Iterable[Piece]) -> list[Row]:
        return [self._table.take(piece) for piece in pieces]

    def _still_unsaved(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Return what no record has stored since the pieces were made."""
        found = [self._table.still_unsaved(piece) for piece in pieces]
        return [piece for piece in found if piece.queue_ids]

    def _all_keys(self) -> dict[Key, tuple[int, ...]]:
        """Return the keys of all offsets in memory and in the log, and of those forgotten in memory whose record is still to come."""
        keys: dict[Key, set[int]] = {}
        for topic, group, of_queues in self._state.all():
            keys.setdefault((topic, group), set()).update(of_queues)
        for known in (self._table.keys(), self._table.unsaved()):
            for key, queue_ids in known.items():
                keys.setdefault(key, set()).update(queue_ids)
        return {key: tuple(sorted(queue_ids)) for key, queue_ids in keys.items()}


def _fill(pending: deque[Piece]) -> list[Piece]:
    """Take as many pieces as one record holds."""
    chosen: list[Piece] = []
    size = 0
    while pending and size < ROWS_BYTES_MAX:
        piece = pending.popleft()
        chosen.append(piece)
        size += piece.size
    return chosen
