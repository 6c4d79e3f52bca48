"""Finds record boundaries in bytes of the log: follows many chains of sizes in lock-step, proven by linking. Pure.

Records are adjacent and each begins with its size, so walking is a chain of dependent reads, which is slow. Here each window of the bytes
gets a guessed start (by magic and by the position that a record names), and all chains are followed together,
one NumPy gather per step. The proof: chain i must end exactly at the start of chain i+1. The first start is known, so every
boundary is proven by induction, whatever the bodies contain. Where chains do not link, records are walked one by one.
"""

from __future__ import annotations

from mmap import mmap
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gantry_wire.records.message_record import MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN

Positions = npt.NDArray[np.int64]
Content = bytearray | mmap

SLACK_BYTES: Final = 128
"""Zero bytes after the content of a buffer: a chain that leaves the content stops there."""
RECORD_BYTES_LIMIT: Final = 64 * 1024 * 1024
"""No record is longer, whatever its first four bytes claim: limits the memory that damage can make a reader allocate."""
_MAGIC_START: Final = MAGIC_V1.to_bytes(4)[:3]
_HEAD: Final = Struct(">iI")
_POSITION_AT: Final = 28
_WINDOW_BYTES_MIN: Final = 16 * 1024
_RECORDS_A_WINDOW: Final = 64
"""More: more steps; fewer: more guesses. Both cost about the same here."""
_STEPS_A_ROUND: Final = 16
_SERIAL_BYTES: Final = 4 * _WINDOW_BYTES_MIN


class Run(NamedTuple):
    """Adjacent records: the start of each, and the end of the last. Indices into the bytes."""

    starts: Positions
    end: int


def follow(content: Content, size: int, at: int, base: int, record_bytes: int) -> Run:
    """Return the complete records from `at` on, as far as sizes and magics lead inside the first `size` bytes.

    `base` is the position in the log of byte 0, `record_bytes` the usual size of a record.
    A record's magic may still be wrong if the later ones link.
    """
    if size - at > _SERIAL_BYTES:
        window = max(_WINDOW_BYTES_MIN, _RECORDS_A_WINDOW * record_bytes)
        heads = _guess(content, size, at, base, window)
        if len(heads) > 1:
            starts = _lock_step(content, size, heads)
            if starts is not None:
                return _whole(content, size, starts)
    return walk(content, size, at)


def walk(content: Content, size: int, at: int) -> Run:
    """Return the same by walking from record to record."""
    starts: list[int] = []
    unpack, append = _HEAD.unpack_from, starts.append
    while at + RECORD_BYTES_MIN <= size:
        length, magic = unpack(content, at)
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or length < RECORD_BYTES_MIN or at + length > size:  # noqa: PLR1714 - twice as fast
            break
        append(at)
        at += length
    return Run(np.array(starts, np.int64), at)


def views(content: Content, size: int, kind: str, width: int) -> npt.NDArray[np.void]:
    """Return the values of a type at every byte."""
    return np.ndarray((max(size + SLACK_BYTES - width, 0),), kind, content, 0, (1,))


def candidates(content: Content, size: int, at: int, base: int) -> Positions:
    """Return every place from `at` on that looks like a record: its magic, and its own position."""
    found: list[int] = []
    find, append = content.find, found.append
    place = find(_MAGIC_START, at + 4, size)
    while place >= 0:
        append(place)
        place = find(_MAGIC_START, place + 3, size)
    return _plausible(content, size, np.array(found, np.int64) - 4, base)


def _guess(content: Content, size: int, at: int, base: int, window: int) -> Positions:
    """Return `at` and the first place in each window that looks like a record."""
    find = content.find
    found = [find(_MAGIC_START, place, place + window) for place in range(at + window + 4, size - 4, window)]
    places = np.array(found, np.int64)
    likely = _plausible(content, size, places[places >= 0] - 4, base)
    return np.concatenate((np.array([at], np.int64), likely[likely > at]))


def _plausible(content: Content, size: int, places: Positions, base: int) -> Positions:
    places = places[places + RECORD_BYTES_MIN <= size]
    named = views(content, size, ">i8", 8)[places + _POSITION_AT].astype(np.int64)
    return places[named == places + base]


def _lock_step(content: Content, size: int, heads: Positions) -> Positions | None:
    """Return the boundaries of all chains in order if each ends at the next one's head, else None."""
    words = views(content, size, "<u4", 4)
    limits = np.append(heads[1:], size + 1)
    beyond = size + 2
    steps_max = int(np.diff(limits, prepend=heads[0]).max()) // RECORD_BYTES_MIN + _STEPS_A_ROUND
    place, running = heads, np.arange(len(heads))
    rounds: list[Positions] = []
    taken = 0
    while len(running):
        if taken > steps_max:
            return None
        steps = np.empty((_STEPS_A_ROUND + 1, len(running)), np.int64)
        steps[0] = place
        for step in range(_STEPS_A_ROUND):
            place = steps[step + 1]
            lengths = words[steps[step]]
            lengths.byteswap(inplace=True)
            np.add(steps[step], lengths, out=place)
            np.minimum(place, size + 1, out=place)
        if len(running) == len(heads):
            here = steps[:-1]
        else:
            here = np.full((_STEPS_A_ROUND, len(heads)), beyond, np.int64)
            here[:, running] = steps[:-1]
        rounds.append(here)
        taken += _STEPS_A_ROUND
        on = (steps[-2] < limits[running]) & (place > steps[0])
        place, running = place[on], running[on]
    table = np.ascontiguousarray(np.concatenate(rounds).T)  # a view is 10 x slower to choose from
    inside = table < limits[:, None]
    last = np.minimum(np.count_nonzero(inside, axis=1), taken - 1)
    if (table[np.arange(len(heads)), last][:-1] != heads[1:]).any():
        return None
    return table[inside]


def _whole(content: Content, size: int, starts: Positions) -> Run:
    """Truncate linked boundaries where no complete record begins."""
    good = np.diff(starts, append=starts[-1]) >= RECORD_BYTES_MIN
    good[-1] = False
    whole = max(int(good.argmin()) - 1, 0)  # a blank links too, to the end of its segment
    tail = walk(content, size, int(starts[whole]))
    return Run(np.concatenate((starts[:whole], tail.starts)), tail.end)
