"""Writes the entries of a keyed state into its topic: changes, and entries whose segment must go."""

import asyncio
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from broker_store.commit.appends import Appends, stopped
from broker_store.commit.message import Mode
from broker_store.commit.queues import Queue, QueueTable
from broker_store.log.commit_log.commit_log import LogState
from broker_store.state_records.keyed_entries import KeyedEntries, StateEntry
from broker_store.state_records.state_record import Answered, StateRecord
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import BODY_BYTES_MAX

ROLLED_AT_ONCE = 256
"""Entries per write when they are appended again: others use the log in between."""

E = TypeVar("E", bound=StateEntry)


@dataclass(slots=True)
class _Pending:
    """The entries of one call."""

    count: int
    finish: Answered
    refusal: RefusedRequest | None = field(default=None)

    def answered(self, refusal: RefusedRequest | None) -> None:
        self.count -= 1
        self.refusal = self.refusal or refusal
        if not self.count:
            self.finish(self.refusal)


class EntryLog(Generic[E]):
    """Appends entries through the group commit. Works from the ballast when the disk is full."""

    def __init__(
        self,
        appends: Appends,
        queues: QueueTable,
        entries: KeyedEntries[E],
        now_ms: Callable[[], int],
        on_news: Callable[[E], None],
        hint: str,
    ) -> None:
        """`on_news` is called with an entry that became visible and replaces what was known. `hint`: what to do about an entry that is too large."""
        self._appends = appends
        self._queues = queues
        self._entries = entries
        self._now_ms = now_ms
        self._on_news = on_news
        self._hint = hint
        self._pending: dict[Hashable, int] = {}
        """Entries of each key that are not visible or refused yet."""
        self.rolled = 0
        """Entries appended again since the start, because retention needed their segment."""

    def enqueue(self, entries: Sequence[E], answered: Answered) -> None:
        """Add entries to the batch of this turn. `answered` is called once, when all of them are durable and applied, or may not be.

        Raises RefusedRequest, and enqueues none, when the log is stopped or an entry is too large.
        """
        log = self._appends.log
        if log.state is LogState.STOPPED:
            raise stopped(log.stop_reason)
        queue = self._queues.open(self._entries.topic, 0)
        pending = _Pending(len(entries), answered)
        records = [self._record(queue, entry, pending.answered) for entry in entries]
        for record in records:
            if len(record.body) > BODY_BYTES_MAX:
                raise RefusedRequest(
                    ResponseCode.INVALID_PARAMETER,
                    f"the change has {len(record.body)} bytes, the limit is {BODY_BYTES_MAX}: {self._hint}",
                )
        for entry, record in zip(entries, records, strict=True):
            self._pending[entry.key] = self._pending.get(entry.key, 0) + 1
            self._appends.enqueue(record, len(record.body))

    async def append(self, entries: Sequence[E]) -> None:
        """Append entries and return once all of them are durable and applied.

        Raises RefusedRequest when the store cannot store them, or does not know whether it has.
        """
        if not entries:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(refusal: RefusedRequest | None) -> None:
            if done.done():
                return
            if refusal is not None:
                done.set_exception(refusal)
            else:
                done.set_result(None)

        self.enqueue(entries, finish)
        await done

    async def roll(self, below: int, changing: Container[Hashable] = ()) -> int:
        """Append again all entries whose only record lies below a position, so that its segment can go. Returns how many.

        Not those with a newer entry under way, and those of the keys in `changing`: the newer record must be the later one.
        Raises RefusedRequest as `append`; what is not appended keeps its segment.
        """
        count = 0
        while entries := [one for one in self._entries.below(below) if self._is_still(one, changing)][
            :ROLLED_AT_ONCE
        ]:
            await self.append(entries)
            count += len(entries)
        self.rolled += count
        return count

    def _is_still(self, entry: E, changing: Container[Hashable]) -> bool:
        return entry.key not in self._pending and entry.key not in changing

    def _record(self, queue: Queue, entry: E, answered: Answered) -> StateRecord:
        def on_visible(position: int) -> None:
            if self._entries.apply(entry, position):
                self._on_news(entry)

        def on_answer(refusal: RefusedRequest | None) -> None:
            self._pending[entry.key] -= 1
            if not self._pending[entry.key]:
                del self._pending[entry.key]
            answered(refusal)

        body = self._entries.codec.encode(entry)
        return StateRecord(
            queue, body, Mode.SYNC, self._now_ms(), self._appends.store_host, on_visible, on_answer
        )
