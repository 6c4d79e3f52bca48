import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_store.commit.stamp import Stamp
from broker_store.sending import send_batch
from broker_store.sending.send_batch import Items, _read, read_items
from gantry_wire.messages.batch import BatchColumns, BatchItem, encode_batch
from gantry_wire.messages.properties import parse_properties

STAMP = Stamp("DefaultRegion", "c", trace_on=True, next_unique_key=lambda: "MADE")
NAMES = st.sampled_from(
    ["UNIQ_KEY", "WAIT", "TAGS", "KEYS", "CLUSTER", "DELAY", "a", "XUNIQ_KEY", "__RMQ.TRANSIENT.x"]
)
VALUES = st.sampled_from(["", "0", "true", "v", "UNIQ_KEY", "7F0000010A0B"])


def rows(items: Items):
    return list(zip(*items._replace(keys=items.keys or [None] * len(items.bodies)), strict=True))


@st.composite
def properties(draw):
    pairs = draw(st.lists(st.tuples(NAMES, VALUES), max_size=5))
    text = "".join(f"{name}\x01{'0' if name == 'DELAY' else value}\x02" for name, value in pairs)
    if draw(st.booleans()):  # what every Java client sets, and nothing else
        text = f"UNIQ_KEY\x01{draw(VALUES)}\x02WAIT\x01true\x02"
    return (text if draw(st.booleans()) else text.removesuffix("\x02")).encode()


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=30), properties()), min_size=1, max_size=6))
def test_the_fast_path_reads_what_the_slow_path_reads(messages):
    items = [BatchItem(3, body, raw) for body, raw in messages]
    assert rows(read_items(encode_batch(items), 0, STAMP)) == [_read(*item, 0, STAMP) for item in items]


@pytest.mark.parametrize("key", ["U1", "", "a\x02b", "a\x02", "\x02"])
def test_the_two_properties_of_every_java_client_take_the_fast_path_alike(key, monkeypatch):
    item = BatchItem(1, b"x", f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02".encode())
    assert rows(read_items(encode_batch([item]), 0, STAMP)) == [_read(*item, 0, STAMP)]
    if key == "U1":
        monkeypatch.setattr("broker_store.sending.send_batch._read", None)
        assert read_items(encode_batch([item]), 0, STAMP).unique_keys[0] == "U1"


def test_the_clients_properties_stay_in_front():
    raw = b"UNIQ_KEY\x01U1\x02WAIT\x01true"
    items = read_items(encode_batch([BatchItem(0, b"x", raw)]), 0, STAMP)
    (stored,) = items.properties
    assert stored.startswith(raw + b"\x02")
    assert items.unique_keys == ("U1",)
    assert parse_properties(stored)["CLUSTER"] == "c"


RAW = b"UNIQ_KEY\x01" + b"K" * 32 + b"\x02WAIT\x01true\x02"


@pytest.mark.parametrize(
    "raws",
    [
        [RAW] * 3,
        [RAW],
        [RAW, RAW.replace(b"KK", b"K")],
        [RAW, RAW.replace(b"K" * 32, b"K" * 15 + b"\x01\x02" + b"K" * 15)],
        [RAW, RAW.replace(b"UNIQ_KEY", b"UNIQ_KEX")],
        [RAW, RAW.replace(b"true", b"tru\x00")],
        [RAW, RAW.replace(b"KK", "é".encode())],
        [RAW[:-1] + b"\x01", RAW[:-1] + b"\x02"],
        [b"", b""],
        [b"UNIQ_KEY\x01\x02WAIT\x01true\x02"] * 2,
        [b"UNIQ_KEY\x01a\x02WAIT\x01true\x02", b"UNIQ_KEY\x01\x02\x02WAIT\x01tru\x01"],
    ],
)
def test_records_checked_together_give_what_each_gives_alone(raws):
    members = [BatchItem(number, b"x%d" % number, raw) for number, raw in enumerate(raws)]
    each = send_batch._read_each(BatchColumns(*zip(*members, strict=True)), 0, STAMP)
    assert rows(read_items(encode_batch(members), 0, STAMP)) == rows(each)


def test_further_keys_are_a_column_only_where_some_message_has_one():
    members = [BatchItem(0, b"a", RAW), BatchItem(0, b"b", b"KEYS\x01k1 k2\x02" + RAW)]
    assert read_items(encode_batch(members), 0, STAMP).keys == (None, "k1 k2")
    assert read_items(encode_batch(members[:1]), 0, STAMP).keys == ()
    assert read_items(encode_batch(members), 0, STAMP).only([False, True]).bodies == (b"b",)
