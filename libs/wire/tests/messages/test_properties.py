"""Properties are read as in RocketMQ; tags and keys hash as in Java."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedProperties
from gantry_wire.messages.properties import (
    find_property,
    format_properties,
    index_key_hash,
    index_key_hashes,
    java_hash,
    parse_properties,
    tags_code,
)

TEXT = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=10
)
PROPERTIES = st.dictionaries(TEXT, TEXT, max_size=6)


def slow_hash(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for at in range(0, len(units), 2):
        total = (total * 31 + int.from_bytes(units[at : at + 2], "big")) % 2**32
    return total - 2**32 if total >= 2**31 else total


@given(PROPERTIES)
def test_properties_round_trip(properties):
    raw = format_properties(properties)
    assert parse_properties(raw) == parse_properties(raw.decode()) == properties
    assert parse_properties(raw[:-1]) == properties  # RocketMQ 4.9 drops the last separator


@given(PROPERTIES)
def test_one_property_is_found_without_parsing_all(properties):
    raw = format_properties(properties)
    for stored in (raw, raw[:-1]):
        for key, value in properties.items():
            assert find_property(stored, key.encode()) == value.encode()
        assert find_property(stored, b"no such key") is None


@given(st.text(st.sampled_from("ab\x01\x02"), max_size=24))
def test_finding_agrees_with_parsing_on_any_bytes(text):
    parsed = parse_properties(text)
    for key in ("a", "b", "ab", "ba"):
        found = find_property(text.encode(), key.encode())
        assert (None if found is None else found.decode()) == parsed.get(key)


def test_a_key_is_found_only_at_a_boundary():
    raw = b"XKEYS\x01no\x02A\x01KEYS\x02KEYS\x01yes\x02"
    assert find_property(raw, b"KEYS") == b"yes"
    assert find_property(b"XKEYS\x01no\x02", b"KEYS") is None


def test_parts_without_key_or_value_are_ignored():
    assert parse_properties("a\x01\x02\x01b\x02c\x02d\x01e\x01f\x02") == {"d": "e\x01f"}


def test_the_last_of_equal_keys_with_a_value_wins():
    raw = b"a\x011\x02a\x012\x02a\x01\x02"
    assert parse_properties(raw) == {"a": "2"}
    assert find_property(raw, b"a") == b"2"
    assert find_property(b"a\x011\x02a\x01\x02", b"a") == b"1"
    assert find_property(b"a\x01\x02", b"a") is None


@pytest.mark.parametrize("properties", [{"a\x01": "b"}, {"a": "b\x02"}, {"\x02a": "b"}, {"a": "\x01"}])
def test_separators_inside_are_refused(properties):
    with pytest.raises(MalformedProperties):
        format_properties(properties)


def test_bytes_that_are_not_utf8_are_refused():
    with pytest.raises(MalformedProperties):
        parse_properties(b"a\x01\xff\x02")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("polygenelubricants", -2147483648),
        ("日本語", 25921943),
        ("\U0001f680", 1773027),
    ],
)
def test_hashes_equal_known_hashes_of_java(text, expected):
    assert java_hash(text) == expected


@given(st.text(max_size=40))
def test_hashes_agree_with_the_definition(text):
    assert java_hash(text) == slow_hash(text)


@given(st.text(max_size=12), st.text(max_size=40))
def test_index_hashes_agree_with_the_definition(topic, key):
    value = abs(slow_hash(f"{topic}#{key}"))
    assert index_key_hash(topic, key) == (0 if value == 2**31 else value)


def test_the_hash_of_the_smallest_integer_is_0():
    assert java_hash("T#jllgvmc") == -(2**31)
    assert index_key_hash("T", "jllgvmc") == 0


def test_a_tags_code_is_the_hash_of_the_tag():
    assert tags_code("TagA") == tags_code(b"TagA") == 2598919
    assert tags_code("") == tags_code(b"") == 0
    assert tags_code(b"\xff") == java_hash("\ufffd")


@given(
    st.text(max_size=6),
    st.lists(st.text(max_size=9) | st.from_regex(r"7F0000010B[0-9A-F]{2}", fullmatch=True), max_size=8),
)
def test_hashes_of_many_keys_equal_single_hashes(topic, keys):
    assert index_key_hashes(topic, keys) == [index_key_hash(topic, key) for key in keys]


def test_hashes_of_consecutive_keys_equal_single_hashes():
    keys = [f"7F0000010B2C63947C6B8D4F{n // 300:04X}{n % 300:04X}" for n in range(1000)]
    assert index_key_hashes("BenchmarkTest", keys) == [index_key_hash("BenchmarkTest", key) for key in keys]


@given(
    st.text(max_size=6),
    st.text("0123456789ABCDEFxyz", min_size=1, max_size=12),
    st.lists(st.text(st.characters(max_codepoint=127), min_size=4, max_size=4), min_size=1, max_size=40),
    st.sampled_from(["", "é", "12345"]),
)
def test_hashes_of_keys_with_a_common_prefix_equal_single_hashes(topic, head, counters, odd):
    keys = [head + counter for counter in counters]
    keys += [odd] if odd else []
    assert index_key_hashes(topic, keys) == [index_key_hash(topic, key) for key in keys]


def test_the_hash_of_the_smallest_integer_is_0_among_many_keys_too():
    keys = ["jllgvmc"] * 9
    assert index_key_hashes("T", keys) == [0] * 9
