"""The quick way from a leased record to JSON says what the slow way says; handles come back, and nothing else is one."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedRecord
from gantry_wire.ids import pack_host
from gantry_wire.lease_headers import LeasedRun
from gantry_wire.record import build_record, decode_record
from gateway.message_view import message
from gateway.receipts import HANDLE_CHARS_MAX, Receipts
from gateway.received_view import shown

HOSTS = st.sampled_from([pack_host("127.0.0.1", 10911), pack_host("::1", 10911)])
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF), min_size=1, max_size=8)
NAMES = st.sampled_from(["TAGS", "KEYS", "x", "__SHARDINGKEY", "__GANTRY_KEY", "UNIQ_KEY", "WAIT", "ü"])
RECEIPTS = Receipts("orders", "g")


@given(
    st.lists(
        st.tuples(
            st.one_of(st.binary(max_size=20), st.text(max_size=20).map(str.encode)),
            st.lists(st.tuples(NAMES, VALUES | st.sampled_from(["7F00AB", "a"])), max_size=5),
            st.sampled_from([0, 1, 0x101]),
            HOSTS,
            st.sampled_from([b"orders", b"%RETRY%g", b"%DLQ%x"]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 1000),
)
def test_the_quick_way_says_what_the_slow_way_says(messages, attempt):
    records: list[bytes] = []
    for number, (body, properties, flags, host, topic) in enumerate(messages):
        raw = "".join(f"{name}\x01{value}\x02" for name, value in properties).encode()
        record = build_record(
            topic, 3, number, 1000 + number, body, raw, 0, flags, 5, host, 1_700_000_000_123, host, 2
        )
        records.append(record)
    runs = [LeasedRun(len(records), 7 << 32, attempt)]
    parts, places = shown(b"".join(records), runs, "broker-ä", "orders", 1_700_000_030_000, RECEIPTS)
    assert len(parts) == len(places) == len(records)
    for part, record, place in zip(parts, records, places, strict=True):
        said = json.loads(part)
        handle = RECEIPTS.read(said.pop("receiptHandle"))
        assert handle == ("broker-ä".encode(), *place)
        assert said.pop("deliveryAttempt") == attempt
        assert said.pop("invisibleUntil") == "2023-11-14T22:13:50.000Z"
        slow = json.loads(msgspec.json.encode(message(decode_record(record), "broker-ä")))
        if place[0]:
            assert slow["topic"] == "%RETRY%g"
            slow["topic"] = "orders"
        assert said == slow


def test_a_damaged_record_is_never_shown():
    host = pack_host("127.0.0.1", 1)
    record = bytearray(
        build_record(b"orders", 0, 0, 0, b"hello", b"UNIQ_KEY\x01AB\x02", 0, 0, 1, host, 1, host)
    )
    runs = [LeasedRun(1, 1, 1)]
    assert shown(bytes(record), runs, "b", "orders", 1, RECEIPTS).parts
    record[record.index(b"hello")] ^= 1
    for bad in (bytes(record), bytes(record[:-1]), b"", b"x" * 200):
        with pytest.raises(MalformedRecord):
            shown(bad, runs, "b", "orders", 1, RECEIPTS)


@given(
    st.binary(max_size=40),
    st.integers(0, 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
)
def test_handles_come_back(broker, is_retry, queue_id, offset, lease):
    handle = RECEIPTS.make(broker, is_retry, queue_id, offset, lease).decode()
    assert RECEIPTS.read(handle) == (broker, is_retry, queue_id, offset, lease)
    assert Receipts("orders", "other").read(handle) is None
    assert Receipts("order", "sg").read(handle) is None


@given(st.text(max_size=80))
def test_other_texts_are_no_handles(text):
    assert RECEIPTS.read(text) is None


@given(st.integers(0, 60), st.sampled_from("+/=!ä\n A"))
def test_a_handle_that_was_changed_is_none(place, letter):
    handle = RECEIPTS.make(b"broker-a", 0, 1, 2, 3).decode()
    place %= len(handle)
    changed = handle[:place] + letter + handle[place + 1 :]
    assert changed == handle or RECEIPTS.read(changed) is None
    assert RECEIPTS.read(handle[:place]) is None
    assert RECEIPTS.read(handle + "A" * HANDLE_CHARS_MAX) is None
