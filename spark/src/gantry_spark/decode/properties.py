"""Decodes the properties of many records at once: as maps, or a single property, by one scan for separators. Pure.

The properties of each record are cut with the following byte, which is the first of the next record's size: zero, so it ends the
list with or without a separator before it. Then every byte up to 2 is a mark: 1 after a key, 2 after a value, 0 at the end.
If marks are irregular (a value that contains one, an empty key, a repeated key), the batch is decoded as `parse_properties`
does, record by record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gantry_spark.decode.fields import as_text, content_of, cut, offsets_of
from gantry_spark.decode.rows import Rows
from gantry_spark.decode.schema import TEXT_MAP
from gantry_wire.messages.properties import parse_properties

_END, _KEY_END, _VALUE_END = 0, 1, 2
_WORDS: Final = ((8, "<u8"), (4, "<u4"), (2, "<u2"), (1, "u1"))


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The place of each key and value in the content, and the pairs of each record: from `first[i]` to `first[i + 1]`."""

    key_at: npt.NDArray[np.int64]
    key_end: npt.NDArray[np.int64]
    value_end: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]


class PropertyLists:
    """The properties of the records of a batch; decoded only as columns need them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @cached_property
    def _cut(self) -> pa.BinaryArray:
        """Return each record's properties and the following byte."""
        return cut(self._rows.content, self._rows.properties_at, self._rows.ends + 1)

    @cached_property
    def _data(self) -> npt.NDArray[np.uint8]:
        return content_of(self._cut)

    @cached_property
    def _pairs(self) -> _Pairs | None:
        """Return the pairs, None if the marks are irregular."""
        data = self._data
        marks = np.flatnonzero(data <= _VALUE_END)
        kinds = data[marks]
        row_ends = np.flatnonzero(kinds == _END)
        if len(row_ends) != len(self._rows) or (marks[row_ends] != offsets_of(self._cut)[1:] - 1).any():
            return None
        regular = _alternating(marks, kinds, row_ends, offsets_of(self._cut))
        if regular is not None:
            return regular
        keys = np.flatnonzero(kinds == _KEY_END)
        key_end, value_end = marks[keys], marks[keys + 1]
        key_at = np.where(keys > 0, marks[keys - 1] + 1, 0)
        if (
            (kinds[keys + 1] == _KEY_END).any()
            or (key_at == key_end).any()
            or (key_end + 1 == value_end).any()
        ):
            return None
        first = np.zeros(len(self._rows) + 1, np.int64)
        first[1:] = np.searchsorted(keys, row_ends)
        return _Pairs(key_at, key_end, value_end, first)

    @cached_property
    def _parsed(self) -> list[dict[str, str]]:
        return [parse_properties(raw[:-1].decode(errors="replace")) for raw in self._cut.to_pylist()]

    def raw(self) -> pa.BinaryArray:
        """Return the properties as stored in the log."""
        return cut(self._rows.content, self._rows.properties_at, self._rows.ends)

    def maps(self) -> pa.MapArray:
        """Return all properties; of equal keys the last one counts."""
        pairs = self._pairs
        if pairs is None or not self._is_text or _has_twice(self._data, pairs):
            return pa.array([list(found.items()) for found in self._parsed], TEXT_MAP)
        keys = _text(cut(self._data, pairs.key_at, pairs.key_end))
        values = _text(cut(self._data, pairs.key_end + 1, pairs.value_end))
        return pa.MapArray.from_arrays(pa.array(pairs.first.astype(np.int32)), keys, values)

    def one(self, name: str) -> pa.StringArray:
        """Return one property, null where a record lacks it."""
        pairs = self._pairs
        if pairs is None:
            return pa.array([found.get(name) for found in self._parsed], pa.string())
        found = _named(self._data, pairs, name.encode())
        # The last pair of a record with a repeated name counts: later ones overwrite earlier ones here.
        row = np.searchsorted(pairs.first, found, side="right") - 1
        starts = offsets_of(self._cut)[:-1].astype(np.int64)
        ends = starts.copy()
        starts[row], ends[row] = pairs.key_end[found] + 1, pairs.value_end[found]
        values = cut(self._data, starts, ends)
        if len(found) < len(starts) or (starts == ends).any():
            present = pa.py_buffer(np.packbits(ends > starts, bitorder="little"))
            values = pa.Array.from_buffers(pa.binary(), len(starts), [present, *values.buffers()[1:]])
        return as_text(values)

    @cached_property
    def _is_text(self) -> bool:
        """Whether each record's properties are UTF-8: then so is each part of them."""
        data = self._data
        if not len(data) or int(data.view(np.int8).min()) >= 0:
            return True
        try:
            _text(self._cut).validate(full=True)
        except pa.ArrowInvalid:
            return False
        return True


def _alternating(
    marks: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    row_ends: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int32],
) -> _Pairs | None:
    """Return the pairs if in each record marks of keys and values alternate, as stores write them; else None.

    No search for pairs is needed then, which saves about half of the time.
    """
    first = np.zeros(len(row_ends) + 1, np.int64)
    inner = row_ends - np.arange(len(row_ends))
    first[1:] = inner >> 1
    of_pairs = kinds != _END
    turns = kinds[of_pairs]
    if (inner & 1).any() or (turns[0::2] != _KEY_END).any() or (turns[1::2] != _VALUE_END).any():
        return None
    ends = marks[of_pairs]
    key_end, value_end = ends[0::2], ends[1::2]
    key_at = np.zeros(len(key_end), np.int64)
    key_at[1:] = value_end[:-1] + 1
    with_pairs = np.flatnonzero(first[1:] > first[:-1])
    key_at[first[with_pairs]] = offsets[with_pairs]
    if (key_at == key_end).any() or (key_end + 1 == value_end).any():
        return None
    return _Pairs(key_at, key_end, value_end, first)


def _text(values: pa.BinaryArray) -> pa.StringArray:
    return pa.Array.from_buffers(pa.string(), len(values), values.buffers(), 0, values.offset)


def _named(data: npt.NDArray[np.uint8], pairs: _Pairs, name: bytes) -> npt.NDArray[np.int64]:
    """Return the pairs with this key."""
    found = np.flatnonzero(pairs.key_end - pairs.key_at == len(name))
    at = 0
    while at < len(name) and len(found):
        width, kind = next((width, kind) for width, kind in _WORDS if at + width <= len(name))
        words: Any = np.ndarray((max(len(data) - width + 1, 0),), kind, data, 0, (1,))
        found = found[words[pairs.key_at[found] + at] == np.frombuffer(name, kind, 1, at)[0]]
        at += width
    return found


def _has_twice(data: npt.NDArray[np.uint8], pairs: _Pairs) -> bool:
    """Whether a record may repeat a key: two of its keys agree in length and in their last bytes."""
    counts = np.diff(pairs.first)
    most = int(counts.max(initial=0))
    if most < 2:
        return False
    return all(
        any(_agree(prints, counts, pairs.first[:-1], gap) for gap in range(1, most))
        for prints in (made(data, pairs) for made in (_short_prints, _prints))
    )


def _short_prints(data: npt.NDArray[np.uint8], pairs: _Pairs) -> npt.NDArray[np.int64]:
    """Return length, first and last byte: a third of the cost of `_prints`, and enough for most lists."""
    prints = (pairs.key_end - pairs.key_at) << 16
    prints |= data.take(pairs.key_at)
    prints |= data.take(pairs.key_end - 1).astype(np.int64) << 8
    return prints


def _prints(data: npt.NDArray[np.uint8], pairs: _Pairs) -> npt.NDArray[np.uint64]:
    width = 8
    padded = np.concatenate((np.zeros(width, np.uint8), data))
    words: Any = np.ndarray((len(padded) - width + 1,), "<u8", padded, 0, (1,))
    sizes = pairs.key_end - pairs.key_at
    shift = (8 * np.maximum(width - sizes, 0)).astype(np.uint64)
    return (words[pairs.key_end] >> shift) * np.uint64(0x9E3779B97F4A7C15) + sizes.astype(np.uint64)


def _agree(prints: Any, counts: Any, first: Any, gap: int) -> bool:
    """Whether in a record of more than `gap` pairs, some pair and the one `gap` after it have equal prints."""
    same = np.flatnonzero(prints[gap:] == prints[:-gap])
    if not len(same):
        return False
    row = np.searchsorted(first, same, side="right") - 1
    return bool((same + gap < first[row] + counts[row]).any())
