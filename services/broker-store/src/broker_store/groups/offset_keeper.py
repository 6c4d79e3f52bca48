"""Keeps committed offsets: in the log before the answer, those without an answer within a second, and in RocketMQ's file soon after.

The table in memory changes at once. The log has every change as a record of GANTRY_SYS_COMMITTED, and what its durable records say together
is `CommittedOffsets`. consumerOffset.json is a copy of that, never of the table.

A start takes the offsets of the log or those of the file, see offset_file.py. If it takes the file's, it dumps them into the log before it
writes any other commit there: a crash then finds either nothing of this start in the log, or the whole file with all that follows.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from broker_store.groups.committed_offsets import CommittedOffsets
from broker_store.groups.offset_copy import OffsetCopy
from broker_store.groups.offset_file import LogContent, does_file_win
from broker_store.groups.offset_log import Answer, OffsetLog
from broker_store.groups.offset_rows import ROWS_BYTES_MAX, Key, Origin, Piece, Row, pieces_of
from broker_store.groups.offsets import OffsetTable
from broker_store.log.errors import LogError
from gantry_chassis.logs.structured import get_logger
from gantry_wire.bodies.cluster import DataVersion

Resume = Answer
"""Commits, or reports why it may not."""

BeforeCommit = Callable[[str, str, int, int, Resume], bool]
"""Called with group, topic, queue id, offset and the continuation. Returns True if it calls the continuation later."""

_log = get_logger()


class OffsetKeeper:
    """Saves one OffsetTable."""

    def __init__(
        self,
        table: OffsetTable,
        state: CommittedOffsets,
        log: OffsetLog,
        copy: OffsetCopy,
        before_commit: BeforeCommit,
    ) -> None:
        self._table, self._state, self._log, self._copy = table, state, log, copy
        self._before_commit = before_commit
        self._gathered: _Gathered | None = None
        """The commits of the record that has no place in the log yet."""
        self._held: list[tuple[Piece, Answer]] = []
        """Commits that wait until the file's offsets are in the log."""
        self._taken: Origin | None = None
        """The files whose offsets the log is to take over first."""
        self._lock = asyncio.Lock()
        self._is_started = self._is_closed = False

    @property
    def version(self) -> DataVersion:
        """DataVersion of the file as last saved."""
        return self._copy.version

    def start(self, *, was_stopped: bool) -> None:
        """Fill the table, once the log is recovered. Blocks: call it before the store serves commits.

        `was_stopped`: this store wrote to the directory last, and stopped in order.
        """
        state = self._state
        file = self._copy.read(state.origin)
        known = {(topic, group): dict(of_queues) for topic, group, of_queues in state.all()}
        is_equal = known == {key: of_queues for key, of_queues in file.offsets.items() if of_queues}
        if file.number == state.number and is_equal:
            self._copy.is_current(state.number)
        if does_file_win(file, LogContent(state.number, state.origin, state.taking), was_stopped=was_stopped):
            self._table.replace(file.offsets)
            if file.number != state.number or not is_equal:
                self._taken = file.origin
                _log.info("the offsets of the file are taken over", groups=len(file.offsets))
        else:
            self._table.replace(known)
        self._is_started = True

    # --- commits ---------------------------------------------------------------------------------------------

    def commit(self, group: str, topic: str, queue_id: int, offset: int, answer: Answer) -> None:
        """Commit, and answer when it is durable. Commits that arrive while the log is busy are one record."""
        commit = partial(self._commit, group, topic, queue_id, offset, answer)
        if not self._before_commit(group, topic, queue_id, offset, commit):
            commit(None)

    def commit_soon(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit; the next save writes it. An offset that moves back is logged first, as always."""

        def commit(error: OSError | None) -> None:
            if error is None:
                self._table.commit(group, topic, queue_id, offset)

        if not self._before_commit(group, topic, queue_id, offset, commit):
            commit(None)

    def _commit(
        self, group: str, topic: str, queue_id: int, offset: int, answer: Answer, error: OSError | None
    ) -> None:
        if error is not None:
            answer(error)
            return
        self._table.commit(group, topic, queue_id, offset)
        if offset < 0:
            answer(None)
            return
        self._write(Piece(topic, group, (queue_id,)), answer)

    def forget_topic(self, topic: str) -> None:
        """Forget all groups' offsets in a topic, in the log with its next flush."""
        self._table.remove_topic(topic)
        keys = {key: queue_ids for key, queue_ids in self._table.unsaved().items() if key[0] == topic}
        for piece in pieces_of(keys):
            self._write(piece, _ignore)

    def _write(self, piece: Piece, answer: Answer) -> None:
        if self._is_closed:  # what the commit waited for was flushed only now
            answer(OSError("the store is closing"))
            return
        if self._taken is not None:
            self._held.append((piece, answer))
            return
        gathered = self._gathered
        if gathered is None or gathered.size >= ROWS_BYTES_MAX:
            gathered = self._gathered = _Gathered()
            self._log.write(partial(self._placed, gathered), partial(self._answer, gathered))
        gathered.add(piece, answer)

    def _placed(self, gathered: "_Gathered") -> Iterable[Piece]:
        if self._gathered is gathered:
            self._gathered = None
        return pieces_of({key: tuple(queue_ids) for key, queue_ids in gathered.keys.items()})

    def _answer(self, gathered: "_Gathered", error: OSError | None) -> None:
        if self._gathered is gathered:  # refused before it got a place
            self._gathered = None
        for answer in gathered.answers:
            answer(error)

    # --- saving ----------------------------------------------------------------------------------------------

    async def save(self) -> OSError | None:
        """Write what has moved into the log. Returns once it is durable, or with the reason why it may not be: the next call tries again."""
        async with self._lock:
            if not self._is_started or self._is_closed:
                return OSError("the store is starting or closing")
            if (error := await self._take_over()) is None:
                error = await self._log.write_moved()
        if error is not None:
            _log.warning("moved offsets could not be stored, trying again", error=str(error))
        return error

    async def roll(self, below: int) -> None:
        """Write all offsets again, if the log has some of them only below a position, so that its segment can go."""
        async with self._lock:
            if not self._keeps(below) or not self._is_started or self._is_closed:
                return
            error = await self._take_over()  # it is a dump, too
            if error is None and self._keeps(below):
                error = await self._log.dump()
        if error is not None:
            _log.warning("offsets keep a segment that is due for deletion", reason=str(error))

    def _keeps(self, below: int) -> bool:
        pin = self._state.pin()
        return pin is not None and pin < below

    async def save_file(self) -> OSError | LogError | None:
        """Write RocketMQ's file, if the log has newer offsets. A failure is logged and returned; the next call tries again."""
        if self._taken is not None or not self._is_started:
            return None
        return await self._copy.save(self._state)

    def take_moved(self) -> list[Row]:
        """Return what was written into the log since the last call, with current values."""
        return self._log.take_moved()

    @property
    def dumps(self) -> int:
        """How often all offsets were written since the start. For metrics."""
        return self._log.dumps

    async def close(self) -> None:
        """Write everything, and stop the thread."""
        await self.save()
        self._is_closed = True
        await self._log.settle()
        await self.save_file()
        self._copy.close()

    async def _take_over(self) -> OSError | None:
        if self._taken is None:
            return None
        error = await self._log.dump(self._taken)
        if error is None:
            self._taken = None
        held, self._held = self._held, []
        for piece, answer in held:
            if error is None:
                self._write(piece, answer)
            else:
                answer(error)
        return error


class _Gathered:
    """Commits that wait for one record."""

    def __init__(self) -> None:
        self.keys: dict[Key, set[int]] = {}
        self.answers: list[Answer] = []
        self.size = 0
        """Of its record, in bytes, about."""

    def add(self, piece: Piece, answer: Answer) -> None:
        """Add one commit."""
        self.keys.setdefault((piece.topic, piece.group), set()).update(piece.queue_ids)
        self.answers.append(answer)
        self.size += piece.size


def _ignore(_error: OSError | None) -> None:
    """Do nothing: offsets that could not be stored count as unsaved again."""
