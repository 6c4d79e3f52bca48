"""The users of a replica that follows, where access control is on: those that its log has, as soon as it has them all.

A replica that was away may know users that were deleted, and rights that were taken away. So nobody counts until it has replayed, in this life,
all that a leader had confirmed. It stays so while no replica leads: nobody changes users then.
"""

from collections.abc import Callable

from broker_store.access.access_entries import AccessEntries
from broker_store.access.news import let_count, stop_counting, take_all
from gantry_access.entries.table import AccessTable


class FollowedUsers:
    """Fills the table that decides."""

    def __init__(self, table: AccessTable, entries: AccessEntries, knows_all: Callable[[], bool]) -> None:
        """`knows_all`: whether the replay has what a leader had confirmed."""
        self._table, self._entries, self._knows_all = table, entries, knows_all
        self._seen = -1

    @property
    def count(self) -> bool:
        """Whether the users count, so that requests can be decided."""
        return self._table.is_complete

    def replayed(self) -> None:
        """Take what was replayed. Raises StartRefused for an entry of a later version of this program."""
        if self._entries.version != self._seen:
            take_all(self._table, self._entries.entries(), is_complete=False)
            self._seen = self._entries.version

    def look(self) -> None:
        """Let the users count, if all of them were taken."""
        is_taken = self._entries.version == self._seen
        if is_taken and not self._table.is_complete and self._knows_all():
            let_count(self._table)

    def close(self) -> None:
        """Count nobody: the next leader reads the other stores first."""
        stop_counting(self._table)
