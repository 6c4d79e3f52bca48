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

    A change costs a copy of the sectors it touches. Only a crash distinguishes them.
    """

    seen: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    changes: list[tuple[int, int, bytes]] = field(default_factory=list[tuple[int, int, bytes]])
    """First sector, sector after the last, and their bytes after each unsynced change, oldest first."""
    sizes: list[int] = field(default_factory=list[int])
    """Sizes of the file after each unsynced change."""
    blocks: set[int] = field(default_factory=set[int])
    modified_ms: int = 0

    def changed(self, start: int, end: int) -> None:
        """Record a change of these bytes. The device may hold it from now on."""
        first, after = start // SECTOR_BYTES, -(-end // SECTOR_BYTES)
        self.changes.append((first, after, bytes(self.seen[first * SECTOR_BYTES : after * SECTOR_BYTES])))
        self.sizes.append(len(self.seen))

    def synced(self) -> None:
        """Record that the device holds everything that changed."""
        seen, durable = self.seen, self.durable
        del durable[len(seen) :]
        durable.extend(bytes(len(seen) - len(durable)))
        for first, after, _ in self.changes:
            at, end = first * SECTOR_BYTES, after * SECTOR_BYTES
            durable[at:end] = seen[at:end]
        self.forget_unsynced()

    def flip(self, position: int, mask: int) -> None:
        """Change a byte in every version of the file that has it."""
        self.seen[position] ^= mask
        if position < len(self.durable):
            self.durable[position] ^= mask
        for number, (first, after, content) in enumerate(self.changes):
            at = position - first * SECTOR_BYTES
            if 0 <= at < len(content):
                flipped = bytes([content[at] ^ mask])
                self.changes[number] = first, after, content[:at] + flipped + content[at + 1 :]

    def forget_unsynced(self) -> None:
        """Count everything as clean, as a failed sync does, though the device has not changed."""
        self.changes.clear()
        self.sizes.clear()


def _sector_of(content: bytes | bytearray, at: int) -> bytes:
    """Return the sector at this byte, zeros behind the end."""
    return bytes(content[at : at + SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")


Names = dict[str, Inode]


class CrashStates:
    """Every legal state if there are at most `states_max`, else a sample of that many: the extremes and random mixtures."""

    def __init__(self, name_choices: Sequence[Names], states_max: int, seed: int) -> None:
        self._name_choices = name_choices
        self._inodes = list({id(inode): inode for names in name_choices for inode in names.values()}.values())
        self._sizes = [sorted({len(inode.durable), *inode.sizes}) for inode in self._inodes]
        self._sectors = [
            (inode, at, options) for inode in self._inodes for at, options in _sector_options(inode)
        ]
        counts = [len(name_choices), *map(len, self._sizes), *(len(options) for *_, options in self._sectors)]
        self._picks = list(_picks(counts, states_max, seed))

    def __len__(self) -> int:
        return len(self._picks)

    def state(self, number: int) -> dict[str, bytes]:
        """Return {path: content} of one state."""
        picked = self._picks[number]
        contents: dict[int, bytearray] = {}
        for inode, options, chosen in zip(self._inodes, self._sizes, picked[1:], strict=False):
            size = options[chosen]
            contents[id(inode)] = bytearray(inode.durable[:size].ljust(size, b"\0"))
        for (inode, at, options), chosen in zip(self._sectors, picked[1 + len(self._sizes) :], strict=True):
            content = contents[id(inode)]
            kept = options[chosen][: max(len(content) - at, 0)]
            content[at : at + len(kept)] = kept
        names = self._name_choices[picked[0]]
        return {name: bytes(contents[id(inode)]) for name, inode in names.items()}


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
    versions: dict[int, list[bytes]] = {}
    for first, after, content in inode.changes:
        for sector in range(first, after):
            at = (sector - first) * SECTOR_BYTES
            versions.setdefault(sector * SECTOR_BYTES, []).append(_sector_of(content, at))
    for at in sorted(versions):
        distinct = list(dict.fromkeys([_sector_of(inode.durable, at), *versions[at]]))
        if len(distinct) > 1:
            yield at, distinct
