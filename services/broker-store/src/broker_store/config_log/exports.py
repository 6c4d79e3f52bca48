"""The file of a table: what the log says, for RocketMQ, for operators and for the next start. Which of the two counts at an opening.

The file never holds what is not yet in the log. It names the number of the last change that it includes; RocketMQ drops the field when it
writes the file itself.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from broker_store.config.config_files import DataVersionCounter
from broker_store.config.saver import Saver
from broker_store.config_log.config_entries import ConfigEntries, live_of
from broker_store.config_log.config_entry import ConfigEntry, Key, Stamp, Table
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_wire.bodies.cluster import DataVersion

NUMBER_FIELD = "gantryNumber"
"""The counter of the DataVersion of the last change that the file includes."""

_log = get_logger()


class FoundFile(NamedTuple):
    """What an opening finds of a table's file."""

    is_whole: bool
    """The file itself could be read: neither is it missing, nor did its backup replace it."""
    number: int | None
    """None where RocketMQ or an earlier version wrote it."""


def number_in(content: object) -> int | None:
    """Return the number of a JSON file, None if it has none."""
    number = content.get(NUMBER_FIELD) if isinstance(content, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return number if isinstance(number, int) else None


class Origin(NamedTuple):
    """Where a table came from at an opening."""

    found: FoundFile | None
    """Its file, None if there was none."""
    is_file: bool
    """Whether the file counted, and not the log."""


def choose(found: FoundFile | None, newest: int | None, *, was_stopped: bool) -> Origin:
    """Return whether a table's file counts, or the log, whose last change of it has the number `newest`.

    `was_stopped`: this program stopped in order and nobody else has written the directory since. An operator may then have edited the file.
    """
    if newest is None:
        return Origin(found, is_file=True)
    if found is None or not found.is_whole:
        return Origin(found, is_file=False)
    return Origin(found, found.number is None or (was_stopped and found.number == newest))


class Settled(NamedTuple):
    """What an opening has decided about a table."""

    origin: Origin
    taken: Stamp | None
    """The stamp of the log's last change, if the table takes the log's values. None: it keeps those of the file."""


def settle(
    table: Table,
    entries: ConfigEntries,
    found: FoundFile | None,
    version: DataVersionCounter,
    *,
    was_stopped: bool,
) -> Settled:
    """Let a table's file count, or the log, which is read to its end. Where the file counts, its version continues after the log's."""
    newest = entries.newest(table)
    origin = choose(found, None if newest is None else newest.counter, was_stopped=was_stopped)
    if newest is None or not origin.is_file:
        return Settled(origin, newest)
    version.continue_after(newest.counter)
    return Settled(origin, None)


class TableFile(Protocol):
    """The form of a table's file."""

    @property
    def path(self) -> str:
        """Where it is."""
        ...

    def encode(self, values: Mapping[Key, bytes], version: DataVersion, number: int | None) -> bytes:
        """Return the content of a file. Without `number` it counts at every opening."""
        ...

    def store(self, content: bytes) -> None:
        """Write the file. Durable on return. Blocks; raises OSError."""
        ...


class _Content(NamedTuple):
    """What a file is to say. The thread that writes it encodes it: ten thousand topics would hold the loop for 50 ms."""

    entries: list[ConfigEntry]
    newest: Stamp | None
    version: DataVersion
    """That of the table in memory."""


class TableExport:
    """Writes the file of one table."""

    def __init__(
        self,
        table: Table,
        file: TableFile,
        entries: ConfigEntries,
        version: DataVersionCounter,
        thread: Workers,
    ) -> None:
        """`version` is that of the table in memory. The file has it as long as the log has no change of the table."""
        self._table = table
        self._file = file
        self._entries = entries
        self._version = version
        self._saver = Saver(file.path, self._content, self._store, thread)

    def changed(self) -> None:
        """Write the file soon."""
        self._saver.changed()

    def when_saved(self, answer: Callable[[OSError | None], None]) -> None:
        """Call `answer` once the file says what the log says, or with the reason why it may not."""
        self._saver.when_saved(answer)

    def is_current(self, origin: Origin) -> bool:
        """Whether an opening has found what the log says, or neither of them. Of a file that did not count only the number is known."""
        newest = self._entries.newest(self._table)
        if origin.found is None:
            return newest is None
        return origin.is_file and origin.found == FoundFile(
            is_whole=True, number=0 if newest is None else newest.counter
        )

    def begin_moving(self, values: Mapping[Key, bytes]) -> None:
        """Write what is about to move into the log, without a number: a crash meanwhile lets it move again. Blocks."""
        content = self._file.encode(values, self._version.value, None)
        try:
            self._file.store(content)
        except OSError as error:
            _log.warning("a table's file cannot be written", path=self._file.path, error=str(error))

    async def close(self) -> None:
        """Wait until the file is written. A failure was logged."""
        await self._saver.close()

    def _content(self) -> _Content:
        return _Content(self._entries.entries(), self._entries.newest(self._table), self._version.value)

    def _store(self, content: _Content) -> None:
        live, newest = live_of(content.entries, self._table), content.newest
        version, number = (content.version, 0) if newest is None else (newest.data_version, newest.counter)
        self._file.store(self._file.encode(live, version, number))
