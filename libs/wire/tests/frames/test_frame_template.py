"""A template fills to the same bytes as encoding, and cuts a frame into its parts."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.frames.frame_template import (
    INT32,
    JSON_TEXT,
    NUMBER,
    RAW,
    FrameTemplate,
    Hole,
    learn,
    marked_number,
)

LIKE_VALUES = ("1000000000", "2111111111", '"a"', '"b"', "a", "b", "%d", "%b", "%", "aaaa")
fixed_texts = st.one_of(st.text(max_size=12), st.lists(st.sampled_from(LIKE_VALUES)).map("".join))


@given(
    st.lists(fixed_texts, min_size=4, max_size=4),
    st.lists(st.tuples(st.integers(0, 2**63 - 1), fixed_texts, st.integers(0, 2**31 - 1)), min_size=1),
)
def test_a_filled_template_equals_the_encoded_frame(fixed, messages):
    before, between, behind, end = (part.encode() for part in fixed)

    def write(values):
        number, text, other = values
        return b"%s%d%s%s%s%d%s" % (before, number, between, msgspec.json.encode(text), behind, other, end)

    template = learn(write, (NUMBER, JSON_TEXT, NUMBER))
    for number, text, other in messages:
        assert template.fill((number, msgspec.json.encode(text), other)) == write((number, text, other))


@given(st.data(), st.binary(max_size=60))
def test_a_cut_frame_refills_to_the_same_bytes(data, frame):
    places = sorted(data.draw(st.lists(st.integers(0, len(frame)), min_size=4, max_size=4)))
    holes = [Hole(places[0], places[1], RAW), Hole(places[2], places[3], RAW)]
    template = FrameTemplate(frame, holes)
    parts = template.cut(frame)
    assert b"".join(parts) == frame
    assert [len(part) for part in parts[1::2]] == [hole.end - hole.start for hole in holes]
    assert template.fill(parts[1::2]) == frame


@given(st.integers(-(2**31), 2**31 - 1))
def test_four_bytes_are_read_as_a_signed_number(number):
    raw = number.to_bytes(4, "big", signed=True)
    template = FrameTemplate(b"ab" + raw + b"c", [Hole(2, 6, INT32)])
    assert template.cut(b"xy" + raw + b"z") == (b"xy", number, b"z")
    assert template.fill((raw,)) == b"ab" + raw + b"c"


@given(st.one_of(st.binary(max_size=6), st.integers(0, 10**8).map(b"%d".__mod__)))
def test_a_marked_number_is_a_limited_number_of_decimal_digits(value):
    data = b"n: " + value + b"\r"
    digits = value.partition(b"\r")[0]
    is_number = 1 <= len(digits) <= 5 and all(48 <= byte <= 57 for byte in digits)
    assert (marked_number((b"n: ",), b"\r", 5)(data, len(data)) is not None) == is_number


@given(st.integers(0, 10**9), st.sampled_from([b"\nn: ", b"\nN: "]), st.sampled_from([b"", b" ", b"x", b"+"]))
def test_a_marked_number_is_found_in_any_line(number, mark, noise):
    cut = marked_number((b"\nn: ", b"\nN: "), b"\r", 7)
    line = mark + noise + b"%d\r" % number
    for data in (b"first\r" + line + b"\nlast", b"first\r\nlonger\r" + line + b"\nlast"):
        found = cut(data, len(data))
        if noise or number >= 10**7:
            assert found is None
        else:
            assert found == (data.replace(b"%d" % number, b"", 1), number)
    assert cut(b"first\r" + line + b"\nlast", 6) is None
