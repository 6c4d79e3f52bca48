"""State that is known from the log alone: recovery replays it, checkpoints snapshot it, retention keeps what it needs.

A state changes in `appear()` of the records that it comes from, never earlier: so at any moment state = log below the visible end.
A snapshot is written at the moment of the checkpoint's note and names the log position that it covers. One that is lost, damaged
or of another position than the checkpoint needs is not repaired: the state is rebuilt from the log, with the reason said.
"""

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import NamedTuple, Protocol
from zlib import crc32

from broker_store.log.files import Files
from broker_store.log.scan import ScannedRecord

PROPERTY_PREFIX = b"__GANTRY_"
"""All properties of ours begin so: what the replay of a plain record looks for, once for everybody."""

_HEAD = Struct(">4sqII")
_MAGIC = b"GDS1"
"""Format version 1: magic, covered position, length, CRC of what follows. A raise needs a new magic: the state is rebuilt then."""

ReadLog = Callable[[int, int], bytes]
"""Bytes of whole records at (position, size). Raises LogError."""


class Derived(Protocol):
    """One such state. Pure: it is told records and asked for bytes; files and clock are its callers'."""

    name: str
    """Names its file: `gantry/<name>.snapshot`."""
    topics: frozenset[str]
    """Topics whose every record is offered to `wants`. Of other topics only records with a `__GANTRY_…` property are."""

    def wants(self, topic: str, properties: bytes) -> bool:
        """Whether `take` needs this record. Cheap: a search in bytes."""
        ...

    def take(self, record: ScannedRecord, read: ReadLog) -> None:
        """Replay a record. In log order; a record may come that the snapshot knows already: no effect then."""
        ...

    def topic_deleted(self, topic: str) -> None:
        """Forget what was about a topic: live when it is removed, and where recovery meets its deletion."""
        ...

    def slices(self, position: int) -> Iterator[bytes]:
        """Yield the state in parts: that of the log below `position`, perhaps with some of what lies above.

        Each part runs in the loop: at most a few milliseconds. Requests may be carried out between two of them.
        """
        ...

    def load(self, data: bytes | None, position: int) -> bool:
        """Begin with a snapshot (None: with nothing). False when it is of another shape: then the log is replayed from its start."""
        ...

    def pin(self) -> int | None:
        """Lowest log position that retention must not delete, None when there is none."""
        ...


class Covered(NamedTuple):
    """A state with the position up to which its snapshot knew everything: what lies below is not replayed to it."""

    state: Derived
    position: int


class SnapshotFiles:
    """The snapshots of all states of a store, under `gantry/`. Saving blocks: in a thread."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self.directory = directory

    def save(self, name: str, data: bytes, position: int) -> None:
        """Replace a snapshot; durable on return. Raises OSError: the old one is still there."""
        head = _HEAD.pack(_MAGIC, position, len(data), _crc(position, data))
        self._files.replace_atomically(self._path(name), head + data)

    def load_all(self, states: Iterable[Derived], needed: int | None) -> tuple[list[Covered], str]:
        """Give every state its snapshot; returns from where each is to be replayed, and in words what is missing.

        `needed` is where the walk over the log starts: a snapshot that ends below it is of no use. None when the walk
        starts at the beginning of the log or the log is not ours, so that no snapshot is needed.
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
                if needed is not None:
                    missing = missing or f"the snapshot {state.name} is missing, damaged or too old"
            covered.append(Covered(state, position))
        return covered, missing

    def read(self, name: str) -> bytes | None:
        """Return a snapshot as it was saved last; None where there is none that is whole."""
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
    """A state as it is to be saved."""

    name: str
    data: bytes


def lowest_pin(states: Iterable[Derived]) -> int | None:
    """Return the lowest position that some state still needs."""
    return min((pin for state in states if (pin := state.pin()) is not None), default=None)


def _crc(position: int, data: bytes) -> int:
    return crc32(data, crc32(position.to_bytes(8, "big", signed=True)))
