"""Sends over HTTP leave trace records in RocketMQ's format. Clients that trace themselves are left alone."""

import asyncio

import pytest

from broker_store.requests.extensions import Reply, Request, Send, StoreView
from broker_store.requests.tracing import MESSAGE_BYTES_MAX, SendTracing
from gantry_wire.messages.batch import BatchItem, encode_batch
from gantry_wire.messages.properties import format_properties
from gantry_wire.names import GATEWAY_GROUP, TRACE_TOPIC

pytestmark = pytest.mark.anyio


@pytest.fixture
def written():
    return []


@pytest.fixture
def tracing(written):
    tracing = SendTracing()

    def append(topic, queue_id, body, *, tags="", keys=""):
        written.append((topic, queue_id, body.decode(), keys))

    tracing.start(
        StoreView("broker-a", "DefaultCluster", "DefaultRegion", "127.0.0.1:10911", lambda: 1012, append)
    )
    return tracing


def send(properties, *, group=GATEWAY_GROUP, topic="orders", body=b"hello", is_batch=False):
    request = Request(310, "127.0.0.1:5", {}, body, 1000)
    return Send(request, group, topic, 0, properties, is_batch)


def stored(message_id="OFF1"):
    return Reply(0, None, {"msgId": message_id, "transactionId": "U9"})


async def test_a_send_is_one_record_in_rocketmqs_format(tracing, written):
    tracing.after_send(send({"UNIQ_KEY": "U1", "TAGS": "a", "KEYS": "k1 k2"}), stored())
    await asyncio.sleep(0)
    ((topic, queue_id, text, keys),) = written
    assert (topic, queue_id, keys) == (TRACE_TOPIC, 0, "U1 k1 k2")
    fields = "Pub 1000 DefaultRegion GANTRY_GATEWAY orders U1 a|k1 k2|127.0.0.1:10911 5 12 0 OFF1 true"
    expected = [
        part for piece in fields.split("|") for part in ([piece] if piece == "k1 k2" else piece.split(" "))
    ]
    assert text == "\x01".join(expected) + "\x02"


async def test_records_of_one_turn_are_one_message(tracing, written):
    for number in range(3):
        tracing.after_send(send({"UNIQ_KEY": f"U{number}"}), stored())
    await asyncio.sleep(0)
    ((_, _, text, keys),) = written
    assert text.count("\x02") == 3
    assert keys == "U0 U1 U2"


async def test_each_message_of_a_batch_has_its_record(tracing, written):
    items = [BatchItem(0, b"x" * n, format_properties({"UNIQ_KEY": f"U{n}"})) for n in (1, 2)]
    batch = send({}, body=encode_batch(items, 1 << 20), is_batch=True)
    tracing.after_send(batch, stored("OFF1,OFF2"))
    await asyncio.sleep(0)
    records = [record.split("\x01") for record in written[0][2].split("\x02")[:-1]]
    assert [(record[5], record[9], record[12]) for record in records] == [
        ("U1", "1", "OFF1"),
        ("U2", "2", "OFF2"),
    ]


@pytest.mark.parametrize(
    ("properties", "kind"),
    [({}, "0"), ({"TRAN_MSG": "true"}, "1"), ({"DELAY": "3"}, "3"), ({"TIMER_DELAY_MS": "5"}, "3")],
)
async def test_the_kind_of_a_message_is_recognized(tracing, written, properties, kind):
    tracing.after_send(send(properties), stored())
    await asyncio.sleep(0)
    fields = written[0][2].split("\x01")
    assert (fields[5], fields[11]) == ("U9", kind)


async def test_a_refused_send_is_no_success(tracing, written):
    tracing.after_send(send({"UNIQ_KEY": "U1"}), Reply(13, "too large", {}))
    await asyncio.sleep(0)
    assert written[0][2].endswith("\x01\x01false\x02")


@pytest.mark.parametrize(
    "changes",
    [
        {"group": "pg"},
        {"topic": TRACE_TOPIC},
        {"topic": "GANTRY_SYS_PROBE"},
        {"is_batch": True, "body": b"?"},
    ],
)
async def test_clients_that_trace_themselves_and_system_topics_are_left_alone(tracing, written, changes):
    tracing.after_send(send({"UNIQ_KEY": "U1"}, **changes), stored())
    await asyncio.sleep(0)
    tracing.close()
    assert written == []


async def test_a_message_of_records_is_bounded(tracing, written):
    keys = "k" * 30_000
    for _ in range(6):
        tracing.after_send(send({"UNIQ_KEY": "U1", "KEYS": keys}), stored())
    tracing.close()
    assert len(written) == 2
    assert all(len(text) <= MESSAGE_BYTES_MAX for _, _, text, _ in written)
    await asyncio.sleep(0)
    assert len(written) == 2


async def test_keys_that_no_record_can_hold_are_divided_or_left_out(tracing, written):
    for number in range(4):
        tracing.after_send(send({"UNIQ_KEY": f"U{number}", "KEYS": "k" * 3000}), stored())
    tracing.after_send(send({"UNIQ_KEY": "U9", "KEYS": "k" * 32_000}), stored())
    await asyncio.sleep(0)
    assert sum(text.count("\x02") for _, _, text, _ in written) == 5
    assert all(len(keys) < 8000 for _, _, _, keys in written)
    assert [keys[:2] for _, _, _, keys in written] == ["U0", "U2"]
