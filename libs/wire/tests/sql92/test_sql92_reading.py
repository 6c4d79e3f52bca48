"""Properties are found in the bytes as by RocketMQ's parser; numbers are read as in Java."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.messages.properties import parse_properties
from gantry_wire.sql92.conversions import order_key, to_boolean, to_double, to_integer, to_long
from gantry_wire.sql92.errors import NotComparable
from gantry_wire.sql92.reading import TABLE, property_getter

PIECES = st.lists(
    st.sampled_from(["a", "b", "aa", "5", "\x01", "\x02", "\x02a\x01", "\x01\x02", "é"]), max_size=12
)


@given(PIECES.map("".join))
def test_a_property_equals_that_of_a_full_parse(text):
    expected = parse_properties(text).get("a")
    found = property_getter("a")(b"\x02" + text.encode())
    assert (None if found is None else found.decode()) == expected
    assert TABLE.getter("a")(TABLE.prepare(text.encode())) == found


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"a\x011\x02a\x012\x02", b"2"),
        (b"a\x011\x02a\x01\x02", b"1"),
        (b"a\x01\x02", None),
        (b"ba\x011\x02", None),
        (b"", None),
        (b"b\x01a\x01c\x02a\x011", b"1"),
    ],
    ids=[
        "last wins",
        "an empty value is ignored",
        "only empty",
        "a name with the same ending",
        "nothing",
        "a separator in a value",
    ],
)
def test_the_last_of_equal_names_with_a_value_wins(raw, value):
    assert property_getter("a")(b"\x02" + raw) == value


@pytest.mark.parametrize("read", [to_integer, to_long, to_double])
@pytest.mark.parametrize("value", [b"", b"x", b"+", b"1_0", b"5 5", b"0x10", b"\xff", b"--5", "²".encode()])
def test_a_value_that_is_not_a_number_is_not_comparable(read, value):
    with pytest.raises(NotComparable):
        read(value)


def test_integers_have_the_range_of_their_type():
    assert to_integer(b"-2147483648") == -(2**31)
    assert to_long(b"+9223372036854775807") == 2**63 - 1
    assert to_integer("٣".encode()) == 3
    for read, value in ((to_integer, b"2147483648"), (to_long, b"9223372036854775808"), (to_integer, b" 5")):
        with pytest.raises(NotComparable):
            read(value)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (b" 5.5 ", 5.5),
        (b"1e3f", 1000.0),
        (b".5D", 0.5),
        (b"0x1.8p1", 3.0),
        (b"-Infinity", -math.inf),
        (b"1e999", math.inf),
    ],
)
def test_all_of_javas_spellings_of_doubles_are_read(value, number):
    assert to_double(value) == number
    assert math.isnan(to_double(b"-NaN"))


def test_doubles_are_ordered_as_java_compares_them():
    ordered = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    keys = [order_key(number) for number in ordered]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert order_key(math.nan) == order_key(-math.nan)


def test_only_the_word_true_is_true():
    assert to_boolean(b"TRUE")
    assert not to_boolean(b"yes")


class CountedBytes(bytes):
    """Counts the bytes copied from it."""

    copied = 0

    def rpartition(self, mark):
        parts = super().rpartition(mark)
        CountedBytes.copied += sum(map(len, parts))
        return tuple(map(CountedBytes, parts))

    def __getitem__(self, key):
        found = super().__getitem__(key)
        CountedBytes.copied += len(found)
        return found


def test_empty_values_of_one_name_do_not_copy_the_rest_each():
    raw = CountedBytes(b"\x02" + b"a\x01\x02" * 5000)
    assert property_getter("a")(raw) is None
    assert CountedBytes.copied <= 3 * len(raw)
