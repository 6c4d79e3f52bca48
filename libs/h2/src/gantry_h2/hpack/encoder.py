"""Headers to header blocks."""

from functools import lru_cache
from typing import Final

from gantry_h2.hpack import huffman
from gantry_h2.hpack.integers import encode_integer
from gantry_h2.hpack.static_table import STATIC_TABLE, Header

BLOCKS_KEPT_MAX: Final = 256

_INDEXES: Final[dict[Header, int]] = {}
_NAME_INDEXES: Final[dict[bytes, int]] = {}
for _index, _header in enumerate(STATIC_TABLE, 1):
    _INDEXES.setdefault(_header, _index)
    _NAME_INDEXES.setdefault(_header[0], _index)


@lru_cache(BLOCKS_KEPT_MAX)
def encode_block(headers: tuple[Header, ...]) -> bytes:
    """Return the block of these headers. Names are in lower case.

    It uses the static table, and literals that the peer does not keep. So it depends on no other block: the same headers are the same bytes on all connections, and are
    encoded once. A dynamic table would save some 20 bytes of an answer of gRPC.
    """
    return b"".join(_coded(name, value) for name, value in headers)


def _coded(name: bytes, value: bytes) -> bytes:
    if index := _INDEXES.get((name, value)):
        return encode_integer(index, 7, 0x80)
    index = _NAME_INDEXES.get(name, 0)
    return encode_integer(index, 4) + (b"" if index else _text(name)) + _text(value)


def _text(text: bytes) -> bytes:
    if huffman.encoded_size(text) < len(text):
        coded = huffman.encode(text)
        return encode_integer(len(coded), 7, 0x80) + coded
    return encode_integer(len(text), 7) + text
