"""RocketMQ's file of offsets: its format, and when a start takes it instead of the log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.groups.offset_file import (
    FileContent,
    LogContent,
    digest_of,
    does_file_win,
    encode_offsets,
    number_in,
    read_offsets,
    version_in,
)
from broker_store.groups.offset_rows import NO_ORIGIN, Origin
from gantry_wire.bodies import fastjson
from gantry_wire.bodies.cluster import DataVersion

NAMES = st.text(alphabet="abz%_-", min_size=1, max_size=6)
VERSION = DataVersion(counter=1, state_version=0, timestamp=5)
OLD, NEW = Origin("old", ""), Origin("new", "")


def encoded(offsets, number=4):
    return encode_offsets(((*key, of_queues) for key, of_queues in offsets.items()), VERSION, number)


def test_the_file_has_rocketmqs_format():
    text = encoded({("TopicTest", "g"): {0: 12, 1: 9}})
    assert b'"TopicTest@g":{0:12,1:9}' in text
    assert fastjson.loads(text) == {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 5},
        "gantryNumber": 4,
        "offsetTable": {"TopicTest@g": {"0": 12, "1": 9}},
    }


def test_an_empty_table_is_valid_too():
    assert fastjson.loads(encoded({})) is not None


@given(
    st.dictionaries(
        st.tuples(NAMES, NAMES), st.dictionaries(st.integers(0, 9), st.integers(0, 2**62), min_size=1)
    )
)
def test_encoded_content_is_read_again(offsets):
    content = fastjson.loads(encoded(offsets, 7))
    assert read_offsets(content) == offsets
    assert (number_in(content, "gantryNumber"), version_in(content)) == (7, VERSION)


def test_an_invalid_offset_is_skipped():
    content = {"offsetTable": {"t@g": {"0": 1, "x": 2, "3": "4", "5": None}, "nogroup": {"0": 1}, "t@h": []}}
    assert read_offsets(content) == {("t", "g"): {0: 1, 3: 4}, ("t", "h"): {}}
    assert number_in(content, "gantryNumber") is None
    assert read_offsets("no table") == {}


@pytest.mark.parametrize("version", [None, "x", {}])
def test_a_version_that_cannot_be_read_is_a_new_one(version):
    assert version_in({"dataVersion": version}) == DataVersion()


def test_a_file_without_a_version_has_none():
    assert version_in({}) is None


def test_an_empty_file_is_another_one_than_none():
    assert digest_of(None) == ""
    assert len({digest_of(None), digest_of(b""), digest_of(b"x")}) == 3


def file_of(number, *, origin=NEW, is_newest=True, has_lines=False):
    return FileContent({}, number, None, origin, is_newest, has_lines)


@pytest.mark.parametrize(
    ("file", "log", "was_stopped", "wins", "why"),
    [
        (file_of(None, origin=NO_ORIGIN), LogContent(0, NO_ORIGIN), True, False, "a new directory"),
        (
            file_of(None, origin=NO_ORIGIN, is_newest=False),
            LogContent(5, NO_ORIGIN),
            True,
            False,
            "the file is lost",
        ),
        (file_of(None), LogContent(0, NO_ORIGIN), True, True, "an earlier version stopped in order"),
        (file_of(None), LogContent(0, NO_ORIGIN), False, True, "an earlier version was killed"),
        (file_of(None, is_newest=False), LogContent(0, NO_ORIGIN), False, True, "and left only its backup"),
        (file_of(3), LogContent(0, NO_ORIGIN), False, True, "the log is lost"),
        (file_of(None), LogContent(5, NO_ORIGIN), False, True, "RocketMQ wrote last"),
        (file_of(None), LogContent(5, OLD), False, True, "RocketMQ wrote again"),
        (file_of(None), LogContent(5, NEW), False, False, "a crash after the file was taken over"),
        (file_of(None), LogContent(5, NEW), True, False, "a stop that could not write the file"),
        (
            file_of(None, has_lines=True),
            LogContent(5, NEW),
            False,
            True,
            "an earlier version ran, and wrote no file",
        ),
        (
            file_of(5, has_lines=True),
            LogContent(5, OLD),
            False,
            True,
            "an earlier version began with our file",
        ),
        (file_of(5), LogContent(5, OLD), True, True, "an orderly stop, and perhaps a change by hand"),
        (file_of(5), LogContent(5, OLD), False, False, "a crash"),
        (file_of(4), LogContent(5, OLD), True, False, "an old file"),
        (file_of(6), LogContent(5, OLD), True, False, "the file of another store"),
        (file_of(None, is_newest=False), LogContent(5, OLD), True, False, "the file is damaged"),
        (file_of(5), LogContent(6, OLD, NEW), False, True, "a crash in the middle of taking it over"),
        (file_of(None, is_newest=False), LogContent(6, OLD, NEW), False, True, "the same with the backup"),
        (file_of(5), LogContent(6, NEW, OLD), False, False, "a crash in the middle of taking another over"),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_the_newer_side_wins(file, log, was_stopped, wins, why):
    assert does_file_win(file, log, was_stopped=was_stopped) is wins, why
