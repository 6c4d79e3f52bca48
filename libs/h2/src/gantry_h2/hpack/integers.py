"""Integers of header blocks (RFC 7541, 5.1)."""

from typing import Final

from gantry_h2.hpack.errors import HpackError

INTEGER_MAX: Final = (1 << 32) - 1
"""Longer ones name nothing: no table and no text of a block is that large."""
_FOLLOWING_MAX: Final = 5


def encode_integer(value: int, prefix_bits: int, first: int = 0) -> bytes:
    """Return an integer whose first byte has `first` above the prefix."""
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes((first | value,))
    coded = bytearray((first | most,))
    value -= most
    while value >= 0x80:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    coded.append(value)
    return bytes(coded)


def decode_integer(block: bytes, at: int, prefix_bits: int) -> tuple[int, int]:
    """Return the integer at this place, and the place behind it. Raises HpackError where it is cut short or too large."""
    most = (1 << prefix_bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    for shift in range(0, 7 * _FOLLOWING_MAX, 7):
        if at >= len(block):
            raise HpackError("an integer is cut short")
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            if value > INTEGER_MAX:
                break
            return value, at
    raise HpackError("an integer is too large")
