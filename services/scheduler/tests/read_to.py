"""Offsets up to which every source was read, set by the test."""

import sys

from scheduler.index.read_offsets import ReadOffsets


class ReadTo(ReadOffsets):
    """Every source was read up to `offset`."""

    def __init__(self, offset: int = sys.maxsize) -> None:
        super().__init__({})
        self.offset = offset

    def until(self, source: int) -> int:
        return self.offset
