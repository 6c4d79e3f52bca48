"""The fast path from a leased record to JSON returns the slow path's JSON; handles survive a round trip, and no other text is a handle."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedRecord
from gantry_wire.messages.ids import pack_host
from gantry_wire.private_requests.leases import PLACE, LeasedRun
from gantry_wire.records.message_record import build_record, decode_record
from gateway.messages.message_view import message
from gateway.ports.leases import Leased, ReceiveAsk
from gateway.receive.receipts import HANDLE_CHARS_MAX, Receipts
from gateway.receive.received_view import shown

HOSTS = st.sampled_from([pack_host("127.0.0.1", 10911), pack_host("::1", 10911)])
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF), min_size=1, max_size=8)
NAMES = st.sampled_from(["TAGS", "KEYS", "x", "__SHARDINGKEY", "__GANTRY_KEY", "UNIQ_KEY", "WAIT", "ü"])
RECEIPTS = Receipts("orders", "g")


def show(records, runs, broker, topic, until_ms, receipts):
    return shown(ReceiveAsk(topic, "g", 32, 30_000), broker, Leased(runs, records, until_ms), receipts)


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
def test_the_fast_and_the_slow_path_return_the_same_json(messages, attempt):
    records: list[bytes] = []
    for number, (body, properties, flags, host, topic) in enumerate(messages):
        raw = "".join(f"{name}\x01{value}\x02" for name, value in properties).encode()
        record = build_record(
            topic, 3, number, 1000 + number, body, raw, 0, flags, 5, host, 1_700_000_000_123, host, 2
        )
        records.append(record)
    runs = [LeasedRun(len(records), 7 << 32, attempt)]
    messages = show(b"".join(records), runs, "broker-ä", "orders", 1_700_000_030_000, RECEIPTS)
    parts, places = messages.parts, list(messages.all_places())
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


@pytest.mark.parametrize(
    ("group", "key"), [("GANTRY_REDRIVE", None), ("", "k-1")], ids=["sent again by a task", "delayed"]
)
def test_the_key_of_a_task_is_not_shown_as_the_senders(group, key):
    settled = f"__GANTRY_SETTLED\x01%DLQ%g:0:7:{group}:1/1\x02"
    raw = f"UNIQ_KEY\x01AA\x02__GANTRY_KEY\x01k-1\x02{settled}".encode()
    host = pack_host("127.0.0.1", 10911)
    record = build_record(b"orders", 0, 0, 0, b"x", raw, 0, 0, 5, host, 1_700_000_000_123, host)
    assert message(decode_record(record), "broker-a").idempotency_key == key
    parts = show(record, [LeasedRun(1, 7 << 32, 1)], "broker-a", "orders", 1_700_000_030_000, RECEIPTS).parts
    assert json.loads(parts[0]).get("idempotencyKey") == key


HEADS = st.sampled_from(
    [
        "",
        "TAGS\x01t\x02",
        "ü%s\x01%d\x02",
        "KEYS\x01k1 k2\x02",
        "UNIQ_KEY\x01AA\x02",
        "XUNIQ_KEY\x01AA\x02",
        "x",
    ]
)
TAILS = st.sampled_from(["\x02", "\x02WAIT\x01true\x02", "\x02%\x01%s\x02", "\x02UNIQ_KEY\x01B\x02", ""])
TEXTS = st.sampled_from([b"hello", b"w%s\xc3\xbc", b'a"b\\c', b"\xff\xfe\xfd\xfc\xfb", b"12\n\x0045"])


@given(
    HEADS,
    TAILS,
    st.lists(
        st.tuples(TEXTS, st.integers(0, 2**40), st.sampled_from([5, 1_700_000_000_123])),
        min_size=3,
        max_size=9,
    ),
    st.one_of(st.none(), st.sampled_from(["key", "tail", "queue", "host", "flag", "reconsumed", "topic"])),
    HOSTS,
)
def test_messages_that_are_shown_together_are_shown_as_each_alone(head, tail, messages, differs, host):
    records: list[bytes] = []
    for number, (body, offset, born_ms) in enumerate(messages):
        odd = differs if number == 1 else None
        key = "a-b" if odd == "key" else f"{number:03d}"
        raw = f"{head}UNIQ_KEY\x01{key}{'#' * (odd == 'tail')}{tail}".encode()
        records.append(
            build_record(
                b"ordera" if odd == "topic" else b"orders", 4 if odd == "queue" else 3, offset, 1000 + number, body, raw, 0,
                2 if odd == "flag" else 0, born_ms, pack_host("10.0.0.1", 1) if odd == "host" else host, born_ms + number, host,
                int(odd == "reconsumed"),
            )
        )  # fmt: skip
    data, until = b"".join(records), 1_700_000_030_000
    together = show(data, [LeasedRun(len(records), 7 << 32, 3)], "b%ä", "orders", until, RECEIPTS)
    alone = [show(one, [LeasedRun(1, 7 << 32, 3)], "b%ä", "orders", until, RECEIPTS) for one in records]
    assert together.parts == [one.parts[0] for one in alone]
    assert list(together.all_places()) == [place for one in alone for place in one.all_places()]


@pytest.mark.parametrize("damage", [b"hello-1", b"UNIQ_KEY"])
def test_a_damaged_record_among_others_is_never_show(damage):
    host = pack_host("127.0.0.1", 1)
    data = bytearray().join(
        build_record(b"orders", 0, n, n, b"hello-%d" % n, b"UNIQ_KEY\x01%d\x02" % n, 0, 0, 1, host, 1, host)
        for n in range(4)
    )
    runs = [LeasedRun(4, 1, 1)]
    assert len(show(bytes(data), runs, "b", "orders", 1, RECEIPTS).parts) == 4
    assert [
        json.loads(part)["body"] for part in show(bytes(data), runs, "b", "orders", 1, RECEIPTS).parts
    ] == [f"hello-{n}" for n in range(4)]
    if damage == b"hello-1":
        data[data.index(damage)] ^= 1
    else:
        del data[data.rindex(damage)]
    with pytest.raises(MalformedRecord):
        show(bytes(data), runs, "b", "orders", 1, RECEIPTS)
    for cut in (-1, -40, 30):
        with pytest.raises(MalformedRecord):
            show(bytes(data[:cut]), runs, "b", "orders", 1, RECEIPTS)


def test_a_damaged_record_is_never_show():
    host = pack_host("127.0.0.1", 1)
    record = bytearray(
        build_record(b"orders", 0, 0, 0, b"hello", b"UNIQ_KEY\x01AB\x02", 0, 0, 1, host, 1, host)
    )
    runs = [LeasedRun(1, 1, 1)]
    assert show(bytes(record), runs, "b", "orders", 1, RECEIPTS).parts
    record[record.index(b"hello")] ^= 1
    for bad in (bytes(record), bytes(record[:-1]), b"", b"x" * 200):
        with pytest.raises(MalformedRecord):
            show(bad, runs, "b", "orders", 1, RECEIPTS)


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


@given(
    st.binary(max_size=12),
    st.integers(0, 2**31 - 1),
    st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=8),
    st.integers(0, 2**63 - 1),
)
def test_handles_made_together_are_those_made_one_by_one_and_are_read_together(
    broker, queue_id, offsets, lease
):
    made = RECEIPTS.make_all(broker, queue_id, offsets, lease)
    assert made == [RECEIPTS.make(broker, 0, queue_id, offset, lease) for offset in offsets]
    read = RECEIPTS.read_all([handle.decode() for handle in made])
    assert read == (broker, [PLACE.pack(0, queue_id, offset, lease) for offset in offsets])
    assert Receipts("orders", "other").read_all([handle.decode() for handle in made]) is None


@given(
    st.integers(0, 3),
    st.one_of(
        st.tuples(st.integers(0, 60), st.sampled_from("+/=!ä\n AB")),
        st.sampled_from(["", "A", "AAAA", "A" * HANDLE_CHARS_MAX]),
    ),
    st.sampled_from([b"broker-a", b"broker-bc", b"broker-bcd"]),
)
def test_handles_with_a_wrong_one_among_them_are_read_one_by_one(number, wrong, broker):
    handles = [handle.decode() for handle in RECEIPTS.make_all(broker, 1, range(4), 3)]
    if isinstance(wrong, str):
        changed = wrong
    else:
        place = wrong[0] % len(handles[number])
        changed = handles[number][:place] + wrong[1] + handles[number][place + 1 :]
    right, handles[number] = handles[number], changed
    together = RECEIPTS.read_all(handles)
    assert (together is not None) == (RECEIPTS.read(changed) is not None and len(changed) == len(right))
