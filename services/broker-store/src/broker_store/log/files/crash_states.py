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
    """One file: its visible bytes, those certainly on the device, and the versions a crash may leave between.

    Versions are kept per sector, so a change costs what it touches, not the size of the file.
    """

    seen: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    sectors: dict[int, list[bytes]] = field(default_factory=dict[int, list[bytes]])
    """Contents of each sector after each unsynced change of it, oldest first."""
    sizes: list[int] = field(default_factory=list[int])
    """Sizes of the file after each unsynced change."""
    blocks: set[int] = field(default_factory=set[int])
    modified_ms: int = 0

    def changed(self, start: int, end: int) -> None:
        """Record a change of these bytes. The device may hold it from now on."""
        for sector in range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            self.sectors.setdefault(sector, []).append(_sector_of(self.seen, sector))
        self.sizes.append(len(self.seen))

    def synced(self) -> None:
        """Record that the device holds everything that changed."""
        seen, durable = self.seen, self.durable
        del durable[len(seen) :]
        durable.extend(bytes(len(seen) - len(durable)))
        for sector in self.sectors:
            at = sector * SECTOR_BYTES
            durable[at : at + SECTOR_BYTES] = seen[at : at + SECTOR_BYTES]
        self.forget_unsynced()

    def forget_unsynced(self) -> None:
        """Count everything as clean, as a failed sync does, though the device has not changed."""
        self.sectors.clear()
        self.sizes.clear()


def _sector_of(content: bytearray, sector: int) -> bytes:
    """Return a sector, zeros behind the end of the file."""
    at = sector * SECTOR_BYTES
    return bytes(content[at : at + SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")


Names = dict[str, Inode]


def crash_states(name_choices: Sequence[Names], states_max: int, seed: int) -> Iterator[dict[str, bytes]]:
    """Yield {path: content} of every legal state if there are at most states_max, else of a sample of that many."""
    inodes = list({id(inode): inode for names in name_choices for inode in names.values()}.values())
    sizes = [sorted({len(inode.durable), *inode.sizes}) for inode in inodes]
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
    for sector in sorted(inode.sectors):
        distinct = list(dict.fromkeys([_sector_of(inode.durable, sector), *inode.sectors[sector]]))
        if len(distinct) > 1:
            yield sector * SECTOR_BYTES, distinct
