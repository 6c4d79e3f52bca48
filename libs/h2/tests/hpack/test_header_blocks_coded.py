"""Header blocks: RFC 7541, appendix C, an independent implementation, and what is refused."""

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_h2.hpack.decoder import HeaderDecoder
from gantry_h2.hpack.encoder import encode_block
from gantry_h2.hpack.errors import HeadersTooLarge, HpackError
from gantry_h2.hpack.integers import INTEGER_MAX, decode_integer, encode_integer
from gantry_h2.hpack.static_table import Header

REQUESTS = [
    ("828684418cf1e3c2e5f23a6ba0ab90f4ff", [(b":authority", b"www.example.com")]),
    ("828684be5886a8eb10649cbf", [(b":authority", b"www.example.com"), (b"cache-control", b"no-cache")]),
    (
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        [(b":authority", b"www.example.com"), (b"custom-key", b"custom-value")],
    ),
]
"""Appendix C.4: requests with Huffman codes, on one connection."""
NAMES = st.sampled_from([b":path", b":status", b"content-type", b"te", b"x", b"x-mq-date-time"])
HEADERS = st.lists(st.tuples(NAMES, st.one_of(st.just(b"trailers"), st.binary(max_size=40))), max_size=8)


def decoder(table_size: int = 4096, list_size: int = 65536) -> HeaderDecoder:
    return HeaderDecoder(table_size, list_size)


def test_the_requests_of_the_standard_in_their_order() -> None:
    ours = decoder()
    for coded, known in REQUESTS:
        headers = ours.decode(bytes.fromhex(coded))
        assert headers[0] == (b":method", b"GET")
        assert [*headers[3:]] == known


def test_entries_that_the_table_has_no_room_for_leave_it() -> None:
    """Appendix C.5: responses with a table of 256 bytes."""
    ours = decoder(table_size=256)
    first = "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d"
    assert ours.decode(bytes.fromhex(first))[0] == (b":status", b"302")
    assert ours.decode(bytes.fromhex("4803333037c1c0bf"))[0] == (b":status", b"307")
    with pytest.raises(HpackError, match="names no header"):
        ours.decode(bytes((0x80 | 66,)))  # the first `:status` was the oldest entry


@given(st.lists(st.tuples(HEADERS, st.booleans(), st.sampled_from([None, 0, 80, 4096])), max_size=12))
def test_blocks_of_another_encoder_are_decoded_in_their_order(
    blocks: list[tuple[list[Header], bool, int | None]],
) -> None:
    """The same blocks come again and again: those that were kept are right."""
    ours, theirs = decoder(), hpack.Encoder()
    for headers, is_coded, size in blocks * 2:
        if size is not None:
            theirs.header_table_size = size
        assert [*ours.decode(theirs.encode(headers, huffman=is_coded))] == headers


@given(st.lists(HEADERS, max_size=6))
def test_another_decoder_reads_our_blocks(blocks: list[list[Header]]) -> None:
    theirs = hpack.Decoder()
    for headers in blocks:
        found = theirs.decode(encode_block(tuple(headers)), raw=True)
        assert [(bytes(name), bytes(value)) for name, value in found] == headers


@given(st.integers(0, INTEGER_MAX), st.integers(1, 8))
def test_integers_return(value: int, prefix_bits: int) -> None:
    coded = encode_integer(value, prefix_bits)
    assert decode_integer(coded, 0, prefix_bits) == (value, len(coded))


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("80", "names no header"),
        ("be", "names no header"),
        ("ff", "cut short"),
        ("ffffffffff7f", "too large"),
        ("ffffffffffffffff01", "too large"),
        ("00", "cut short"),
        ("000261", "cut short"),
        ("8220", "within a block"),
        ("3fe2ff3f", "are allowed"),
    ],
)
def test_a_block_that_breaks_the_rules_is_refused(block: str, why: str) -> None:
    with pytest.raises(HpackError, match=why):
        decoder().decode(bytes.fromhex(block))


def test_a_list_that_is_too_large_is_refused_and_the_next_block_is_right() -> None:
    """A bomb of indexes: one large entry, named a thousand times."""
    ours, theirs = decoder(list_size=10_000), hpack.Encoder()
    large = (b"x-large", b"v" * 2000)
    assert ours.decode(theirs.encode([large])) == (large,)
    with pytest.raises(HeadersTooLarge):
        ours.decode(theirs.encode([large] * 1000))
    assert ours.decode(theirs.encode([large, (b"x", b"y")])) == (large, (b"x", b"y"))


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_are_decoded_or_refused(blocks: list[bytes]) -> None:
    ours = decoder(list_size=200)
    for block in blocks:
        try:
            ours.decode(block)
        except HeadersTooLarge:
            continue
        except HpackError:
            return


@given(st.tuples(NAMES, st.text(max_size=200)), st.booleans())
def test_a_header_that_is_spelled_out_is_decoded_and_a_part_of_it_is_refused(
    header: tuple[bytes, str], is_coded: bool
) -> None:
    theirs = hpack.NeverIndexedHeaderTuple(header[0].decode(), header[1])
    block = hpack.Encoder().encode([("x-a-name-of-its-own", "1"), theirs], huffman=is_coded)
    whole = decoder().decode(block)
    assert whole[1] == (header[0], header[1].encode())
    first = len(hpack.Encoder().encode([("x-a-name-of-its-own", "1")], huffman=is_coded))
    for end in range(first + 1, len(block)):
        with pytest.raises(HpackError):
            decoder().decode(block[:end])


@given(st.binary(min_size=1, max_size=126), st.binary(max_size=126), st.sampled_from([0x00, 0x10]))
def test_a_header_with_a_new_name_and_without_codes_is_read(name: bytes, value: bytes, first: int) -> None:
    block = bytes((first, len(name))) + name + bytes((len(value),)) + value
    assert decoder().decode(block) == ((name, value),)
    with pytest.raises(HpackError):
        decoder().decode(block[:-1])
