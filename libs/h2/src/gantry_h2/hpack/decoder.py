"""Header blocks to headers."""

from typing import Final

from gantry_h2.hpack import huffman
from gantry_h2.hpack.dynamic_table import DynamicTable
from gantry_h2.hpack.errors import HeadersTooLarge, HpackError
from gantry_h2.hpack.integers import decode_integer
from gantry_h2.hpack.static_table import ENTRY_OVERHEAD, Header

KEPT_BLOCKS_MAX: Final = 16
KEPT_BYTES_MAX: Final = 128
"""Longer blocks are not kept: the same call again sends indexes, and a call with headers of its own never comes again."""
_LONG: Final = 0x7F
"""The first byte of a length that continues, or, from 0x80 on, of a text with the Huffman code."""


class HeaderDecoder:
    """Decodes the blocks of one connection, in their order."""

    def __init__(self, table_size_max: int, list_size_max: int) -> None:
        """`table_size_max` is what our settings allow the peer; `list_size_max` is the largest list of headers, as RFC 9113 counts it. In bytes."""
        self._table_size_max = table_size_max
        self._list_size_max = list_size_max
        self._table = DynamicTable(table_size_max)
        self._kept: dict[bytes, tuple[Header, ...]] = {}
        self._kept_version = 0

    def decode(self, block: bytes) -> tuple[Header, ...]:
        """Return the headers of a whole block.

        Raises HpackError, after which nothing of this connection can be decoded; HeadersTooLarge.
        """
        table = self._table
        if table.version != self._kept_version:
            self._kept.clear()
            self._kept_version = table.version
        elif (known := self._kept.get(block)) is not None:
            return known
        headers = tuple(self._read(block))
        if table.version == self._kept_version and len(block) <= KEPT_BYTES_MAX:
            if len(self._kept) >= KEPT_BLOCKS_MAX:
                self._kept.clear()
            self._kept[block] = headers
        return headers

    def _read(self, block: bytes) -> list[Header]:
        headers: list[Header] = []
        at, size = self._resized(block), 0
        table, end = self._table, len(block)
        while at < end:
            first = block[at]
            if first >= 0x80:
                if first < 0xFF:
                    index, at = first & 0x7F, at + 1
                else:
                    index, at = decode_integer(block, at, 7)
                header = table.get(index)
            elif (first & 0xEF) == 0 and (plain := _plain_literal(block, at)) is not None:
                header, at = plain
            elif first >= 0x40:
                header, at = self._literal(block, at, 6)
                table.add(*header)
            elif first >= 0x20:
                raise HpackError("the size of the table changes within a block")
            else:
                header, at = self._literal(block, at, 4)
            size += len(header[0]) + len(header[1]) + ENTRY_OVERHEAD
            if size <= self._list_size_max:
                headers.append(header)
        if size > self._list_size_max:
            raise HeadersTooLarge(
                f"headers of {size} bytes, of {self._list_size_max} bytes at most are accepted"
            )
        return headers

    def _resized(self, block: bytes) -> int:
        """Apply the changes of the table's size that a block begins with. Return the place behind them."""
        at = 0
        while at < len(block) and block[at] & 0xE0 == 0x20:
            size, at = decode_integer(block, at, 5)
            if size > self._table_size_max:
                raise HpackError(f"a table of {size} bytes, {self._table_size_max} are allowed")
            self._table.resize(size)
        return at

    def _literal(self, block: bytes, at: int, prefix_bits: int) -> tuple[Header, int]:
        index, at = decode_integer(block, at, prefix_bits)
        if index:
            name = self._table.get(index)[0]
        else:
            name, at = _text(block, at)
        value, at = _text(block, at)
        return (name, value), at


def _plain_literal(block: bytes, at: int) -> tuple[Header, int] | None:
    """Return a header whose short name and value are spelled out, and the place behind it. None for any other form, and for one that is cut short.

    gRPC's C core sends metadata in this form with each call.
    """
    try:
        name_size = block[at + 1]
        value_at = at + 2 + name_size
        value_size = block[value_at]
    except IndexError:
        return None
    end = value_at + 1 + value_size
    if name_size >= _LONG or value_size >= _LONG or end > len(block):
        return None
    return (block[at + 2 : value_at], block[value_at + 1 : end]), end


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    if at >= len(block):
        raise HpackError("a header is cut short")
    is_coded = block[at] >= 0x80
    length, at = decode_integer(block, at, 7)
    end = at + length
    if end > len(block):
        raise HpackError("a text is cut short")
    text = block[at:end]
    return (huffman.decode(text) if is_coded else text), end
