"""State derived from the log: recovery replays it, checkpoints snapshot it, retention keeps what it needs.

A state changes only in `make_visible()` of the records it derives from, so it always equals the log below
the visible end. A checkpoint writes its snapshot with the log position it covers. A lost, damaged or
mismatching snapshot is not repaired: the state is rebuilt from the log, and the reason is logged.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from struct import Struct
from typing import NamedTuple, Protocol
from zlib import crc32

from broker_store.log.commit_log.scan import ScannedRecord
from broker_store.log.files.files import Files

PROPERTY_PREFIX = b"__GANTRY_"
"""Prefix of all Gantry properties. Replay searches plain records for it once for all states."""

_HEAD = Struct(">4sqII")
_MAGIC = b"GDS1"
"""Format version 1: magic, covered position, length, CRC of what follows.

A new version needs a new magic, and the state is then rebuilt.
"""

ReadLog = Callable[[int, int], bytes]
"""Returns the bytes of whole records at (position, size). Raises LogError."""


class Derived(Protocol):
    """One derived state. Pure: callers pass records and own files and clock."""

    name: str
    """Name of its file: `gantry/<name>.snapshot`."""
    topics: frozenset[str]
    """Topics whose every record is offered to `wants`. Of other topics only records with a `__GANTRY_…` property are."""

    def wants(self, topic: str, properties: bytes) -> bool:
        """Whether `take` needs this record. Cheap: a search in bytes."""
        ...

    def take(self, record: ScannedRecord, read: ReadLog) -> None:
        """Replay a record, in log order. A record that the snapshot already covers has no effect."""
        ...

    def topic_deleted(self, topic: str) -> None:
        """Forget a topic: when it is removed live, and where recovery meets its deletion."""
        ...

    def slices(self, position: int) -> Iterator[bytes]:
        """Yield the state in parts: that of the log below `position`, perhaps with some of what lies above.

        Each part runs in the loop for at most a few milliseconds. Requests may run between two parts.
        """
        ...

    def load(self, data: bytes | None, position: int) -> bool:
        """Load a snapshot, or start empty with None.

        False when its format differs: the log is then replayed from its start.
        """
        ...

    def pin(self) -> int | None:
        """Return the lowest log position that retention must keep, None if there is none."""
        ...


class Covered(NamedTuple):
    """A state with the position its snapshot covers. Records below it are not replayed."""

    state: Derived
    position: int


class SnapshotFiles:
    """The snapshots of all states of a store, under `gantry/`. Saving blocks: call it in a thread."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self.directory = directory

    def save(self, name: str, data: bytes, position: int) -> None:
        """Replace a snapshot. Durable on return. Raises OSError and then keeps the old one."""
        head = _HEAD.pack(_MAGIC, position, len(data), _crc(position, data))
        self._files.replace_atomically(self._path(name), head + data)

    def load_all(
        self, states: Iterable[Derived], needed: int | None, unused: Container[str]
    ) -> tuple[list[Covered], str]:
        """Load the snapshot of every state. Returns where the replay of each starts, and what is missing, in words.

        `needed` is where the walk over the log starts: a snapshot that ends below it is of no use. None
        when the walk starts at the beginning of the log, or the log is not ours, so that no snapshot is
        needed. `unused` names states of which no record lies below it: an earlier version saved no
        snapshot of them.
        """
        covered: list[Covered] = []
        missing = ""
        for state in states:
            position, data = self._read(state.name) or (0, None)
            if data is not None and (position < (needed or 0) or not state.load(data, position)):
                data = None
            if data is None:
                position = 0
                state.load(None, 0)
                if needed is not None and state.name not in unused:
                    missing = missing or f"the snapshot {state.name} is missing, damaged or too old"
            covered.append(Covered(state, position))
        return covered, missing

    def read(self, name: str) -> bytes | None:
        """Return a snapshot as last saved, None where there is no intact one."""
        found = self._read(name)
        return None if found is None else found[1]

    def _read(self, name: str) -> tuple[int, bytes] | None:
        content = self._files.read_bytes(self._path(name)) or b""
        if len(content) < _HEAD.size:
            return None
        magic, position, size, crc = _HEAD.unpack_from(content)
        data = content[_HEAD.size :]
        if magic != _MAGIC or len(data) != size or _crc(position, data) != crc:
            return None
        return position, data

    def _path(self, name: str) -> str:
        return f"{self.directory}/gantry/{name}.snapshot"


class Snapshot(NamedTuple):
    """A state to be saved."""

    name: str
    data: bytes


def lowest_pin(states: Iterable[Derived]) -> int | None:
    """Return the lowest position that any state still needs."""
    return min((pin for state in states if (pin := state.pin()) is not None), default=None)


def _crc(position: int, data: bytes) -> int:
    return crc32(data, crc32(position.to_bytes(8, "big", signed=True)))
