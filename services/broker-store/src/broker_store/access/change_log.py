"""Writes entries into GANTRY_SYS_ACCESS: changes that administrators make, news from other stores, and entries whose segment must go."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from broker_store.access.access_entries import AccessEntries
from broker_store.access.change_record import ChangeRecord
from broker_store.commit.appends import Appends, stopped
from broker_store.commit.queues import QueueTable
from broker_store.commit.topics import ACCESS_TOPIC
from broker_store.log.commit_log.commit_log import LogState
from gantry_access.entries.entry import Entry
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import BODY_BYTES_MAX

OnNews = Callable[[Entry], None]
"""Called with an entry that became visible and replaces what was known."""

ROLLED_AT_ONCE = 256
"""Entries per write when they are appended again: others use the log in between."""


@dataclass(slots=True)
class _Pending:
    """The entries of one call."""

    count: int
    done: asyncio.Future[None]
    refusal: RefusedRequest | None = field(default=None)

    def answered(self, refusal: RefusedRequest | None) -> None:
        self.count -= 1
        self.refusal = self.refusal or refusal
        if self.count or self.done.done():
            return
        if self.refusal is not None:
            self.done.set_exception(self.refusal)
        else:
            self.done.set_result(None)


class ChangeLog:
    """Appends entries through the group commit. Works from the ballast when the disk is full."""

    def __init__(
        self,
        appends: Appends,
        queues: QueueTable,
        entries: AccessEntries,
        now_ms: Callable[[], int],
        on_news: OnNews,
    ) -> None:
        self._appends = appends
        self._queues = queues
        self._entries = entries
        self._now_ms = now_ms
        self._on_news = on_news
        self.rolled = 0
        """Entries appended again since the start, because retention needed their segment."""

    async def append(self, entries: Sequence[Entry]) -> None:
        """Append entries and return once all of them are durable and applied.

        Raises RefusedRequest when the store cannot store them, or does not know whether it has.
        """
        if not entries:
            return
        log = self._appends.log
        if log.state is LogState.STOPPED:
            raise stopped(log.stop_reason)
        queue = self._queues.open(ACCESS_TOPIC, 0)
        pending = _Pending(len(entries), asyncio.get_running_loop().create_future())
        records = [
            ChangeRecord(
                queue, entry, self._now_ms(), self._appends.store_host, self._applied, pending.answered
            )
            for entry in entries
        ]
        for record in records:
            if len(record.body) > BODY_BYTES_MAX:
                raise RefusedRequest(
                    ResponseCode.INVALID_PARAMETER,
                    f"the change has {len(record.body)} bytes, the limit is {BODY_BYTES_MAX}: give fewer policies to a user",
                )
        for record in records:
            self._appends.enqueue(record, len(record.body))
        await pending.done

    async def roll(self, below: int) -> int:
        """Append again all entries whose only record lies below a position, so that its segment can go. Returns how many.

        Raises RefusedRequest as `append`; what is not appended keeps its segment.
        """
        count = 0
        while entries := self._entries.below(below, ROLLED_AT_ONCE):
            await self.append(entries)
            count += len(entries)
        self.rolled += count
        return count

    async def keep(self, entries: Iterable[Entry]) -> None:
        """Append entries that came from another store, as far as the log has none or older ones. Raises RefusedRequest as `append`."""
        missing = [entry for entry in entries if entry.replaces(self._entries.find(entry.key))]
        for at in range(0, len(missing), ROLLED_AT_ONCE):
            await self.append(missing[at : at + ROLLED_AT_ONCE])

    def _applied(self, entry: Entry, position: int) -> None:
        if self._entries.apply(entry, position):
            self._on_news(entry)
