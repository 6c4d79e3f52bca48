"""Writes entries into GANTRY_SYS_ACCESS: changes that administrators make, news from other stores, and entries whose segment must go."""

from collections.abc import Callable, Iterable

from broker_store.access.access_entries import AccessEntries
from broker_store.commit.appends import Appends
from broker_store.commit.queues import QueueTable
from broker_store.state_records.entry_log import ROLLED_AT_ONCE, EntryLog
from gantry_access.entries.entry import Entry

OnNews = Callable[[Entry], None]
"""Called with an entry that became visible and replaces what was known."""


class ChangeLog(EntryLog[Entry]):
    """The entries of access control."""

    def __init__(
        self,
        appends: Appends,
        queues: QueueTable,
        entries: AccessEntries,
        now_ms: Callable[[], int],
        on_news: OnNews,
    ) -> None:
        super().__init__(appends, queues, entries, now_ms, on_news, "give fewer policies to a user")

    async def keep(self, entries: Iterable[Entry]) -> None:
        """Append entries that came from another store, as far as the log has none or older ones. Raises RefusedRequest as `append`."""
        missing = [entry for entry in entries if entry.replaces(self._entries.find(entry.key))]
        for at in range(0, len(missing), ROLLED_AT_ONCE):
            await self.append(missing[at : at + ROLLED_AT_ONCE])
