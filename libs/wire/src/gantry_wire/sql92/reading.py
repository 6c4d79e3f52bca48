"""Reads property values in one of two ways. Both give the same values.

Scanning searches the property bytes for one name. It is fastest for the few properties of a usual expression. A table is built
once per message and makes each lookup cheap: its cost grows with the size of the message plus that of the expression, the cost
of scanning with their product.

The bytes are framed: a 0x02 is put before them, so that every name follows a 0x02.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from gantry_wire.sql92.nodes import Value

Get: TypeAlias = Callable[[Any], Value]
"""Takes the result of `Reading.prepare`."""
GetBytes: TypeAlias = Callable[[Any], bytes | None]

_FRAME = b"\x02"


class Reading(NamedTuple):
    """One way to read properties."""

    prepare: Callable[[bytes], Any]
    """Converts a message's property bytes to the argument of the getters."""
    getter: Callable[[str], GetBytes]
    """Returns the getter of a property name. The last of equal names with a value wins."""
    is_scan: bool


def property_getter(name: str) -> GetBytes:
    """Return a function that reads a property from framed bytes. The last of equal names with a value wins."""
    mark = property_mark(name)

    def get(raw: bytes) -> bytes | None:
        # Partitioning takes half the time of finding and slicing. Without the mark it returns all of raw, whose part
        # before the first 0x02 is empty, so a missing value reads like an empty one.
        return raw.rpartition(mark)[2].partition(b"\x02")[0] or earlier_value(raw, mark)

    return get


def property_mark(name: str) -> bytes:
    """Return the bytes before a property's value in framed bytes."""
    return b"\x02" + name.encode() + b"\x01"


def earlier_value(raw: bytes, mark: bytes) -> bytes | None:
    """Return the last non-empty value, or None. For a property whose last value is empty or missing."""
    end = len(raw)
    while (at := raw.rfind(mark, 0, end)) >= 0:
        value_at = at + len(mark)
        value_end = raw.find(b"\x02", value_at)
        value = raw[value_at:] if value_end < 0 else raw[value_at:value_end]
        if value:
            return value
        end = at
    return None


def _framed(properties: bytes) -> bytes:
    return _FRAME + properties


def _table(properties: bytes) -> dict[bytes, bytes]:
    table: dict[bytes, bytes] = {}
    for pair in properties.split(b"\x02"):
        name, mark, value = pair.partition(b"\x01")
        if mark and value:
            table[name] = value
    return table


def _table_getter(name: str) -> GetBytes:
    key = name.encode()
    return lambda table: table.get(key)


SCAN = Reading(_framed, property_getter, is_scan=True)
TABLE = Reading(_table, _table_getter, is_scan=False)
