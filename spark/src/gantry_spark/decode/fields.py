"""Fields of variable length as Arrow arrays, without a loop. Pure.

Over the bytes of a block lies an Arrow array whose offsets are [start0, end0, start1, end1, …]: its even elements are the fields, its
odd ones the gaps between. `take` of the even ones copies the fields at the speed of C++. (An array of views would copy nothing, and
Spark takes none.)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def cut(content: Any, starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> pa.BinaryArray:
    """Return the bytes between each start and end, which must not fall, as an array that shares nothing with the content."""
    count = len(starts)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = ends[-1] if count else 0
    spans = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    )
    return spans.take(_evens(count))


def as_text(values: pa.BinaryArray) -> pa.StringArray:
    """Return bytes as text; what is not UTF-8 in them becomes U+FFFD, as Java shows it."""
    text = pa.Array.from_buffers(pa.string(), len(values), values.buffers(), values.null_count, values.offset)
    if is_ascii(values):
        return text
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(
            [None if item is None else item.decode(errors="replace") for item in values.to_pylist()],
            pa.string(),
        )
    return text


def is_ascii(values: pa.BinaryArray) -> bool:
    """Return whether no byte of an array that was cut is above 127."""
    data = content_of(values)
    return not len(data) or int(data.view(np.int8).min()) >= 0


def content_of(values: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of an array that was cut, all fields back to back."""
    data = values.buffers()[2]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)


def offsets_of(values: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return where each field of an array that was cut begins, and where the last one ends."""
    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1)


def repeated(text: str, count: int) -> pa.StringArray:
    """Return a text so many times."""
    return _repeated(text, _above(count))[:count]


@lru_cache(maxsize=8)
def _repeated(text: str, count: int) -> pa.StringArray:
    return pa.repeat(text, count)


def _evens(count: int) -> pa.Array:
    return _evens_above(_above(count))[:count]


@lru_cache(maxsize=2)
def _evens_above(count: int) -> pa.Array:
    return pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))


def _above(count: int) -> int:
    """Return the power of two at or above: a few sizes serve all batches."""
    return 1 << max(count - 1, 1).bit_length()
