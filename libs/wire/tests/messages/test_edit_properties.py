import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedProperties
from gantry_wire.messages.properties import edit_properties, format_properties, parse_properties

NAMES = st.sampled_from(["A", "AB", "BA", "DELAY", "REAL_TOPIC", "REAL_TOPI", "ß"])
VALUES = st.text("aAB=ß ", min_size=1, max_size=6)
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=8)


@given(PAIRS, st.dictionaries(NAMES, VALUES), st.sets(NAMES), st.booleans())
def test_only_set_and_dropped_properties_change(pairs, put, drop, is_closed):
    raw = "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode() + b"\x02" * (
        is_closed and bool(pairs)
    )
    edited = edit_properties(raw, put, drop)
    kept = {name: value for name, value in parse_properties(raw).items() if name not in drop}
    assert parse_properties(edited) == {**kept, **put}
    assert not edited or edited.endswith(b"\x02")


def test_other_properties_keep_their_bytes_and_order():
    raw = b"B\x011\x02A\x01old\x02C\x01\xff\x02A\x01older\x02"
    assert edit_properties(raw, {"A": "new"}) == b"B\x011\x02C\x01\xff\x02A\x01new\x02"
    assert edit_properties(raw, {"D": "new"}) == raw + b"D\x01new\x02"
    assert edit_properties(raw, {}, ("B", "A")) == b"C\x01\xff\x02"


def test_properties_without_a_final_separator_and_empty_properties():
    assert edit_properties(b"A\x011", {"B": "2"}) == b"A\x011\x02B\x012\x02"
    assert edit_properties(b"", {"B": "2"}) == format_properties({"B": "2"})
    assert edit_properties(b"", {}) == b""
    assert edit_properties(b"A\x011\x02", {}, ("A",)) == b""


def test_a_value_with_a_separator_is_refused():
    with pytest.raises(MalformedProperties):
        edit_properties(b"A\x011\x02", {"B": "2\x023"})
