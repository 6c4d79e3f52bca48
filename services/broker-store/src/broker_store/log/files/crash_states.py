"""Contents that a power cut may leave: every legal mixture of what was synced and what was written since.

Each sector of a file may be as synced, or as after any later write; so may the size. Names are as after any
change of their directory since its sync. This is more than a journaling file system allows, never less.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SECTOR_BYTES = 512


@dataclass(eq=False)
class Inode:
    """One file: its visible bytes, those certainly on the device, and the versions a crash may leave between."""

    seen: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    versions: list[bytes] = field(default_factory=list[bytes])
    """Whole contents after each unsynced change, oldest first."""
    blocks: set[int] = field(default_factory=set[int])
    dirty: set[int] = field(default_factory=set[int])
    """Sectors that the next sync writes."""
    modified_ms: int = 0

    def changed(self, start: int, end: int) -> None:
        """Record a change of these bytes. The device may hold it from now on."""
        self.dirty.update(range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)))
        self.versions.append(bytes(self.seen))

    def synced(self) -> None:
        """Record that the device holds everything that was dirty."""
        content = bytearray(self.durable[: len(self.seen)].ljust(len(self.seen), b"\0"))
        for sector in self.dirty:
            at = sector * SECTOR_BYTES
            content[at : at + SECTOR_BYTES] = self.seen[at : at + SECTOR_BYTES]
        self.durable = bytes(content)
        self.forget_dirty()

    def forget_dirty(self) -> None:
        """Count everything as clean, as a failed sync does, though the device has not changed."""
        self.dirty.clear()
        self.versions.clear()


Names = dict[str, Inode]


def crash_states(name_choices: Sequence[Names], states_max: int, seed: int) -> Iterator[dict[str, bytes]]:
    """Yield {path: content} of every legal state if there are at most states_max, else of a sample of that many."""
    inodes = list({id(inode): inode for names in name_choices for inode in names.values()}.values())
    sizes = [sorted({len(version) for version in (inode.durable, *inode.versions)}) for inode in inodes]
    sectors = [(inode, at, options) for inode in inodes for at, options in _sector_options(inode)]
    counts = [len(name_choices), *map(len, sizes), *(len(options) for _, _, options in sectors)]
    for picked in _picks(counts, states_max, seed):
        contents: dict[int, bytearray] = {}
        for inode, options, number in zip(inodes, sizes, picked[1:], strict=False):
            size = options[number]
            contents[id(inode)] = bytearray(inode.durable[:size].ljust(size, b"\0"))
        for (inode, at, options), number in zip(sectors, picked[1 + len(sizes) :], strict=True):
            content = contents[id(inode)]
            kept = options[number][: max(len(content) - at, 0)]
            content[at : at + len(kept)] = kept
        yield {name: bytes(contents[id(inode)]) for name, inode in name_choices[picked[0]].items()}


def _picks(counts: Sequence[int], states_max: int, seed: int) -> Iterator[Sequence[int]]:
    total = 1
    for count in counts:
        total *= count
    if total <= states_max:
        yield from itertools.product(*map(range, counts))
        return
    yield [0 for _ in counts]
    yield [count - 1 for count in counts]
    source = random.Random(seed)  # noqa: S311 - reproducible, not secret
    for _ in range(states_max - 2):
        yield [source.randrange(count) for count in counts]


def _sector_options(inode: Inode) -> Iterator[tuple[int, list[bytes]]]:
    """Return where each sector lies that differs between versions, and what it may hold."""
    versions = [inode.durable, *inode.versions]
    for at in range(0, max(map(len, versions)), SECTOR_BYTES):
        options = [version[at : at + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0") for version in versions]
        distinct = list(dict.fromkeys(options))
        if len(distinct) > 1:
            yield at, distinct
