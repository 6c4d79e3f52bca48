"""Finds frequent words and estimates the number of distinct ones, in bounded space. Pure: numpy and Arrow only.

Words are counted by cell (a topic, an hour and a kind of word, as one number). Frequent ones use the summary of Misra and Gries: when a cell has
more words than are kept, the count of the first one too many is subtracted from all of them, and that amount is remembered. So a count is a lower
bound, too small by at most that amount. Distinct ones use the smallest hashes: if the kept ones fill the fraction f of all hashes, there are kept / f.
Both add up over pieces of a log.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
HASH_MAX: Final = (1 << 63) - 1
"""Hashes are spread evenly from 0 to this."""
_PENDING_ROWS_MAX: Final = 200_000
"""Words with their counts that wait to be combined: some 20 MB."""
_MULTIPLIER: Final = np.uint64(0xFF51AFD7ED558CCD)
_MULTIPLIER_2: Final = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT: Final = np.uint64(33)


class Frequent:
    """Counts words; `kept` of each cell."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._pending: list[Any] = []
        self._pending_rows = 0
        self._settled_rows = 0
        self._missed: dict[int, int] = {}
        self._hashes: dict[int, npt.NDArray[np.uint64]] = {}

    def add(self, cells: Numbers, words: Any) -> None:
        """Count words, each in its cell; `words` is an Arrow array of texts without nulls."""
        if not len(words):
            return
        table = pa.table(
            {"cell": pa.array(cells), "word": words, "count": pa.array(np.ones(len(cells), np.int64))}
        )
        counted = _together(table)
        self._note(_numbers(counted, "cell"), counted["word"])
        self._pending.append(counted)
        self._pending_rows += counted.num_rows
        if self._pending_rows > _PENDING_ROWS_MAX + self._settled_rows:
            self._settle(10 * self._kept)

    def counts(self) -> Any:
        """Return a table of cell, word, count, which is a lower bound. The null word has the most by which counts of its cell are short."""
        self._settle(self._kept)
        missed = [(cell, count) for cell, count in sorted(self._missed.items()) if count]
        short = pa.table({
            "cell": pa.array([cell for cell, _ in missed], pa.int64()),
            "word": pa.array([None] * len(missed), pa.string()),
            "count": pa.array([count for _, count in missed], pa.int64()),
        })  # fmt: skip
        return pa.concat_tables([*self._pending, short])

    def hashes(self) -> Any:
        """Return a table of cell and hash: the smallest hashes of each cell."""
        cells = [np.full(len(found), cell, np.int64) for cell, found in self._hashes.items()]
        return pa.table({
            "cell": pa.array(np.concatenate(cells) if cells else np.empty(0, np.int64)),
            "hash": pa.array(np.concatenate([*self._hashes.values()]).astype(np.int64) if cells else np.empty(0, np.int64)),
        })  # fmt: skip

    def _note(self, cells: Numbers, words: Any) -> None:
        """Keep the smallest hashes."""
        hashes = hashed(words.combine_chunks())
        order = np.argsort(cells, kind="stable")
        sorted_cells, sorted_hashes = cells[order], hashes[order]
        firsts = np.flatnonzero(np.diff(sorted_cells, prepend=sorted_cells[0] - 1))
        for cell, found in zip(
            sorted_cells[firsts].tolist(), np.split(sorted_hashes, firsts[1:]), strict=True
        ):
            known = self._hashes.get(cell)
            if known is None:
                every = np.unique(found)
            elif len(known) < self._kept:
                every = np.unique(np.concatenate((known, found)))
            elif len(least := found[found < known[-1]]):
                every = np.unique(np.concatenate((known, least)))
            else:
                continue
            self._hashes[cell] = every[: self._kept].copy()

    def _settle(self, most: int) -> None:
        """Combine the counts of words and keep at most `most` of a cell."""
        if not self._pending:
            return
        table = _together(pa.concat_tables(self._pending))
        cells, counts = _numbers(table, "cell"), _numbers(table, "count").copy()
        order = np.lexsort((-counts, cells))
        cells, counts = cells[order], counts[order]
        firsts = np.flatnonzero(np.diff(cells, prepend=cells[0] - 1)) if len(cells) else np.empty(0, np.int64)
        for first, behind in zip(firsts.tolist(), [*firsts[1:].tolist(), len(cells)], strict=True):
            if behind - first > most:
                short = int(counts[first + most])
                counts[first:behind] -= short
                cell = int(cells[first])
                self._missed[cell] = self._missed.get(cell, 0) + short
        left = counts > 0
        settled = pa.table({
            "cell": pa.array(cells[left]), "word": table["word"].take(pa.array(order[left])), "count": pa.array(counts[left]),
        })  # fmt: skip
        self._pending, self._pending_rows, self._settled_rows = [settled], settled.num_rows, settled.num_rows


def hashed(words: Any) -> npt.NDArray[np.uint64]:
    """Return a hash of each text, spread evenly from 0 to HASH_MAX; the same in every process."""
    offsets = np.frombuffer(words.buffers()[1], np.int32, len(words) + 1 + words.offset)[
        words.offset :
    ].astype(np.int64)
    data = words.buffers()[2]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    padded = np.zeros(len(content) + 8, np.uint8)
    padded[: len(content)] = content
    eights: Any = np.ndarray((len(content) + 1,), "<u8", padded, 0, (1,))
    at, sizes = offsets[:-1], np.diff(offsets)
    found = sizes.astype(np.uint64) * _MULTIPLIER
    left = np.arange(len(words))
    for done in range(0, int(sizes.max(initial=0)), 8):
        left = left[sizes[left] > done]
        word = eights[at[left] + done]
        rest = np.minimum(sizes[left] - done, 8).astype(np.uint64) * np.uint64(8)
        word &= np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - rest)
        mixed = (found[left] ^ word) * _MULTIPLIER
        found[left] = mixed ^ (mixed >> _SHIFT)
    found = (found ^ (found >> _SHIFT)) * _MULTIPLIER_2
    return (found ^ (found >> _SHIFT)) >> np.uint64(1)


def _together(table: Any) -> Any:
    found = table.group_by(["cell", "word"], use_threads=False).aggregate([("count", "sum")])
    return found.select(["cell", "word", "count_sum"]).rename_columns(["cell", "word", "count"])


def _numbers(table: Any, name: str) -> Numbers:
    return table[name].combine_chunks().to_numpy()
