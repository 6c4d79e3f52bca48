"""What happens when an entry of the log begins to count: it enters the table that decides, and followers are answered."""

import asyncio

from gantry_access.entries.entry import Entry
from gantry_access.entries.table import AccessTable
from gantry_access.errors import UnknownRecordVersion, UnreadableRecord
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.start_refusal import StartRefused

_log = get_logger()


class News:
    """Passes entries on."""

    def __init__(self, table: AccessTable) -> None:
        self._table = table
        self._next = asyncio.Event()
        self._is_closed = False

    def took(self, entry: Entry) -> None:
        """Let an entry count. One that cannot be read is reported: its user keeps the rights of before, or has none."""
        try:
            self._table.take([entry])
        except UnreadableRecord as error:
            _log.error("an entry of access control cannot be read", entry=entry.name, error=str(error))
        self._wake()

    async def wait(self, seconds: float) -> None:
        """Wait for the next entry, at most this long."""
        if self._is_closed:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._next.wait()
        except TimeoutError:
            return

    def close(self) -> None:
        """End every wait, also later ones."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._next.set()
        self._next = asyncio.Event()


def take_all(table: AccessTable, entries: list[Entry], *, is_complete: bool = True) -> None:
    """Take all entries of an opened log; with `is_complete` they count at once. Raises StartRefused for one of a later version; reports one that cannot be read.

    Without it its user has no rights, or does not exist.
    """
    try:
        table.take(entries)
    except UnreadableRecord:
        for entry in entries:
            _take_one(table, entry)
    for user, reason in table.unopened().items():
        _log.error(
            "a user cannot sign: its secret does not open; add the old key to access_key_file, or set a new secret",
            user=user,
            reason=reason,
        )
    if is_complete:
        let_count(table)


def let_count(table: AccessTable) -> None:
    """Let what was taken count: from now on a user that is not there does not exist."""
    table.is_complete = True


def stop_counting(table: AccessTable) -> None:
    """Decide about nobody until what other stores know was read again."""
    table.is_complete = False


def _take_one(table: AccessTable, entry: Entry) -> None:
    try:
        table.take([entry])
    except UnknownRecordVersion as error:
        raise StartRefused(f"the log holds users of a later version of this program: {error}") from error
    except UnreadableRecord as error:
        _log.error("an entry of access control cannot be read", entry=entry.name, error=str(error))
