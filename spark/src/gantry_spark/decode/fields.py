"""Extracts fields of variable length as Arrow arrays, without a loop. Pure.

An Arrow array with the offsets [start0, end0, start1, end1, …] covers the bytes of a block: its even elements are the fields, its
odd ones the gaps. `take` of the even ones copies the fields at the speed of C++. (An array of views would copy nothing, but
Spark does not accept views.)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def cut(content: Any, starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> pa.BinaryArray:
    """Return the bytes between each start and end, which must be ascending, as an array that shares nothing with the content."""
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
    """Return bytes as text; invalid UTF-8 becomes U+FFFD, as in Java."""
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
    """Whether all bytes of a cut array are ASCII."""
    data = content_of(values)
    return not len(data) or int(data.view(np.int8).min()) >= 0


def content_of(values: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of a cut array, all fields concatenated."""
    data = values.buffers()[2]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)


def offsets_of(values: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return the start of each field of a cut array, and the end of the last."""
    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1)


def repeated(text: str, count: int) -> pa.StringArray:
    """Return a text repeated `count` times."""
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
    """Return the next power of two: a few sizes serve all batches."""
    return 1 << max(count - 1, 1).bit_length()
