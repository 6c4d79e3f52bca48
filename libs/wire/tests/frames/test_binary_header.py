"""The binary header round-trips, and all its lengths are checked."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedHeader
from gantry_wire.frames.binary_header import BinaryHeader, decode_binary_header, encode_binary_header

INT32 = st.integers(-(2**31), 2**31 - 1)
HEADERS = st.builds(
    BinaryHeader,
    st.integers(0, 32767).filter(lambda code: not 3442 <= code <= 3543),
    st.sampled_from(["JAVA", "CPP", "PYTHON", "NODE_JS"]),
    st.integers(0, 32767),
    INT32,
    INT32,
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.none()
    | st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
        min_size=1,
        max_size=5,
    ),
)


def fixed(remark_size: int = 0) -> bytes:
    return struct.pack(">hbhiii", 310, 0, 479, 1, 0, remark_size)


@given(HEADERS)
def test_a_header_round_trips(header):
    assert decode_binary_header(encode_binary_header(header)) == header


@given(HEADERS, st.data())
def test_a_flipped_bit_or_a_cut_gives_a_header_or_the_documented_error(header, data):
    content = bytearray(encode_binary_header(header))
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    for candidate in (bytes(content), bytes(content)[: bit // 8]):
        with suppress(MalformedHeader):
            assert isinstance(decode_binary_header(candidate), BinaryHeader)


def test_empty_values_are_omitted():
    header = BinaryHeader(1, "JAVA", 1, 1, 0, "", {"a": "", "b": "x"})
    assert decode_binary_header(encode_binary_header(header)) == header._replace(
        remark=None, fields={"b": "x"}
    )
    empty = struct.pack(">h", 1) + b"k" + struct.pack(">i", 0)
    assert decode_binary_header(fixed() + struct.pack(">i", len(empty)) + empty).fields == {}


def test_pop_codes_survive_truncation_to_sixteen_bits():
    header = BinaryHeader(200050, "JAVA", 1, 1, 0, None, None)
    assert decode_binary_header(encode_binary_header(header)).code == 200050


def test_an_unknown_language_number_is_other():
    content = bytearray(encode_binary_header(BinaryHeader(1, "JAVA", 1, 1, 0, None, None)))
    content[2] = 0x7F
    assert decode_binary_header(bytes(content)).language == "OTHER"
    content[2] = 0xFF
    assert decode_binary_header(bytes(content)).language == "OTHER"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "at least 21"),
        (fixed(-1) + bytes(4), "remark of -1"),
        (fixed(10) + bytes(4), "remark of 10"),
        (fixed() + struct.pack(">i", 5), "header fields of 5"),
        (fixed() + struct.pack(">i", -1), "header fields of -1"),
        (fixed() + struct.pack(">i", 1) + b"\0", "end inside"),
        (fixed() + struct.pack(">ih", 2, -1), "end inside"),
        (fixed() + struct.pack(">ih", 3, 9) + b"k", "end inside"),
        (fixed() + struct.pack(">ih", 3, 1) + b"k", "end inside"),
        (fixed() + struct.pack(">ih", 7, 1) + b"k" + struct.pack(">i", 2**31 - 1), "field of 2147483647"),
        (fixed(1) + b"\xff" + bytes(4), "not UTF-8"),
    ],
)
def test_wrong_lengths_are_refused(content, message):
    with pytest.raises(MalformedHeader, match=message):
        decode_binary_header(content)


@pytest.mark.parametrize(
    "others",
    [
        {"a": "22", "bb": "3"},
        {"aa": "2", "b": "33"},
        {"a": "333", "b": "3"},
        {"a": "x" * 9},
        {"c": "22", "dd": "3"},
    ],
)
def test_fields_of_a_known_size_with_other_lengths_are_read_correctly(others):
    def read(fields):
        return decode_binary_header(
            encode_binary_header(BinaryHeader(310, "JAVA", 1, 1, 0, None, fields))
        ).fields

    first = {"a": "22", "bb": "3"}
    assert read(first) == first  # now this size has a cached layout
    assert read(others) == others
    assert read(first) == first


def test_wrong_lengths_are_refused_even_if_the_size_is_known():
    honest = encode_binary_header(BinaryHeader(310, "JAVA", 1, 1, 0, None, {"key": "value", "k": "v"}))
    for _ in range(2):
        assert decode_binary_header(honest).fields == {"key": "value", "k": "v"}
    lying = honest.replace(b"\0\0\0\5value", b"\0\0\0\6value")
    with pytest.raises(MalformedHeader):
        decode_binary_header(lying)


def test_an_empty_value_is_always_an_absent_field():
    name = b"\0\1a\0\0\0\0" + b"\0\1b\0\0\0\1x"
    content = fixed() + struct.pack(">i", len(name)) + name
    for _ in range(3):
        assert decode_binary_header(content).fields == {"b": "x"}
