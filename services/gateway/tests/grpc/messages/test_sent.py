"""Messages of producers: every field comes back as it was sent; every invalid one has RocketMQ's code."""

from __future__ import annotations

import gzip
import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.limits import BODY_BYTES_MAX
from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import parse_properties
from gantry_wire.records.message_record import SYS_COMPRESSED, Record, build_record, decode_record
from gateway.grpc.codes import Refused, code_of
from gateway.grpc.messages.delivered import Delivery, delivered_part
from gateway.grpc.messages.property_rules import CONTROL, is_reserved
from gateway.grpc.messages.sent import Origin, Sent, sent_messages
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.duration import Duration, duration
from gateway.grpc.proto.enums import Code, DigestType, Encoding, MessageType
from gateway.grpc.proto.message import Digest, Message, SystemProperties
from gateway.grpc.proto.receiving import ReceiveMessageResponse
from gateway.grpc.proto.sending import SendMessageRequest
from gateway.grpc.proto.timestamp import Timestamp, timestamp
from gateway.http.problems import Problem
from gateway.messages.message_view import message as http_message

NOW_MS = 1_767_225_600_000
ORIGIN = Origin("", "10.0.0.9", NOW_MS, 40 * 86_400_000)
HOST = pack_host("127.0.0.1", 10911)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def plain(**system) -> Message:
    fields = {"message_id": "01AB", "body_encoding": Encoding.IDENTITY} | system
    return Message(topic=Resource(name="orders"), system_properties=SystemProperties(**fields), body=b"hi")


def sent(message: Message, origin: Origin = ORIGIN) -> Sent:
    (one,) = sent_messages(SendMessageRequest(messages=[message]), origin).messages
    return one


def stored(one: Sent, topic: str = "orders") -> Record:
    draft = one.draft
    born_ms = NOW_MS if draft.born_ms is None else draft.born_ms
    record = build_record(
        topic.encode(), 3, 7, 4096, draft.body, draft.properties.encode(), 0, draft.sys_flag, born_ms, HOST,
        NOW_MS + 5, HOST,
    )  # fmt: skip
    return decode_record(record)


def received(one: Sent, topic: Resource | None = None) -> Message:
    delivery = Delivery(topic or Resource(name="orders"), "handle", 2, duration(30_500))
    part = ReceiveMessageResponse.FromString(delivered_part(stored(one), delivery))
    assert part.WhichOneof("content") == "message"
    return part.message


def properties_of(one: Sent) -> dict[str, str]:
    return parse_properties(one.draft.properties)


def refusal(message: Message, origin: Origin = ORIGIN) -> Code:
    with pytest.raises((Refused, Problem)) as caught:
        sent(message, origin)
    return caught.value.code if isinstance(caught.value, Refused) else code_of(caught.value)


def without_control(least: int, most: int) -> st.SearchStrategy[str]:
    characters = st.characters(exclude_categories=("Cs", "Cc"))
    return st.text(characters, min_size=least, max_size=most).filter(lambda text: not CONTROL.search(text))


TEXT = without_control(1, 12).filter(lambda text: not text.isspace())
KEY = TEXT.filter(lambda text: " " not in text)
USERS = st.dictionaries(
    without_control(1, 8).filter(lambda name: not is_reserved(name) and name != "traceparent"),
    without_control(1, 12),
    max_size=4,
)
OPTIONAL = {
    "tag": TEXT.filter(lambda tag: "|" not in tag),
    "message_group": TEXT.filter(lambda group: len(group.encode()) < 64),
    "trace_context": TEXT | st.just(TRACE),
    "lite_topic": TEXT,
    "delivery_timestamp": st.integers(1, NOW_MS + 86_400_000).map(timestamp),
    "born_timestamp": st.integers(1, 253_402_300_799_999).map(timestamp),
    "born_host": TEXT,
    "keys": st.lists(KEY, max_size=4),
}


@given(
    st.fixed_dictionaries({"message_id": TEXT}, optional=OPTIONAL),
    USERS,
    st.binary(min_size=1, max_size=40),
    st.booleans(),
)
def test_every_field_comes_back_as_it_was_sent(fields, users, body, is_packed):
    packed = gzip.compress(body) if is_packed else body
    encoding = Encoding.GZIP if is_packed else Encoding.IDENTITY
    message = Message(
        topic=Resource(name="orders"),
        user_properties=users,
        system_properties=SystemProperties(**fields, body_encoding=encoding),
        body=packed,
    )
    one = sent(Message.FromString(message.SerializeToString()))
    back = received(one)
    system = back.system_properties
    assert (dict(back.user_properties), back.body) == (users, body)
    assert back.topic == message.topic
    assert system.message_id == fields["message_id"] == one.draft.message_id
    for name in ("tag", "message_group", "trace_context", "lite_topic", "delivery_timestamp"):
        assert system.HasField(name) == (name in fields)
        if name in fields:
            assert getattr(system, name) == fields[name]
    assert list(system.keys) == fields.get("keys", [])
    assert system.born_host == fields.get("born_host", ORIGIN.host)
    assert system.born_timestamp == fields.get("born_timestamp", timestamp(NOW_MS))
    assert system.body_encoding == Encoding.IDENTITY
    assert system.body_digest.checksum == hashlib.md5(body).hexdigest().upper()
    assert system.message_type == one.type
    assert not system.HasField("priority")
    again = sent(Message(topic=back.topic, user_properties=dict(back.user_properties), body=body,
                         system_properties=SystemProperties(message_id="X")))  # fmt: skip
    assert again.type == MessageType.NORMAL, "a consumer may pass on what it received"


def test_a_delivered_message_has_all_that_clients_need():
    back = received(sent(plain(born_timestamp=timestamp(NOW_MS - 10))))
    system = back.system_properties
    assert (system.receipt_handle, system.delivery_attempt) == ("handle", 2)
    assert system.invisible_duration == duration(30_500)
    assert (system.queue_id, system.queue_offset) == (3, 7)
    assert (system.store_timestamp, system.store_host) == (timestamp(NOW_MS + 5), "127.0.0.1:10911")
    assert system.born_timestamp == timestamp(NOW_MS - 10)
    assert system.body_digest.type == DigestType.MD5


def test_a_consumer_sees_the_topic_as_it_names_it():
    topic = Resource(resource_namespace="ns", name="orders")
    assert received(sent(plain()), topic).topic == topic


@pytest.mark.parametrize(
    ("fields", "kind", "is_alone"),
    [
        ({}, MessageType.NORMAL, False),
        ({"message_group": "g"}, MessageType.FIFO, False),
        ({"delivery_timestamp": timestamp(NOW_MS + 1000)}, MessageType.DELAY, True),
        ({"delivery_timestamp": timestamp(1), "message_group": "g"}, MessageType.DELAY, True),
        ({"message_type": MessageType.TRANSACTION}, MessageType.TRANSACTION, True),
        ({"message_type": MessageType.TRANSACTION, "message_group": "g"}, MessageType.TRANSACTION, True),
        ({"priority": 0}, MessageType.PRIORITY, True),
        ({"priority": 7, "lite_topic": "l"}, MessageType.PRIORITY, True),
        ({"lite_topic": "l"}, MessageType.LITE, False),
        ({"message_type": MessageType.FIFO}, MessageType.NORMAL, False),
        ({"message_type": 99}, MessageType.NORMAL, False),
    ],
)
def test_the_type_is_that_of_the_fields(fields, kind, is_alone):
    one = sent(plain(**fields))
    assert (one.type, one.draft.is_alone) == (kind, is_alone)
    assert one.draft.is_free == ("message_group" not in fields)
    assert one.draft.hash_key == fields.get("message_group")
    assert received(one).system_properties.message_type == kind


def test_the_properties_are_those_of_rocketmq():
    one = sent(
        plain(
            tag="T", keys=["a", "b"], message_group="g", trace_context=TRACE, born_host="host",
            delivery_timestamp=timestamp(NOW_MS + 1), born_timestamp=timestamp(77),
        )
    )  # fmt: skip
    assert properties_of(one) == {
        "UNIQ_KEY": "01AB", "TAGS": "T", "KEYS": "a b", "__SHARDINGKEY": "g", "TRACE_CONTEXT": TRACE,
        "traceparent": TRACE, "TIMER_DELIVER_MS": str(NOW_MS + 1), "__BORNHOST": "host",
    }  # fmt: skip
    assert one.draft.born_ms == 77
    seconds = Duration(seconds=30)
    half = sent(plain(message_type=MessageType.TRANSACTION, orphaned_transaction_recovery_duration=seconds))
    assert properties_of(half) == {
        "UNIQ_KEY": "01AB", "TRAN_MSG": "true", "PGROUP": "orders", "CHECK_IMMUNITY_TIME_IN_SECONDS": "30",
        "__BORNHOST": "10.0.0.9",
    }  # fmt: skip
    assert received(half).system_properties.orphaned_transaction_recovery_duration == seconds
    assert properties_of(sent(plain(priority=3)))["_SYS_MSG_PRIORITY_"] == "3"
    assert properties_of(sent(plain(lite_topic="l")))["__LITE_TOPIC"] == "l"
    assert "_SYS_MSG_PRIORITY_" not in properties_of(sent(plain(priority=3, message_group="g")))


def test_http_reads_what_grpc_sent():
    message = plain(tag="T", keys=["a"], message_group="g", trace_context=TRACE)
    message.user_properties["color"] = "red"
    shown = http_message(stored(sent(message)), "broker-a")
    assert (shown.message_id, shown.tag, shown.keys, shown.sharding_key) == ("01AB", "T", ["a"], "g")
    assert shown.properties == {"color": "red", "traceparent": TRACE}
    message.user_properties["traceparent"] = "mine"
    assert http_message(stored(sent(message)), "broker-a").properties["traceparent"] == "mine"


def test_a_namespace_is_part_of_the_topic():
    message = plain(message_type=MessageType.TRANSACTION)
    request = SendMessageRequest(messages=[message])
    found = sent_messages(request, ORIGIN._replace(namespace="ns"))
    assert found.topic == "ns%orders"
    assert properties_of(found.messages[0])["PGROUP"] == "ns%orders"


def test_a_time_that_no_record_can_hold_is_now():
    for born in (timestamp(0), timestamp(-5), Timestamp(seconds=2**62), Timestamp(seconds=-(2**62))):
        assert sent(plain(born_timestamp=born)).draft.born_ms is None


def test_a_compressed_body_is_stored_as_sent():
    message = plain(body_encoding=Encoding.GZIP)
    message.body = gzip.compress(b"hello")
    one = sent(message)
    assert (one.draft.sys_flag, one.draft.is_alone, one.draft.body) == (SYS_COMPRESSED, True, message.body)
    assert http_message(stored(one), "b").body == "hello"


@pytest.mark.parametrize(
    ("kind", "checksum"),
    [
        (DigestType.MD5, hashlib.md5(b"hi").hexdigest().upper()),
        (DigestType.SHA1, hashlib.sha1(b"hi").hexdigest()),
        (DigestType.CRC32, f"{zlib.crc32(b'hi'):08X}"),
        (DigestType.CRC32, str(zlib.crc32(b"hi"))),
        (DigestType.CRC32, ""),
        (9, "anything"),
        (0, "anything"),
    ],
)
def test_a_true_digest_passes(kind, checksum):
    assert sent(plain(body_digest=Digest(type=kind, checksum=checksum))).draft.body == b"hi"


LONG = "x" * 16_384
INVALID = {
    "digest md5": (plain(body_digest=Digest(type=DigestType.MD5, checksum="00")), Code.MESSAGE_CORRUPTED),
    "digest sha1": (plain(body_digest=Digest(type=DigestType.SHA1, checksum="00")), Code.MESSAGE_CORRUPTED),
    "digest crc32": (plain(body_digest=Digest(type=DigestType.CRC32, checksum="00")), Code.MESSAGE_CORRUPTED),
    "encoding": (plain(body_encoding=3), Code.UNSUPPORTED),
    "tag blank": (plain(tag=" "), Code.ILLEGAL_MESSAGE_TAG),
    "tag bar": (plain(tag="a|b"), Code.ILLEGAL_MESSAGE_TAG),
    "tag control": (plain(tag="a\x02b"), Code.ILLEGAL_MESSAGE_TAG),
    "key blank": (plain(keys=["a", " "]), Code.ILLEGAL_MESSAGE_KEY),
    "key control": (plain(keys=["a\x01"]), Code.ILLEGAL_MESSAGE_KEY),
    "too large": (plain(keys=[LONG, "y"]), Code.MESSAGE_PROPERTIES_TOO_LARGE),
    "id missing": (plain(message_id=""), Code.ILLEGAL_MESSAGE_ID),
    "id blank": (plain(message_id=" "), Code.ILLEGAL_MESSAGE_ID),
    "id control": (plain(message_id="a\x01"), Code.ILLEGAL_MESSAGE_ID),
    "id too long": (plain(message_id="é" * 17_000), Code.MESSAGE_PROPERTIES_TOO_LARGE),
    "recovery": (
        plain(
            message_type=MessageType.TRANSACTION,
            orphaned_transaction_recovery_duration=Duration(seconds=3601),
        ),
        Code.BAD_REQUEST,
    ),
    "recovery negative": (
        plain(
            message_type=MessageType.TRANSACTION,
            orphaned_transaction_recovery_duration=Duration(seconds=-1),
        ),
        Code.BAD_REQUEST,
    ),
    "delivery": (
        plain(delivery_timestamp=timestamp(NOW_MS + ORIGIN.delay_horizon_ms + 1)),
        Code.ILLEGAL_DELIVERY_TIME,
    ),
    "delivery far": (plain(delivery_timestamp=Timestamp(seconds=2**62)), Code.ILLEGAL_DELIVERY_TIME),
    "group blank": (plain(message_group=" "), Code.ILLEGAL_MESSAGE_GROUP),
    "group long": (plain(message_group="g" * 64), Code.ILLEGAL_MESSAGE_GROUP),
    "group long in bytes": (plain(message_group="é" * 32), Code.ILLEGAL_MESSAGE_GROUP),
    "group control": (plain(message_group="\x85"), Code.ILLEGAL_MESSAGE_GROUP),
    "priority": (plain(priority=-1), Code.BAD_REQUEST),
    "lite blank": (plain(lite_topic=""), Code.ILLEGAL_LITE_TOPIC),
    "lite long": (plain(lite_topic="l" * 65), Code.ILLEGAL_LITE_TOPIC),
    "lite control": (plain(lite_topic="a\x01"), Code.ILLEGAL_LITE_TOPIC),
    "trace control": (plain(trace_context="a\x01"), Code.BAD_REQUEST),
    "host control": (plain(born_host="a\x02"), Code.BAD_REQUEST),
}


@pytest.mark.parametrize("name", list(INVALID))
def test_an_invalid_field_has_its_code(name):
    message, code = INVALID[name]
    assert refusal(message) == code


@pytest.mark.parametrize("size", [0, BODY_BYTES_MAX, BODY_BYTES_MAX + 1])
def test_the_size_of_a_body(size):
    message = plain()
    message.body = b"x" * size
    if size == BODY_BYTES_MAX:
        assert sent(message).draft.body == message.body
    else:
        assert refusal(message) == (Code.MESSAGE_BODY_TOO_LARGE if size else Code.MESSAGE_BODY_EMPTY)


@pytest.mark.parametrize(
    ("users", "code"),
    [
        ({str(n): "v" for n in range(129)}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"UNIQ_KEY": "v"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"_SYS_MSG_PRIORITY_": "1"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"__SHARDINGKEY": "g"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"__GANTRY_REASON": "g"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"__GANTRY_KEY": "ü" * 51}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"a\x01": "v"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"a": "v\n"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"a": "x" * 16_384}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
    ],
)
def test_an_invalid_user_property_has_its_code(users, code):
    message = plain()
    message.user_properties.update(users)
    assert refusal(message) == code


def test_what_just_fits_passes():
    message = plain(tag="t" * 100)
    message.user_properties.update({f"{n:04}": "v" * 12 for n in range(127)})
    message.user_properties["a"] = "x" * (16_384 - 127 * 16 - 101)
    assert sent(message).type == MessageType.NORMAL
    message.system_properties.keys.append("k")
    assert refusal(message) == Code.MESSAGE_PROPERTIES_TOO_LARGE
    assert sent(plain(message_group="g" * 63, lite_topic="l" * 64)).type == MessageType.FIFO


def test_a_users_own_name_with_underscores_passes_and_an_empty_value_is_not_stored():
    message = plain()
    message.user_properties.update({"__mine": "1", "empty": ""})
    assert dict(received(sent(message)).user_properties) == {"__mine": "1"}


def test_a_request_is_for_one_topic():
    def code(*messages: Message) -> Code:
        with pytest.raises(Refused) as caught:
            sent_messages(SendMessageRequest(messages=messages), ORIGIN)
        return caught.value.code

    other, system, none = plain(), plain(), plain()
    other.topic.name = "others"
    system.topic.name = "RMQ_SYS_TRANS_HALF_TOPIC"
    none.ClearField("topic")
    assert code() == Code.MESSAGE_CORRUPTED
    assert code(plain(), other) == Code.MESSAGE_CORRUPTED
    assert code(system) == code(none) == Code.ILLEGAL_TOPIC
    assert code(*[plain()] * 1001) == Code.PAYLOAD_TOO_LARGE
    both = sent_messages(SendMessageRequest(messages=[plain(), plain(message_id="02")]), ORIGIN)
    assert [one.draft.place for one in both.messages] == [0, 1]


def test_the_first_of_several_faults_has_its_code():
    """The order is RocketMQ's: body, user properties, tag, keys, their size, id, transaction, delay, group."""
    message = plain(
        tag=" ", keys=[" "], message_id="", message_type=MessageType.TRANSACTION, message_group=" ",
        orphaned_transaction_recovery_duration=Duration(seconds=3601),
        delivery_timestamp=Timestamp(seconds=2**40), priority=-1, lite_topic="", trace_context="\x01",
    )  # fmt: skip
    message.body = b""
    message.user_properties["TAGS"] = "x"
    system = message.system_properties
    found = [refusal(message)]
    message.body = b"x"
    found.append(refusal(message))
    message.user_properties.clear()
    message.user_properties["a"] = LONG
    for name in ("tag", "keys"):
        found.append(refusal(message))
        system.ClearField(name)
    found.append(refusal(message))
    message.user_properties.clear()
    found.append(refusal(message))
    system.message_id = "1"
    for name in (
        "orphaned_transaction_recovery_duration", "delivery_timestamp", "message_group", "lite_topic", "trace_context",
    ):  # fmt: skip
        found.append(refusal(message))
        system.ClearField(name)
    assert found == [
        Code.MESSAGE_BODY_EMPTY, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, Code.ILLEGAL_MESSAGE_TAG,
        Code.ILLEGAL_MESSAGE_KEY, Code.MESSAGE_PROPERTIES_TOO_LARGE, Code.ILLEGAL_MESSAGE_ID, Code.BAD_REQUEST,
        Code.ILLEGAL_DELIVERY_TIME, Code.ILLEGAL_MESSAGE_GROUP, Code.ILLEGAL_LITE_TOPIC, Code.BAD_REQUEST,
    ]  # fmt: skip
    assert sent(message).type == MessageType.TRANSACTION
