"""Entries as JSON, and which of two counts."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.entries.entry import Entry, Kind, decode_entry, encode_entry
from gantry_access.errors import UnknownRecordVersion, UnreadableRecord

ENTRIES = st.builds(
    Entry,
    st.sampled_from(Kind),
    st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()),
    st.integers(0, 2**53),
    st.none() | st.sampled_from([b'{"v":1}', b"[]", b'"x"']),
)
TEXT = b'{"v":1,"kind":"user","name":"alice","stampMs":5,"record":{"v":1}}'


@given(ENTRIES)
def test_an_entry_is_read_as_it_was_written(entry):
    assert decode_entry(encode_entry(entry)) == entry


def test_the_form_of_an_entry():
    assert encode_entry(Entry(Kind.USER, "alice", 5, b'{"v":1}')) == TEXT
    assert encode_entry(Entry(Kind.TOKEN, "t", 5, None)).endswith(b'"record":null}')


@pytest.mark.parametrize(
    "change", [{"v": "1"}, {"kind": "users"}, {"name": ""}, {"name": "n" * 256}, {"stampMs": -1}, {"stampMs": "5"}, {"more": 1}]
)  # fmt: skip
def test_an_entry_with_a_fault_is_unreadable(change):
    with pytest.raises(UnreadableRecord):
        decode_entry(json.dumps({**json.loads(TEXT), **change}).encode())


def test_a_later_form_is_refused_by_its_number():
    with pytest.raises(UnknownRecordVersion, match="version 2"):
        decode_entry(b'{"v":2,"new":[]}')


@given(st.binary(max_size=60))
def test_bytes_are_an_entry_or_unreadable(data):
    with contextlib.suppress(UnreadableRecord):
        decode_entry(data)


@given(
    st.lists(ENTRIES.map(lambda entry: entry._replace(kind=Kind.USER, name="a")), min_size=1, max_size=5),
    st.randoms(),
)
def test_one_of_several_counts_in_whatever_order_they_come(entries, rng):
    def latest(order):
        found = None
        for entry in order:
            found = entry if entry.replaces(found) else found
        return found

    shuffled = list(entries)
    rng.shuffle(shuffled)
    assert latest(entries) == latest(shuffled)


def test_a_deletion_wins_over_a_change_of_the_same_time():
    kept, deleted = Entry(Kind.USER, "a", 5, b"{}"), Entry(Kind.USER, "a", 5, None)
    assert deleted.replaces(kept)
    assert not kept.replaces(deleted)
    assert not deleted.replaces(deleted)
