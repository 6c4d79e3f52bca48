"""Records of a register: what is written is read, and nothing else is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats_nodes import record

from broker_store.replication.register.record import (
    COUNT_MAX,
    MEMBERS_MAX,
    NAME_CHARS_MAX,
    NONCE_CHARS_MAX,
    RECORD_BYTES_MAX,
    MalformedRecord,
    Registered,
    decode,
    encode,
)

names = st.from_regex(r"[%|a-zA-Z0-9_.:@-]{1,127}", fullmatch=True)


@given(
    st.integers(1, COUNT_MAX),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=NAME_CHARS_MAX),
    st.lists(names, min_size=1, max_size=MEMBERS_MAX, unique=True),
    st.integers(1, COUNT_MAX),
)
def test_a_written_record_is_read(version: int, group: str, members: list[str], epoch: int) -> None:
    written = record(version, "n", group, members[0], members=tuple(members), epoch=epoch)
    assert decode(encode(written)) == written


def test_the_largest_record_fits() -> None:
    members = tuple(str(at) * NAME_CHARS_MAX for at in range(1, MEMBERS_MAX + 1))
    largest = Registered(
        COUNT_MAX,
        "\x01" * NAME_CHARS_MAX,
        COUNT_MAX,
        members[0],
        members,
        COUNT_MAX,
        "n" * NONCE_CHARS_MAX,
        "n" * NONCE_CHARS_MAX,
    )
    assert len(encode(largest)) <= RECORD_BYTES_MAX


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 0},
        {"version": True},
        {"version": 1.0},
        {"version": "1"},
        {"version": COUNT_MAX + 1},
        {"epoch": -1},
        {"boots": None},
        {"leader": "stranger"},
        {"leader": ""},
        {"members": []},
        {"members": ["a", "a"]},
        {"members": ["a", "b c"]},
        {"members": ["a"] + [f"m{at}" for at in range(MEMBERS_MAX)]},
        {"group": "g" * (NAME_CHARS_MAX + 1)},
        {"nonce": ""},
        {"nonce": "n" * (NONCE_CHARS_MAX + 1)},
        {"origin": ""},
        {"more": 1},
    ],
    ids=repr,
)
def test_a_record_that_breaks_a_bound_is_refused(wrong: dict[str, object]) -> None:
    right = json.loads(encode(record(1, "n")))
    assert decode(json.dumps(right).encode()) == record(1, "n")
    with pytest.raises(MalformedRecord):
        decode(json.dumps({**right, **wrong}).encode())


@pytest.mark.parametrize(
    "field", ["version", "group", "epoch", "leader", "members", "boots", "nonce", "origin"]
)
def test_a_record_without_a_field_is_refused(field: str) -> None:
    fields = json.loads(encode(record(1, "n")))
    del fields[field]
    with pytest.raises(MalformedRecord):
        decode(json.dumps(fields).encode())


@given(st.binary(max_size=RECORD_BYTES_MAX + 1))
def test_any_other_bytes_are_malformed(stored: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode(stored)


def test_a_record_too_long_is_refused_unread() -> None:
    with pytest.raises(MalformedRecord, match="bytes are more than"):
        decode(encode(record(1, "n")) + b" " * RECORD_BYTES_MAX)


def test_a_record_that_could_not_be_read_is_not_written() -> None:
    with pytest.raises(ValueError, match="version"):
        encode(record(0, "n"))
