"""Decodes the fixed part of many records at once, the places of their variable fields, and detects inconsistent records. Pure.

Each header is gathered as 88 bytes (100 or 112 with IPv6 hosts) and read as a structure; a column is one strided read of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gantry_spark.decode.boundaries import Content, Positions, views
from gantry_wire.limits import TOPIC_BYTES_MAX
from gantry_wire.messages.ids import HOST_V4_BYTES, HOST_V6_BYTES
from gantry_wire.records.message_record import MAGIC_V1, MAGIC_V2, SYS_BORN_HOST_V6, SYS_STORE_HOST_V6

TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: the limit of times in Python and SQL."""
TORN_BYTES: Final = 512
"""The smallest unit that a disk writes atomically."""
_V6_BITS: Final = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6
_PROPERTIES_SHORT_MAX: Final = 0x7FFF


def _layout(v6: int) -> np.dtype[np.void]:
    born, store = (f"V{HOST_V6_BYTES if v6 & bit else HOST_V4_BYTES}" for bit in (1, 2))
    return np.dtype([
        ("size", ">i4"), ("magic", ">u4"), ("crc", ">i4"), ("queue_id", ">i4"), ("flag", ">i4"), ("queue_offset", ">i8"),
        ("position", ">i8"), ("sys_flag", ">i4"), ("born_ms", ">i8"), ("born_host", born), ("store_ms", ">i8"),
        ("store_host", store), ("reconsume", ">i4"), ("prepared", ">i8"), ("body_size", ">i4"),
    ])  # fmt: skip


_LAYOUTS: Final = tuple(_layout(v6) for v6 in range(4))
"""By which of the two hosts is IPv6, according to the system flag: index = (flag >> 4) & 3."""


class Rows:
    """Records of one block. All arrays have one item per record; `*_at` are indices into the content."""

    def __init__(self, content: Content, size: int, starts: Positions, ends: Positions) -> None:
        self.content = content
        self.size = size
        self.starts = starts
        self.ends = ends
        self.stands = np.ones(len(starts), np.bool_)
        """Records at the position they name, whose parts fill them: set by `wrong`."""
        self._bytes = np.frombuffer(content, np.uint8)
        self._fields: dict[str, npt.NDArray[Any]] = {}
        heads = self._gather(starts, 0)
        self._groups: list[tuple[Any, npt.NDArray[np.void]]] = [(slice(None), heads)]
        odd = (heads["magic"] != MAGIC_V1) | (heads["sys_flag"] & _V6_BITS != 0)
        self.body_at = starts + _LAYOUTS[0].itemsize
        self._is_odd = bool(odd.any())
        if self._is_odd:
            self._split(heads)
            self._is_magic = np.isin(heads["magic"], (MAGIC_V1, MAGIC_V2))
        self.body_size = self.field("body_size", np.int32)
        self.body_end = self.body_at + self.body_size
        self._find_tail(heads["magic"] != MAGIC_V1 if self._is_odd else None)

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, chosen: npt.NDArray[Any]) -> Rows:
        """Return some of the records: by a mask, or by their numbers in ascending order."""
        return Rows(self.content, self.size, self.starts[chosen], self.ends[chosen])

    def part(self, start: int, end: int) -> Rows:
        """Return the records from `start` to below `end`."""
        return Rows(self.content, self.size, self.starts[start:end], self.ends[start:end])

    def field(self, name: str, kind: Any) -> npt.NDArray[Any]:
        """Return a number of the fixed part."""
        values = self._fields.get(name)
        if values is None:
            if len(self._groups) == 1:
                values = self._groups[0][1][name].astype(kind)
            else:
                values = np.empty(len(self.starts), kind)
                for index, heads in self._groups:
                    values[index] = heads[name]
            self._fields[name] = values
        return values if values.dtype == kind else values.astype(kind)

    def hosts(self, name: str) -> Iterator[tuple[Any, npt.NDArray[np.void]]]:
        """Yield the records by host length: their selection, and the packed hosts."""
        for index, heads in self._groups:
            yield index, heads[name]

    def wrong(self, position: int) -> dict[int, str]:
        """Return inconsistent records by index, and why. `position` is that of byte 0."""
        at_home = self.field("position", np.int64) == self.starts + position
        store_ms = self.field("store_ms", np.int64)
        timely = store_ms.view(np.uint64) <= TIME_MS_MAX
        counted = (
            self.field("queue_id", np.int32)
            | self.field("reconsume", np.int32)
            | self.field("queue_offset", np.int64)
        ) >= 0
        self.stands = at_home & self._fills
        if self._is_odd:
            self.stands &= self._is_magic
        good = self.stands & timely & counted
        if good.all():
            return {}
        bad: dict[int, str] = {}
        for index in np.flatnonzero(~good).tolist():
            if not at_home[index]:
                bad[index] = f"it names the position {int(self.field('position', np.int64)[index])}"
            elif self._is_odd and not self._is_magic[index]:
                bad[index] = "its magic is not that of a record"
            elif not self._fills[index]:
                bad[index] = f"its parts do not fill its size {int(self.ends[index] - self.starts[index])}"
            elif not timely[index]:
                bad[index] = f"its store time {int(store_ms[index])} ms is not a time"
            else:
                bad[index] = "its queue, queue offset or reconsume times are below 0"
        return bad

    def torn(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the torn records: those whose part without a CRC ends in a zero, or contains a sector of zeros.

        Neither topics nor properties end in a zero byte, and no store accepts properties with that many zeros.
        """
        has_properties = self.properties_at < self.ends
        last = np.where(has_properties, self.ends, self.topic_end) - 1
        torn = (self._bytes.take(last) == 0) & (has_properties | (self.topic_at < self.topic_end))
        for index in np.flatnonzero(self.ends - self.properties_at >= TORN_BYTES).tolist():
            if (
                self.content.find(bytes(TORN_BYTES), int(self.properties_at[index]), int(self.ends[index]))
                >= 0
            ):
                torn[index] = True
        return torn

    def _gather(self, starts: Positions, v6: int) -> npt.NDArray[np.void]:
        layout = _LAYOUTS[v6]
        return views(self.content, self.size, f"V{layout.itemsize}", layout.itemsize)[starts].view(layout)

    def _split(self, heads: npt.NDArray[np.void]) -> None:
        kinds = (heads["sys_flag"] & _V6_BITS) >> 4
        self._groups = []
        for v6 in range(4):
            index = np.flatnonzero(kinds == v6)
            if len(index):
                self._groups.append((index, self._gather(self.starts[index], v6)))
                self.body_at[index] = self.starts[index] + _LAYOUTS[v6].itemsize

    def _find_tail(self, long: npt.NDArray[np.bool_] | None) -> None:
        """Find topic and properties, and check whether all parts fill each record exactly."""
        take = self._bytes.take
        topic_size = take(self.body_end, mode="clip").astype(np.int64)
        self.topic_at = self.body_end + 1
        topic_max: Any = TOPIC_BYTES_MAX
        if long is not None:
            low = take(self.topic_at, mode="clip")
            topic_size = np.where(long, topic_size << 8 | low, topic_size)
            self.topic_at += long
            topic_max = np.where(long, _PROPERTIES_SHORT_MAX, TOPIC_BYTES_MAX)
        self.topic_end = self.topic_at + topic_size
        self.properties_at = self.topic_end + 2
        properties_size = take(self.topic_end, mode="clip").astype(np.int64) << 8
        properties_size |= take(self.topic_end + 1, mode="clip")
        self._fills = (
            (self.body_size >= 0)
            & (topic_size <= topic_max)
            & (properties_size <= _PROPERTIES_SHORT_MAX)
            & (self.properties_at + properties_size == self.ends)
        )
