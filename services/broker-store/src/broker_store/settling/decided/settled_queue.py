"""Which items of one queue are decided: a cursor, and a bitmap above it.

Memory grows with what is out of order, not with what is pending.
"""

from collections.abc import Iterator, Sequence

PAGE_ITEMS = 4096
_FULL = (1 << PAGE_ITEMS) - 1


class SettledQueue:
    """Decided offsets of one (topic, queue, group)."""

    __slots__ = ("_pages", "cursor")

    def __init__(self, cursor: int = 0) -> None:
        self.cursor = cursor
        """Lowest undecided offset."""
        self._pages: dict[int, int] = {}
        """Page number → bits of its decided items at or above the cursor."""

    def is_settled(self, offset: int) -> bool:
        """Whether an item is decided."""
        if offset < self.cursor:
            return True
        return bool(self._pages.get(offset // PAGE_ITEMS, 0) >> offset % PAGE_ITEMS & 1)

    def settle(self, offset: int) -> bool:
        """Mark an item as decided. False when it was decided before."""
        if offset < self.cursor:
            return False
        if offset == self.cursor and not self._pages:
            self.cursor = offset + 1
            return True
        number, bit = offset // PAGE_ITEMS, 1 << offset % PAGE_ITEMS
        page = self._pages.get(number, 0)
        if page & bit:
            return False
        self._pages[number] = page | bit
        if offset == self.cursor:
            self._advance()
        return True

    def settle_all(self, offsets: Sequence[int]) -> None:
        """Mark items as decided, in any order."""
        for offset in offsets:
            if offset == self.cursor and not self._pages:
                self.cursor = offset + 1
            else:
                self.settle(offset)

    def raise_cursor(self, offset: int) -> None:
        """Count everything below an offset as decided: it is gone."""
        if offset <= self.cursor:
            return
        self.cursor = offset
        for number in [number for number in self._pages if number < offset // PAGE_ITEMS]:
            del self._pages[number]
        self._drop_below_cursor()
        self._advance()

    def ranges(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """Yield decided offsets at or above `start` and the cursor as [first, end), ascending, as long as possible."""
        start = max(start, self.cursor)
        begin = end = -1
        for number in sorted(self._pages):
            base, page = number * PAGE_ITEMS, self._pages[number]
            at = 0
            while page >> at:
                at += _zeros(page >> at)
                length = _ones(page >> at)
                if base + at != end:
                    if end > start:
                        yield max(begin, start), end
                    begin = base + at
                end = base + at + length
                at += length
        if end > start:
            yield max(begin, start), end

    @property
    def settled_above(self) -> int:
        """Return how many items above the cursor are decided."""
        return sum(end - first for first, end in self.ranges())

    def packed(self) -> list[tuple[int, bytes]]:
        """Return the bitmap as (page, bits).

        A run of full pages is one entry whose bits are the number of pages as text.
        """
        parts: list[tuple[int, bytes]] = []
        full_from = full_end = -1
        for number in sorted(self._pages):
            page = self._pages[number]
            if page != _FULL:
                parts.append((number, page.to_bytes(PAGE_ITEMS // 8, "little").rstrip(b"\0") + b"\1"))
            elif number == full_end:
                full_end = number + 1
                parts[-1] = (full_from, b"%d\2" % (full_end - full_from))
            else:
                full_from, full_end = number, number + 1
                parts.append((number, b"1\2"))
        return parts

    def unpack(self, parts: list[tuple[int, bytes]]) -> None:
        """Add a packed bitmap."""
        for number, bits in parts:
            if bits[-1] == 1:
                self._pages[number] = int.from_bytes(bits[:-1], "little")
            else:
                for page in range(number, number + int(bits[:-1])):
                    self._pages[page] = _FULL

    def _advance(self) -> None:
        """Move the cursor over decided items, and drop the pages it passes."""
        pages = self._pages
        number = self.cursor // PAGE_ITEMS
        page = pages.get(number, 0) >> self.cursor % PAGE_ITEMS
        while page & 1:
            self.cursor += _ones(page)
            if self.cursor % PAGE_ITEMS:
                break
            del pages[number]
            number += 1
            page = pages.get(number, 0)
        if pages.get(number, 0).bit_length() <= self.cursor % PAGE_ITEMS:
            pages.pop(number, None)

    def _drop_below_cursor(self) -> None:
        number, below = divmod(self.cursor, PAGE_ITEMS)
        if below and number in self._pages:
            kept = self._pages[number] >> below << below
            if kept:
                self._pages[number] = kept
            else:
                del self._pages[number]


def _ones(bits: int) -> int:
    """Return the number of ones at the low end."""
    return (~bits & bits + 1).bit_length() - 1


def _zeros(bits: int) -> int:
    """Return the number of zeros at the low end of a nonzero number."""
    return (bits & -bits).bit_length() - 1
