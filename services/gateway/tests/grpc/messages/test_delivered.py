"""Records of any origin as gRPC messages: of HTTP and remoting producers, retries, dead letters, and damaged ones."""

from __future__ import annotations

import gzip
import zlib
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.messages.ids import pack_host
from gantry_wire.records.message_record import (
    SYS_COMPRESSED,
    SYS_COMPRESSION_LZ4,
    build_record,
    decode_record,
)
from gateway.grpc.messages.delivered import Delivery, delivered_part, message_of, pulled_part
from gateway.grpc.messages.protobuf_fields import varint
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.duration import duration
from gateway.grpc.proto.enums import Encoding, MessageType
from gateway.grpc.proto.message import DeadLetterQueue, Message, SystemProperties
from gateway.grpc.proto.pulling import PullMessageResponse
from gateway.grpc.proto.receiving import ReceiveMessageResponse
from gateway.grpc.proto.timestamp import Timestamp, timestamp
from gateway.messages.property_names import RESERVED

from . import by_objects

zipped = partial(gzip.compress, mtime=0)
"""The same bytes at any time: workers of one run must agree on the names of tests."""

V4, V6 = pack_host("10.1.2.3", 40000), pack_host("::1", 10911)
TOPIC = Resource(name="orders")


def shown(
    properties: dict[str, str] | bytes = b"",
    *,
    body: bytes = b"hi",
    topic: str = "orders",
    sys_flag: int = 0,
    born_ms: int = 1,
    stored_ms: int = 2,
    hosts: tuple[bytes, bytes] = (V4, V4),
) -> Message:
    if isinstance(properties, dict):
        properties = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    record = build_record(
        topic.encode(), 1, 5, 4096, body, properties, 0, sys_flag, born_ms, hosts[0], stored_ms, hosts[1]
    )
    return message_of(decode_record(record), TOPIC)


def system_of(*arguments, **more) -> SystemProperties:
    return shown(*arguments, **more).system_properties


def test_a_message_of_a_remoting_producer():
    message = shown(
        {"UNIQ_KEY": "7F00", "WAIT": "true", "KEYS": " a  b ", "MSG_REGION": "r", "TRACE_ON": "true", "CLUSTER": "c", "x": "y"}
    )  # fmt: skip
    assert dict(message.user_properties) == {"x": "y"}
    system = message.system_properties
    assert (system.message_id, list(system.keys), system.born_host) == ("7F00", ["a", "b"], "10.1.2.3")
    assert not system.HasField("tag")
    assert not system.HasField("receipt_handle")
    assert not system.HasField("delivery_attempt")
    assert message.topic == TOPIC


def test_a_message_without_a_unique_key_has_its_place_as_id():
    assert system_of().message_id == "0A01020300009C40" + "0000000000001000"


def test_no_property_of_the_system_is_shown():
    names = RESERVED | {
        "__SHARDINGKEY",
        "__GANTRY_KEY",
        "__GANTRY_SETTLED",
        "__BORNHOST",
        "__RMQ.TRANSIENT.x",
    }
    message = shown(dict.fromkeys(names, "1") | {"mine": "1"})
    assert dict(message.user_properties) == {"mine": "1"}


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, MessageType.NORMAL),
        ({"TRAN_MSG": "false"}, MessageType.NORMAL),
        ({"TRAN_MSG": "true", "DELAY": "1", "__SHARDINGKEY": "g"}, MessageType.TRANSACTION),
        ({"DELAY": "3", "__SHARDINGKEY": "g"}, MessageType.DELAY),
        ({"TIMER_DELAY_MS": "3"}, MessageType.DELAY),
        ({"TIMER_DELAY_SEC": "3"}, MessageType.DELAY),
        ({"TIMER_DELIVER_MS": "3"}, MessageType.DELAY),
        ({"__SHARDINGKEY": "g", "_SYS_MSG_PRIORITY_": "1"}, MessageType.FIFO),
        ({"_SYS_MSG_PRIORITY_": "1", "__LITE_TOPIC": "l"}, MessageType.PRIORITY),
        ({"__LITE_TOPIC": "l"}, MessageType.LITE),
    ],
)
def test_the_type_follows_the_properties(properties, kind):
    assert system_of(properties).message_type == kind


def test_a_message_of_the_retry_topic_is_not_delayed_by_its_retry():
    properties = {"UNIQ_KEY": "1", "TIMER_DELAY_MS": "10", "TIMER_OUT_MS": "99", "ORIGIN_MESSAGE_ID": "A"}
    system = system_of(properties, topic="%RETRY%g")
    assert system.message_type == MessageType.NORMAL
    assert not system.HasField("delivery_timestamp")
    assert not system.HasField("dead_letter_queue")


def test_a_delayed_message_has_its_time():
    assert system_of({"TIMER_DELIVER_MS": "77", "TIMER_OUT_MS": "99"}).delivery_timestamp == timestamp(77)
    assert system_of({"TIMER_DELAY_MS": "10", "TIMER_OUT_MS": "99"}).delivery_timestamp == timestamp(99)


def test_a_dead_letter_names_its_origin():
    origin = DeadLetterQueue(topic="orders", message_id="0A")
    ours = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "0A"}
    theirs = {"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": "0A"}
    assert system_of(ours, topic="%DLQ%g").dead_letter_queue == origin
    assert system_of(theirs).dead_letter_queue == origin
    assert not system_of({"DLQ_ORIGIN_TOPIC": "orders"}).HasField("dead_letter_queue")


@pytest.mark.parametrize(
    ("body", "sys_flag", "shown_body", "encoding"),
    [
        (zlib.compress(b"hello"), SYS_COMPRESSED, b"hello", Encoding.IDENTITY),
        (zipped(b"hello"), SYS_COMPRESSED, b"hello", Encoding.IDENTITY),
        (zipped(b"a") * 2, SYS_COMPRESSED, zipped(b"a") * 2, Encoding.GZIP),
        (b"broken", SYS_COMPRESSED, b"broken", Encoding.IDENTITY),
        (b"lz4", SYS_COMPRESSED | SYS_COMPRESSION_LZ4, b"lz4", Encoding.IDENTITY),
        (zipped(b"hello"), 0, zipped(b"hello"), Encoding.IDENTITY),
    ],
)
def test_bodies_are_decompressed(body, sys_flag, shown_body, encoding):
    message = shown(body=body, sys_flag=sys_flag)
    assert (message.body, message.system_properties.body_encoding) == (shown_body, encoding)


def test_a_trace_of_http_is_the_trace_context_and_stays_a_property():
    message = shown({"traceparent": "00-1"})
    assert message.system_properties.trace_context == "00-1"
    assert dict(message.user_properties) == {"traceparent": "00-1"}
    both = shown({"traceparent": "mine", "TRACE_CONTEXT": "theirs"})
    assert both.system_properties.trace_context == "theirs"
    assert dict(both.user_properties) == {"traceparent": "mine"}


def test_numbers_that_are_none_are_left_out():
    system = system_of(
        {"_SYS_MSG_PRIORITY_": "x", "TIMER_DELIVER_MS": "-1", "CHECK_IMMUNITY_TIME_IN_SECONDS": "²"}
    )
    for name in ("priority", "delivery_timestamp", "orphaned_transaction_recovery_duration"):
        assert not system.HasField(name)
    assert not system_of({"_SYS_MSG_PRIORITY_": str(2**31)}).HasField("priority")
    assert system_of({"_SYS_MSG_PRIORITY_": "0"}).HasField("priority")
    half = system_of({"CHECK_IMMUNITY_TIME_IN_SECONDS": "30"})
    assert half.orphaned_transaction_recovery_duration == duration(30_000)


@pytest.mark.parametrize("ms", [-(2**63), -1, 0, 2**63 - 1])
def test_times_stay_within_the_calendar(ms):
    born = system_of(born_ms=ms).born_timestamp
    assert -62_135_596_800 <= born.seconds <= 253_402_300_799
    assert 0 <= born.nanos < 10**9
    if ms in {-1, 0}:
        assert born == (Timestamp(seconds=-1, nanos=999_000_000) if ms else Timestamp())


def test_hosts_of_version_6():
    system = system_of(hosts=(V6, V6))
    assert (system.born_host, system.store_host) == ("::1", "::1:10911")


NAMES = st.sampled_from(
    [
        "UNIQ_KEY", "TAGS", "KEYS", "__SHARDINGKEY", "TRACE_CONTEXT", "traceparent", "__BORNHOST", "TRAN_MSG", "DELAY",
        "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_DELAY_MS", "_SYS_MSG_PRIORITY_", "__LITE_TOPIC",
        "CHECK_IMMUNITY_TIME_IN_SECONDS", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID",
        "WAIT", "__GANTRY_KEY",
    ]
)  # fmt: skip
VALUES = st.text(min_size=1, max_size=200) | st.sampled_from(["true", "0", "7", str(2**31), "9" * 18, "a  b"])
INT64 = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.builds(
    build_record,
    st.sampled_from([b"orders", b"%RETRY%g", b"%DLQ%g"]),
    st.integers(-(2**31), 2**31 - 1),
    INT64,
    st.integers(0, 2**63 - 1),
    st.binary(max_size=60) | st.binary(max_size=60).map(zipped) | st.just(b"x" * 20_000),
    st.dictionaries(NAMES | st.text(max_size=200), VALUES, max_size=8).map(
        lambda named: "".join(f"{name}\x01{value}\x02" for name, value in named.items()).encode()
    )
    | st.binary(max_size=60),
    st.just(0),
    st.integers(0, 0x3FF),
    INT64,
    st.sampled_from([V4, V6]),
    INT64,
    st.sampled_from([V4, V6]),
).map(decode_record)


@given(RECORDS, st.text(max_size=200), st.integers(1, 2**31 - 1), st.integers(0, 2**40))
def test_any_record_is_delivered_as_the_objects_of_protobuf_say(record, handle, attempt, invisible_ms):
    """One that cannot be delivered would stop a consumer for ever."""
    delivery = Delivery(TOPIC, handle, attempt, duration(invisible_ms))
    part = ReceiveMessageResponse.FromString(delivered_part(record, delivery))
    assert part == ReceiveMessageResponse(message=by_objects.delivered(record, delivery))
    pulled = PullMessageResponse.FromString(pulled_part(record, TOPIC))
    assert pulled == PullMessageResponse(message=by_objects.message_of(record, TOPIC))
    assert message_of(record, TOPIC) == pulled.message


@given(st.integers(-(2**63), 2**63 - 1) | st.sampled_from([127, 128, 16_383, 16_384]))
def test_a_varint_is_that_of_protobuf(value):
    assert b"\x70" + varint(value) == SystemProperties(queue_offset=value).SerializeToString()
