"""Configuration text of RocketMQ's tools is read, and round-trips."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.bodies.config_text import format_config_text, parse_config_text
from gantry_wire.errors import MalformedBody

WORDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=10)
KEYS = WORDS.filter(lambda key: "=" not in key and key[0] not in "#!")


@given(st.dictionaries(KEYS, WORDS))
def test_settings_round_trip(settings):
    assert parse_config_text(format_config_text(settings)) == settings


def test_comments_blank_lines_and_spaces_are_skipped():
    text = "# comment\n! another\r\n\r\n  brokerName = broker-a \nnamesrvAddr=a:1;b:2\nempty=\nurl=http://x?a=b\nempty=1\n"
    assert parse_config_text(text) == {
        "brokerName": "broker-a", "namesrvAddr": "a:1;b:2", "empty": "1", "url": "http://x?a=b",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"), [("a=1\nnonsense", "line 2"), ("=x", "line 1"), (b"a=\xff", "not UTF-8")]
)
def test_an_invalid_line_is_reported_with_its_number(text, message):
    with pytest.raises(MalformedBody, match=message):
        parse_config_text(text)


@pytest.mark.parametrize(
    "settings", [{"a=b": "c"}, {"a": "x\ny"}, {"a\n": "x"}, {"": "x"}, {" a": "x"}, {"#a": "x"}]
)
def test_settings_that_would_not_read_back_are_refused(settings):
    with pytest.raises(MalformedBody, match="cannot be written"):
        format_config_text(settings)


@given(st.binary(max_size=60))
def test_any_bytes_give_settings_or_the_documented_error(data):
    with suppress(MalformedBody):
        assert isinstance(parse_config_text(data), dict)
