import math
import random
import zlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import format_properties, parse_properties
from gantry_wire.records.message_record import build_record, decode_record
from gantrymq import InvalidMessage, Message, ReceivedMessage
from gantrymq.formats.compression import UnreadableBody, decompress
from gantrymq.machine import THIS_MACHINE
from gantrymq.producer.recalls import RecallHandle, parse_handle
from gantrymq.producer.replying import is_reply, reply_to, request_properties
from gantrymq.producer.sending.preparing import Preparation
from gantrymq.producer.settings import ProducerSettings

NOW = 1_700_000_000_000
HOST = pack_host("10.0.0.1", 10911)


def prepare(message, namespace="", **settings):
    return Preparation(ProducerSettings(**settings), namespace, THIS_MACHINE).prepare(message, NOW)


def received(body=b"x", sys_flag=0, topic="T", **properties):
    record = build_record(
        topic.encode(), 0, 0, 0, body, format_properties(properties), 0, sys_flag, NOW, HOST, NOW, HOST
    )
    return ReceivedMessage(decode_record(record), "b")


def test_all_fields_of_a_message_become_properties():
    message = Message(
        "T", b"x", tag="paid", keys=["a", "b"], sharding_key="s", properties={"who": "me"}, delay=1.5
    )
    said = parse_properties(prepare(message, "ns").properties)
    assert said.pop("UNIQ_KEY") == message.unique_id
    assert said == {
        "WAIT": "true", "TAGS": "paid", "KEYS": "a b", "__SHARDINGKEY": "s", "who": "me", "TIMER_DELAY_MS": "1500",
        "INSTANCE_ID": "ns",
    }  # fmt: skip


def test_delays_use_rocketmqs_property_names():
    at = datetime(2033, 5, 18, 3, 33, 20, tzinfo=UTC)
    assert parse_properties(prepare(Message("T", b"x", delay_level=18)).properties)["DELAY"] == "18"
    assert (
        parse_properties(prepare(Message("T", b"x", deliver_at=at)).properties)["TIMER_DELIVER_MS"]
        == "2000000000000"
    )
    assert parse_properties(prepare(Message("T", b"x", deliver_at=NOW)).properties)[
        "TIMER_DELIVER_MS"
    ] == str(NOW)


def test_a_message_that_is_sent_again_keeps_its_id_and_others_get_their_own():
    first, second = Message("T", b"x"), Message("T", b"x")
    assert prepare(first).properties == prepare(first).properties
    assert prepare(second).properties != prepare(first).properties
    assert len(first.unique_id) == 32


def test_large_bodies_are_compressed_and_come_back():
    body = b"abc" * 5000
    prepared = prepare(Message("T", body))
    assert prepared.sys_flag == 0x301
    assert zlib.decompress(prepared.body) == body
    assert received(prepared.body, prepared.sys_flag).body == body
    assert prepare(Message("T", b"x" * 4095)).sys_flag == 0
    assert prepare(Message("T", body), compress_above=0).body == body
    packed = random.Random(5).randbytes(8192)
    as_it_is = prepare(Message("T", packed))
    assert (as_it_is.body, as_it_is.sys_flag) == (packed, 0), "compressing it again would make it larger"


def test_an_unreadable_body_says_why():
    with pytest.raises(UnreadableBody, match="marked as compressed with zlib, but is not"):
        decompress(b"no zlib", 0x1)
    with pytest.raises(UnreadableBody, match="more than"):
        decompress(zlib.compress(b"\0" * (65 * 1024 * 1024)), 0x301)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Message("", b"x"), "topic"),
        (lambda: Message(None, b"x"), "topic"),
        (lambda: Message("T", "text"), "body: bytes, not str"),
        (lambda: Message("T", None), "body"),
        (lambda: Message("T", b"x", tag=3), "tag"),
        (lambda: Message("T", b"x", tag="a || b"), "tag: one tag"),
        (lambda: Message("T", b"x", keys=["a b"]), "keys: 'a b' contains a blank, which separates keys"),
        (lambda: Message("T", b"x", keys="a b"), "give several keys as a list"),
        (lambda: Message("T", b"x", keys=["a", ""]), "keys"),
        (lambda: Message("T", b"x", keys=[1]), "keys"),
        (lambda: Message("T", b"x", properties={"a": 1}), "properties"),
        (lambda: Message("T", b"x", properties={"a": ""}), "properties"),
        (lambda: Message("T", b"x", properties={"TAGS": "a"}), "properties: TAGS is set by an argument"),
        (lambda: Message("T", b"x", delay_level=19), "delay_level: 0 \\(none\\) to 18, not 19"),
        (lambda: Message("T", b"x", delay=-1), "delay"),
        (
            lambda: Message("T", b"x", delay=math.nan),
            "delay: must be seconds from now, 0 to 1000000000, not nan",
        ),
        (lambda: Message("T", b"x", delay=math.inf), "delay"),
        (lambda: Message("T", b"x", delay=-math.inf), "delay"),
        (lambda: Message("T", b"x", delay=1e300), "delay"),
        (lambda: Message("T", b"x", delay=True), "delay"),
        (lambda: Message("T", b"x", deliver_at=-1), "deliver_at: must be an instant from 1970 on"),
        (lambda: Message("T", b"x", deliver_at=2**63), "deliver_at"),
        (lambda: Message("T", b"x", deliver_at=datetime(1969, 1, 1, tzinfo=UTC)), "deliver_at"),
        (lambda: Message("T", b"x", delay=1, delay_level=1), "one of"),
        (lambda: Message("T", b"x", deliver_at=datetime(2033, 1, 1)), "time zone"),  # noqa: DTZ001 - what is refused
        (lambda: Message("T", b"x", flag=2**31), "flag"),
        (lambda: prepare(Message("T", b"")), "body: 0 bytes; a message has 1 to 4194304"),
        (
            lambda: prepare(Message("T", b"x" * 11), message_bytes_max=10, batch_bytes_max=10),
            "body: 11 bytes",
        ),
        (lambda: prepare(Message("T", b"x", tag="a\x01b")), "0x01"),
        (lambda: prepare(Message("T", b"x", properties={"a": "b\x02c\x01d"})), "0x01"),
        (lambda: prepare(Message("T", b"x", properties={"a": "ü" * 20_000})), "limit is 32767"),
    ],
)
def test_wrong_types_and_sizes_are_refused_naming_field_and_limit(make, field):
    with pytest.raises(InvalidMessage, match=field):
        make()


@given(delay=some.floats() | some.integers())
def test_any_number_of_seconds_is_a_delay_or_refused(delay):
    if 0 <= delay <= 10**9:
        assert Message("T", b"x", delay=delay).delay_ms == round(delay * 1000)
        return
    with pytest.raises(InvalidMessage, match="delay: must be seconds from now"):
        Message("T", b"x", delay=delay)


@given(
    keys=some.lists(
        some.text(some.characters(exclude_characters=" \x01\x02", exclude_categories=["Cs"]), min_size=1)
    )
)
def test_keys_are_received_as_they_were_given(keys):
    prepared = prepare(Message("T", b"x", keys=keys))
    properties = parse_properties(prepared.properties)
    assert received(**properties).keys == keys


def test_topics_are_checked_and_wrapped():
    preparation = Preparation(ProducerSettings(), "ns", THIS_MACHINE)
    assert preparation.topic("T") == "ns%T"
    assert preparation.topic("%RETRY%g") == "%RETRY%ns%g"
    for topic in ("a b", "x" * 128, "SCHEDULE_TOPIC_XXXX"):
        with pytest.raises(InvalidMessage, match="topic"):
            preparation.topic(topic)


def test_a_recall_handle_is_parsed_and_an_invalid_one_refused():
    handle = "djEgVDEgYnJva2VyLWEgMTc5NTM0MzQ3MjM5NCA1NjAzOTI2QjE2Q0Y3NkQ0NkYzMzZFNjY4NEFBMDAwOQ=="
    assert parse_handle(handle) == RecallHandle(
        "T1", "broker-a", 1795343472394, "5603926B16CF76D46F336E6684AA0009"
    )
    for nonsense in ("", "abc", "????", "djIgYSBiIDEgYw=="):
        with pytest.raises(InvalidMessage, match="not a recall handle"):
            parse_handle(nonsense)


def test_a_reply_goes_to_the_requester_and_only_requests_have_replies():
    request = received(CLUSTER="C", **request_properties("id-1", "10.0.0.1@7", 3))
    reply = reply_to(request, b"yes")
    assert reply.topic == "C_REPLY_TOPIC"
    assert is_reply(reply)
    assert reply.properties == {
        "MSG_TYPE": "reply", "CORRELATION_ID": "id-1", "REPLY_TO_CLIENT": "10.0.0.1@7", "TTL": "3000",
    }  # fmt: skip
    with pytest.raises(InvalidMessage, match="not a request: it has no CLUSTER, CORRELATION_ID"):
        reply_to(received(), b"yes")


def test_a_received_message_shows_what_was_sent():
    message = received(b"x", 0, "ns%T", TAGS="paid", KEYS="a b", UNIQ_KEY="U", RETRY_TOPIC="ns%O", a="b")
    message.namespace = "ns"
    assert (message.topic, message.stored_topic) == ("O", "ns%T")
    assert (message.tag, message.keys, message.message_id, message.properties["a"]) == (
        "paid",
        ["a", "b"],
        "U",
        "b",
    )
    assert message.born_host == "10.0.0.1:10911"
    assert message.store_timestamp_ms == NOW
