"""The bodies of 9056: records travel as they are, and what is out of bounds is refused."""

import msgspec
import pytest

from gantry_wire.errors import MalformedBody
from gantry_wire.private_requests.access_change import (
    BY_CHARS_MAX,
    DELETED,
    ENTRIES_MAX,
    AccessChange,
    AccessChanged,
    WantedEntry,
    decode_change,
    decode_changed,
    encode_change,
)

RECORD = b'{"v":1,"user":"alice","expiresMs":null}'


def entry(**other):
    return WantedEntry(**{"kind": "user", "name": "alice", "record": msgspec.Raw(RECORD), **other})


def test_a_record_arrives_byte_for_byte():
    body = encode_change(AccessChange(entries=[entry(made_from_ms=7)], by="root from 10.0.0.5"))
    assert b'"madeFromMs":7' in body
    change = decode_change(body)
    assert bytes(change.entries[0].record) == RECORD
    assert (change.entries[0].made_from_ms, change.by) == (7, "root from 10.0.0.5")


def test_a_deletion_is_null():
    deleted = encode_change(AccessChange(entries=[entry(record=msgspec.Raw(DELETED))]))
    assert b'"record":null' in deleted
    assert bytes(decode_change(deleted).entries[0].record) == DELETED


def test_the_answer_holds_the_entries_as_they_were_stored():
    answer = decode_changed(encode_change(AccessChanged(entries=[msgspec.Raw(b'{"v":1}')])))
    assert [bytes(one) for one in answer.entries] == [b'{"v":1}']


@pytest.mark.parametrize(
    "change",
    [
        AccessChange(entries=[]),
        AccessChange(entries=[entry()] * (ENTRIES_MAX + 1)),
        AccessChange(entries=[entry(name="")]),
        AccessChange(entries=[entry(name="n" * 256)]),
        AccessChange(entries=[entry(kind="group")]),
        AccessChange(entries=[entry(made_from_ms=-1)]),
        AccessChange(entries=[entry()], by="b" * (BY_CHARS_MAX + 1)),
    ],
    ids=["none", "too many", "no name", "long name", "kind", "stamp", "by"],
)
def test_a_change_out_of_bounds_is_refused(change):
    with pytest.raises(MalformedBody):
        decode_change(encode_change(change))


@pytest.mark.parametrize("body", [b"", b"[]", b'{"entries":7}', b"[" * 5000])
def test_what_is_no_change_and_no_answer_is_refused(body):
    with pytest.raises(MalformedBody):
        decode_change(body)
    with pytest.raises(MalformedBody):
        decode_changed(body)


def test_an_entry_without_its_name_is_refused():
    with pytest.raises(MalformedBody, match="name"):
        decode_change(b'{"entries":[{"kind":"user","record":null}]}')


def test_an_unknown_field_is_refused_because_half_a_change_would_be_stored():
    with pytest.raises(MalformedBody):
        decode_change(b'{"entries":[{"kind":"user","name":"a","record":null,"stampMs":5}]}')
