"""Messages between replicas on the wire: they survive the way, and bytes that are none are refused."""

import contextlib
from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.replication import frames
from broker_store.replication.epochs import ENTRIES_MAX, Epoch, EpochTable
from broker_store.replication.frames import (
    CODES,
    FRAME_BODY_BYTES_MAX,
    PART_BYTES_MAX,
    SHIPMENT_BYTES_MAX,
    MalformedReplication,
    Part,
    decode_body,
    encode_message,
    encode_repair,
    encode_shipment,
)
from broker_store.replication.messages import (
    Beat,
    DurableEnd,
    HaveBytes,
    Hello,
    Leads,
    Refused,
    Resigned,
    Session,
    WantBytes,
    Welcome,
)
from broker_store.settling.decided.mark import OUTPUTS_MAX
from gantry_wire.codes import GantryCode
from gantry_wire.limits import BODY_BYTES_MAX, RECORD_BYTES_MAX

NUMBERS = st.integers(0, (1 << 63) - 1)
TIMES = st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = st.from_regex(r"[%|a-zA-Z0-9_.:@-]{1,127}", fullmatch=True)
ORIGINS = st.from_regex(r"[a-zA-Z0-9_-]{0,64}", fullmatch=True)
SESSIONS = st.builds(Session, st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True), NUMBERS)
GROUPS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=127)


@st.composite
def tables(draw) -> EpochTable:
    epochs = sorted(draw(st.sets(st.integers(1, 1 << 62), max_size=6)))
    starts = sorted(draw(st.lists(st.integers(0, 1 << 62), min_size=len(epochs), max_size=len(epochs))))
    return EpochTable(tuple(map(Epoch, epochs, starts)))


BEATS = st.builds(Beat, SESSIONS, NUMBERS, NUMBERS, st.none() | NUMBERS, TIMES, NUMBERS)
ENDS = st.tuples(NUMBERS, NUMBERS).map(sorted)
MESSAGES = st.one_of(
    st.builds(Hello, SESSIONS, GROUPS, ORIGINS, tables(), NUMBERS, NUMBERS),
    st.builds(Welcome, SESSIONS, NUMBERS, NUMBERS, NUMBERS, tables(), TIMES, NUMBERS),
    st.builds(Refused, SESSIONS, NUMBERS),
    st.builds(Resigned, SESSIONS, NUMBERS, NUMBERS, NAMES),
    st.builds(Leads, SESSIONS, NUMBERS),
    BEATS,
    st.builds(
        lambda s, e, v, ends, t, fit: DurableEnd(s, e, v, *ends, t, fit),
        SESSIONS,
        NUMBERS,
        NUMBERS,
        ENDS,
        TIMES,
        st.booleans(),
    ),
)
HEAD = Beat(Session("b-1", 4), 2, 3, 100, 5_000, 64)


@given(NAMES, MESSAGES)
def test_a_message_survives_the_wire(sender, message):
    assert decode_body(*encode_message(sender, message)) == (sender, message)


REPAIRS = st.one_of(
    st.builds(WantBytes, SESSIONS, NUMBERS, st.integers(1, PART_BYTES_MAX)),
    st.builds(HaveBytes, SESSIONS, NUMBERS, st.binary(max_size=300)),
)


@given(NAMES, REPAIRS)
def test_a_question_for_bytes_and_its_answer_survive_the_wire(sender, message):
    assert decode_body(*encode_repair(sender, message)) == (sender, message)


@given(REPAIRS, st.data())
def test_a_cut_or_longer_question_or_answer_is_refused(message, data):
    code, body = encode_repair("a", message)
    for other in (body[: data.draw(st.integers(0, len(body) - 1))], body + b"\0"):
        with pytest.raises(MalformedReplication):
            decode_body(code, other)


@pytest.mark.parametrize(
    "message",
    [
        WantBytes(Session("a.1", 1), 0, 0), WantBytes(Session("a.1", 1), 0, PART_BYTES_MAX + 1), WantBytes(Session("a.1", 1), -1, 1),
        HaveBytes(Session("a.1", 1), -1, b"x"), HaveBytes(Session("a.1", 1), 0, bytes(PART_BYTES_MAX + 1)),
    ],
)  # fmt: skip
def test_a_question_or_answer_beyond_a_bound_is_refused(message):
    with pytest.raises(MalformedReplication):
        decode_body(*encode_repair("a", message))


@given(NAMES, BEATS, st.integers(0, 1 << 40), st.binary(min_size=1, max_size=300), st.integers(0, 1 << 20))
def test_a_small_shipment_is_one_part(sender, head, position, data, unused):
    (body,) = encode_shipment(sender, head, position, position + len(data) + unused, data)
    part = Part(head, position, position + len(data) + unused, len(data), 0, data)
    assert decode_body(GantryCode.REPLICA_SHIPMENT, body) == (sender, part)


def test_a_large_shipment_is_cut_into_parts_that_continue_each_other():
    data = bytes(range(256)) * (PART_BYTES_MAX // 256) * 2 + b"end"
    bodies = list(encode_shipment("a", HEAD, 100, 100 + len(data), data))
    parts = [decode_body(GantryCode.REPLICA_SHIPMENT, body)[1] for body in bodies]
    assert [(part.at, len(part.data)) for part in parts] == [
        (0, PART_BYTES_MAX), (PART_BYTES_MAX, PART_BYTES_MAX), (2 * PART_BYTES_MAX, 3),
    ]  # fmt: skip
    assert b"".join(part.data for part in parts) == data
    assert max(map(len, bodies)) <= FRAME_BODY_BYTES_MAX


@given(st.sampled_from(sorted(CODES)), st.binary(max_size=200))
def test_any_bytes_are_a_message_that_encodes_to_them_or_are_refused(code, body):
    with contextlib.suppress(MalformedReplication):
        sender, decoded = decode_body(code, body)
        assert not isinstance(decoded, Part)  # a random CRC is wrong
        assert encode_message(sender, decoded) == (code, body)


@given(MESSAGES, st.data())
def test_a_cut_or_longer_body_is_refused_or_another_message(message, data):
    code, body = encode_message("a", message)
    for other in (body[: data.draw(st.integers(0, len(body) - 1))], body + b"\0"):
        with pytest.raises(MalformedReplication):
            decode_body(code, other)


@given(st.binary(min_size=1, max_size=100), st.data())
def test_a_changed_bit_of_log_bytes_is_refused(log_bytes, data):
    (body,) = encode_shipment("a", HEAD, 0, len(log_bytes), log_bytes)
    bit = data.draw(st.integers(0, len(log_bytes) * 8 - 1))
    changed = bytearray(body)
    changed[len(body) - len(log_bytes) + bit // 8] ^= 1 << bit % 8
    with pytest.raises(MalformedReplication, match="CRC"):
        decode_body(GantryCode.REPLICA_SHIPMENT, bytes(changed))


def test_a_durable_end_with_neither_room_nor_none_is_refused():
    code, body = encode_message("b", DurableEnd(HEAD.session, 1, 1, 90, 100, 0, is_fit=False))
    assert body[-1] == 0
    with pytest.raises(MalformedReplication, match="fit"):
        decode_body(code, body[:-1] + b"\2")


@pytest.mark.parametrize(
    "message",
    [
        replace(HEAD, epoch=-1), replace(HEAD, confirm=-2), replace(HEAD, session=Session("", 1)),
        replace(HEAD, session=Session("x" * 65, 1)), replace(HEAD, session=Session("a b", 1)),
        DurableEnd(HEAD.session, 1, 1, 101, 100, 0), Refused(HEAD.session, -1), Hello(HEAD.session, "", "o", EpochTable(), 0, 0),
        Hello(HEAD.session, "g" * 128, "o", EpochTable(), 0, 0), Hello(HEAD.session, "g", "o", EpochTable(), -1, 0),
        Hello(HEAD.session, "g", "o" * 65, EpochTable(), 0, 0), Hello(HEAD.session, "g", "o p", EpochTable(), 0, 0),
        Welcome(HEAD.session, 1, 1, -5, EpochTable(), 0, 0), Welcome(HEAD.session, 1, 1, 5, EpochTable(), 0, -1),
        replace(HEAD, first=-1),
    ],
)  # fmt: skip
def test_a_message_beyond_a_bound_is_refused(message):
    with pytest.raises(MalformedReplication):
        decode_body(*encode_message("a", message))


@pytest.mark.parametrize("sender", ["", "a b", "x" * 128, "é"])
def test_a_sender_whose_name_is_none_is_refused(sender):
    with pytest.raises(MalformedReplication):
        decode_body(*encode_message(sender, HEAD))


def test_other_codes_and_huge_bodies_are_refused():
    for code, body in ((9056, b""), (GantryCode.REPLICA_BEAT, bytes(FRAME_BODY_BYTES_MAX + 1))):
        with pytest.raises(MalformedReplication):
            decode_body(code, body)


@pytest.mark.parametrize(
    ("position", "end", "size", "at"),
    [(0, 3, 4, 0), (-1, 4, 4, 0), (0, 1 << 40, SHIPMENT_BYTES_MAX + 1, 0), (0, 4, 4, 1), (0, 3, 3, 0)],
)
def test_a_part_that_contradicts_itself_is_refused(position, end, size, at):
    start = frames._head("a", HEAD.session) + frames._beat(HEAD)
    body = start + frames._PART.pack(position, end, size, at, crc32(b"data")) + b"data"
    with pytest.raises(MalformedReplication):
        decode_body(GantryCode.REPLICA_SHIPMENT, body)


def test_the_largest_run_of_records_fits_a_shipment():
    assert OUTPUTS_MAX * RECORD_BYTES_MAX + BODY_BYTES_MAX < SHIPMENT_BYTES_MAX


def test_the_largest_table_fits_a_frame():
    table = EpochTable(tuple(Epoch(number, 0) for number in range(1, ENTRIES_MAX + 1)))
    code, body = encode_message("a", Hello(HEAD.session, "g", "o", table, 1, 1))
    assert len(body) <= FRAME_BODY_BYTES_MAX
    assert decode_body(code, body)[1].table == table


def test_the_bytes_of_a_beat_and_of_a_part_are_as_described():
    head = "0001610003622d310000000000000004"
    beat = "00000000000000020000000000000003000000000000006400000000000013880000000000000040"
    assert encode_message("a", HEAD) == (9063, bytes.fromhex(head + beat))
    part = "000000000000006400000000000000700000000200000000d8932aac6869"
    assert list(encode_shipment("a", HEAD, 100, 112, b"hi")) == [bytes.fromhex(head + beat + part)]
