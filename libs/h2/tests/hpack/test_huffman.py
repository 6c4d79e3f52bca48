"""The Huffman code, against an independent implementation and the examples of RFC 7541, appendix C."""

import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given
from hypothesis import strategies as st

from gantry_h2.hpack import huffman
from gantry_h2.hpack.errors import HpackError

THEIRS = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


@pytest.mark.parametrize(
    ("text", "coded"),
    [
        (b"www.example.com", "f1e3c2e5f23a6ba0ab90f4ff"),
        (b"no-cache", "a8eb10649cbf"),
        (b"Mon, 21 Oct 2013 20:13:21 GMT", "d07abe941054d444a8200595040b8166e082a62d1bff"),
        (b"", ""),
    ],
)
def test_the_examples_of_the_standard(text: bytes, coded: str) -> None:
    assert huffman.encode(text).hex() == coded
    assert huffman.decode(bytes.fromhex(coded)) == text


@given(st.binary(max_size=200))
def test_any_text_returns_and_is_coded_as_elsewhere(text: bytes) -> None:
    coded = huffman.encode(text)
    assert coded == (THEIRS.encode(text) if text else b"")
    assert huffman.encoded_size(text) == len(coded)
    assert huffman.decode(coded) == text


@pytest.mark.parametrize(
    "coded",
    [
        "ffffffff",  # the end of string symbol
        "1fff",  # `a`, and 11 bits of padding
        "18",  # `a`, padded with zeros
        "ff",  # padding of eight bits
    ],
)
def test_wrong_ends_are_refused(coded: str) -> None:
    with pytest.raises(HpackError):
        huffman.decode(bytes.fromhex(coded))


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused(coded: bytes) -> None:
    try:
        text = huffman.decode(coded)
    except HpackError:
        return
    assert huffman.encode(text) == coded
