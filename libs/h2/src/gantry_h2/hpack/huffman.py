"""The Huffman code of RFC 7541, appendix B.

The code is canonical: codes of one length follow each other in the order of their symbols, and a longer one begins where the shorter ones end. So the lengths
alone give the codes.

The decoder is a machine over whole bytes: a state is a node of the tree of codes, and its row says for each byte which symbols end in it and where it
leads. All rows together take 15 MB. Texts of headers meet a few of them, so each is made when it is needed first.
"""

from itertools import chain, repeat
from typing import Final

from gantry_h2.hpack.errors import HpackError

EOS: Final = 256
"""The symbol that ends nothing: a text that has it is an error."""
PADDING_BITS_MAX: Final = 7

_LENGTHS: Final = tuple(
    chain.from_iterable(
        repeat(bits, count)
        for bits, count in (
            (13, 1), (23, 1), (28, 7), (24, 1), (30, 1), (28, 2), (30, 1), (28, 8), (30, 1), (28, 9),
            (6, 1), (10, 2), (12, 1), (13, 1), (6, 1), (8, 1), (11, 1), (10, 2), (8, 1), (11, 1),
            (8, 1), (6, 3), (5, 3), (6, 7), (7, 1), (8, 1), (15, 1), (6, 1), (12, 1), (10, 1),
            (13, 1), (6, 1), (7, 22), (8, 1), (7, 1), (8, 1), (13, 1), (19, 1), (13, 1), (14, 1),
            (6, 1), (15, 1), (5, 1), (6, 1), (5, 1), (6, 1), (5, 1), (6, 3), (5, 1), (7, 2),
            (6, 3), (5, 1), (6, 1), (7, 1), (6, 1), (5, 2), (6, 1), (7, 5), (15, 1), (11, 1),
            (14, 1), (13, 1), (28, 1), (20, 1), (22, 1), (20, 2), (22, 3), (23, 1), (22, 1), (23, 5),
            (24, 1), (23, 1), (24, 2), (22, 1), (23, 1), (24, 1), (23, 4), (21, 1), (22, 1), (23, 1),
            (22, 1), (23, 2), (24, 1), (22, 1), (21, 1), (20, 1), (22, 2), (23, 2), (21, 1), (23, 1),
            (22, 2), (24, 1), (21, 1), (22, 1), (23, 2), (21, 2), (22, 1), (21, 1), (23, 1), (22, 1),
            (23, 2), (20, 1), (22, 3), (23, 1), (22, 2), (23, 1), (26, 2), (20, 1), (19, 1), (22, 1),
            (23, 1), (22, 1), (25, 1), (26, 3), (27, 2), (26, 1), (24, 1), (25, 1), (19, 1), (21, 1),
            (26, 1), (27, 2), (26, 1), (27, 1), (24, 1), (21, 2), (26, 2), (28, 1), (27, 3), (20, 1),
            (24, 1), (20, 1), (21, 1), (22, 1), (21, 2), (23, 1), (22, 2), (25, 2), (24, 2), (26, 1),
            (23, 1), (26, 1), (27, 1), (26, 2), (27, 5), (28, 1), (27, 5), (26, 1), (30, 1),
        )
    )
)  # fmt: skip
"""Bits of the code of each symbol, as runs of one length."""


def _codes() -> tuple[int, ...]:
    codes = [0] * len(_LENGTHS)
    code = before = 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda symbol: (_LENGTHS[symbol], symbol)):
        code <<= _LENGTHS[symbol] - before
        before = _LENGTHS[symbol]
        codes[symbol] = code
        code += 1
    return tuple(codes)


_CODES: Final = _codes()


def encode(text: bytes) -> bytes:
    """Return the code of a text, padded with ones to whole bytes."""
    bits = length = 0
    for symbol in text:
        bits = bits << _LENGTHS[symbol] | _CODES[symbol]
        length += _LENGTHS[symbol]
    padding = -length % 8
    return ((bits << padding) | ((1 << padding) - 1)).to_bytes((length + padding) // 8, "big")


def encoded_size(text: bytes) -> int:
    """Return how many bytes `encode` returns."""
    return (sum(_LENGTHS[symbol] for symbol in text) + 7) // 8


class _Node:
    """A state of the machine: what has been read of a code."""

    __slots__ = ("children", "is_padding", "row", "symbol")

    def __init__(self) -> None:
        self.children: list[_Node | None] = [None, None]
        self.symbol = -1
        self.row: list[tuple[bytes, _Node] | None] | None = None
        self.is_padding = False
        """A text may end here: what was read since the last symbol is the beginning of EOS, and shorter than a byte."""


def _tree() -> _Node:
    root = _Node()
    for symbol, (code, length) in enumerate(zip(_CODES, _LENGTHS, strict=True)):
        node = root
        for bit in range(length - 1, -1, -1):
            side = code >> bit & 1
            child = node.children[side]
            if child is None:
                child = node.children[side] = _Node()
            node = child
        node.symbol = symbol
    node = root
    for _ in range(PADDING_BITS_MAX + 1):
        node.is_padding = True
        child = node.children[1]
        assert child is not None
        node = child
    return root


_ROOT: Final = _tree()


def _step(node: _Node, byte: int) -> tuple[bytes, _Node] | None:
    """Return the symbols that end in this byte, and the next state; None where EOS is among them."""
    found = bytearray()
    for bit in range(7, -1, -1):
        child = node.children[byte >> bit & 1]
        assert child is not None
        if child.symbol == EOS:
            return None
        if child.symbol >= 0:
            found.append(child.symbol)
            child = _ROOT
        node = child
    return bytes(found), node


def _empty_row() -> "list[tuple[bytes, _Node] | None]":
    return [None] * 256


def decode(coded: bytes) -> bytes:
    """Return the text of a code. Raises HpackError for EOS in it, and for padding that is none."""
    node = _ROOT
    parts: list[bytes] = []
    for byte in coded:
        row = node.row
        if row is None:
            row = node.row = _empty_row()
        step = row[byte]
        if step is None:
            step = row[byte] = _step(node, byte)
            if step is None:
                raise HpackError("a text contains the end of string symbol")
        symbols, node = step
        parts.append(symbols)
    if not node.is_padding:
        raise HpackError("a text ends within a symbol, or with more than 7 bits of padding")
    return b"".join(parts)
