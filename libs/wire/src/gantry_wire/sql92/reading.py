"""Finds the value of one property in the bytes of all of them, without looking at the others.

Bytes are framed: 0x02 stands before them, so that every name begins behind one.
"""

from collections.abc import Callable
from typing import TypeAlias

from gantry_wire.sql92.nodes import Value

Get: TypeAlias = Callable[[bytes], Value]
GetBytes: TypeAlias = Callable[[bytes], bytes | None]


def property_getter(name: str) -> GetBytes:
    """Return what reads a property from framed bytes; of equal names the last one with a value counts."""
    mark = property_mark(name)

    def get(raw: bytes) -> bytes | None:
        # Partitioning takes half the time of finding and slicing. Without the mark it leaves all of raw, whose part
        # before the first 0x02 is empty: so is a missing value, like one that is empty.
        return raw.rpartition(mark)[2].partition(b"\x02")[0] or earlier_value(raw, mark)

    return get


def property_mark(name: str) -> bytes:
    """Return what stands before a property's value in framed bytes."""
    return b"\x02" + name.encode() + b"\x01"


def earlier_value(raw: bytes, mark: bytes) -> bytes | None:
    """Return the last value that is not empty; None when there is none. For a property whose last value is empty or missing."""
    while raw.rfind(mark) >= 0:
        raw, _, rest = raw.rpartition(mark)
        value = rest.partition(b"\x02")[0]
        if value:
            return value
    return None
