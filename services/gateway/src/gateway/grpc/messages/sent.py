"""A producer's messages as drafts: checks them in the order and with the codes of RocketMQ's proxy. Pure.

The protocol's fields are stored as the properties that RocketMQ stores, so every client reads them, over any protocol.
"""

import hashlib
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from gantry_wire.limits import BODY_BYTES_MAX
from gantry_wire.messages import properties as p
from gantry_wire.records.message_record import SYS_COMPRESSED
from gateway.grpc.codes import Refused
from gateway.grpc.messages.checked_names import topic_of
from gateway.grpc.messages.property_rules import CONTROL, is_reserved
from gateway.grpc.proto.duration import duration_ms
from gateway.grpc.proto.enums import Code, DigestType, Encoding, MessageType
from gateway.grpc.proto.message import Digest, Message, SystemProperties
from gateway.grpc.proto.sending import SendMessageRequest
from gateway.grpc.proto.timestamp import timestamp_ms
from gateway.http.trace import trace_properties
from gateway.messages.schemas import IDEMPOTENCY_KEY_BYTES_MAX, MessageIn
from gateway.requests.limits import CLIENT_PROPERTIES_BYTES_MAX, MESSAGES_MAX
from gateway.send.delays import checked_instant
from gateway.send.drafts import SHORT_CHARS, Draft

USER_PROPERTIES_MAX = 128
USER_BYTES_MAX = 16 * 1024
"""Of UTF-8: names and values of user properties, tag and keys together."""
MESSAGE_GROUP_BYTES_END = 64
LITE_TOPIC_CHARS_MAX = 64
RECOVERY_SECONDS_MAX = 3600
"""Longest delay before the first check of a transaction."""
TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of a Timestamp."""
TRACEPARENT = "traceparent"
_FREE = MessageIn()
"""Of a message without a group: any queue may take it."""
_ALONE = frozenset({MessageType.TRANSACTION, MessageType.DELAY, MessageType.PRIORITY})
"""Types that no batch takes: the store selects their queue."""
_HEX: dict[int, Callable[[bytes], str]] = {
    DigestType.MD5: lambda body: hashlib.md5(body, usedforsecurity=False).hexdigest(),
    DigestType.SHA1: lambda body: hashlib.sha1(body, usedforsecurity=False).hexdigest(),
}


class Origin(NamedTuple):
    """What messages do not say themselves."""

    namespace: str
    host: str
    """The sender's address, for messages without one."""
    now_ms: int
    delay_horizon_ms: int


class Sent(NamedTuple):
    """A checked message and its type by its fields, which has to be the topic's."""

    draft: Draft
    type: MessageType


class SentMessages(NamedTuple):
    """The messages of a request, all for one topic."""

    topic: str
    messages: list[Sent]


def sent_messages(request: SendMessageRequest, origin: Origin) -> SentMessages:
    """Check a request. Raises Refused, or the Problem of a time beyond the horizon, for the first message that is invalid."""
    messages = request.messages
    if not messages:
        raise Refused(Code.MESSAGE_CORRUPTED, "there is no message to send")
    if len(messages) > MESSAGES_MAX:
        raise Refused(Code.PAYLOAD_TOO_LARGE, f"there are over {MESSAGES_MAX} messages")
    first = messages[0].topic
    topic = topic_of(first, origin.namespace)
    sent: list[Sent] = []
    for place, message in enumerate(messages):
        if place and message.topic != first:
            raise Refused(Code.MESSAGE_CORRUPTED, "the messages of one request are for one topic")
        sent.append(_sent(message, place, topic, origin))
    return SentMessages(topic, sent)


def _sent(message: Message, place: int, topic: str, origin: Origin) -> Sent:
    system, body = message.system_properties, message.body
    sys_flag = _body_flag(body, system)
    users = _user_properties(message.user_properties, system)
    message_id = system.message_id
    if not message_id or message_id.isspace() or CONTROL.search(message_id):
        raise Refused(Code.ILLEGAL_MESSAGE_ID, "the message id is blank or holds a control character")
    kind, item, typed = _typed(system, topic, origin)
    if key := message.user_properties.get(p.GANTRY_KEY, ""):
        item = _keyed(item, key)
    text = f"{p.UNIQ_KEY}\x01{message_id}\x02{users}{typed}{_origin(message, system, origin)}"
    if len(text) > SHORT_CHARS and len(text.encode()) > CLIENT_PROPERTIES_BYTES_MAX:
        detail = f"the properties take over {CLIENT_PROPERTIES_BYTES_MAX} bytes with those of the system"
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, detail)
    draft = Draft(
        item,
        body,
        text,
        message_id,
        place,
        _own_name,
        is_free=item is _FREE,
        is_alone=bool(sys_flag) or kind in _ALONE,
        sys_flag=sys_flag,
        born_ms=_born_ms(system),
    )
    return Sent(draft, kind)


def _own_name(_place: int, field: str) -> str:
    """Problems keep the gateway's names of fields: they select the code of a status."""
    return field


def _body_flag(body: bytes, system: SystemProperties) -> int:
    """Check the body; return the record's system flag for its encoding."""
    if not body:
        raise Refused(Code.MESSAGE_BODY_EMPTY, "the message has no body")
    if len(body) > BODY_BYTES_MAX:
        raise Refused(
            Code.MESSAGE_BODY_TOO_LARGE, f"the body has {len(body)} bytes, the limit is {BODY_BYTES_MAX}"
        )
    if system.HasField("body_digest") and not _is_digest(system.body_digest, body):
        raise Refused(Code.MESSAGE_CORRUPTED, "the body does not have the digest that the message states")
    encoding = system.body_encoding
    if encoding > Encoding.GZIP:
        raise Refused(Code.UNSUPPORTED, f"the body has the unknown encoding {encoding}")
    return SYS_COMPRESSED if encoding == Encoding.GZIP else 0


def _is_digest(digest: Digest, body: bytes) -> bool:
    """Return whether a digest is the body's. RocketMQ's clients write CRC32 as hexadecimal or decimal, and some no digest at all."""
    stated = digest.checksum.lower()
    if not stated:
        return True
    if digest.type == DigestType.CRC32:
        crc = crc32(body)
        return stated in {f"{crc:x}", f"{crc:08x}", str(crc)}
    make = _HEX.get(digest.type)
    return make is None or stated == make(body)


def _user_properties(users: dict[str, str], system: SystemProperties) -> str:
    """Check and encode user properties, tag and keys. RocketMQ's readers ignore a property without name or value: none is stored."""
    if len(users) > USER_PROPERTIES_MAX:
        detail = f"there are over {USER_PROPERTIES_MAX} user properties"
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, detail)
    text, size = "", 0
    for name, value in users.items():
        if is_reserved(name) and name != p.GANTRY_KEY:
            raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name} belongs to the system")
        if CONTROL.search(name) or CONTROL.search(value):
            detail = f"property {name!r} holds a control character"
            raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, detail)
        size += len(name.encode()) + len(value.encode())
        if name and value:
            text += f"{name}\x01{value}\x02"
    labels, labels_size = _labels(system)
    size += labels_size
    if size > USER_BYTES_MAX:
        detail = f"user properties, tag and keys take {size} bytes, the limit is {USER_BYTES_MAX}"
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, detail)
    return text + labels


def _labels(system: SystemProperties) -> tuple[str, int]:
    """Check and encode tag and keys; return their bytes of UTF-8, too."""
    text, size = "", 0
    if tag := system.tag:
        if tag.isspace() or "|" in tag or CONTROL.search(tag):
            raise Refused(Code.ILLEGAL_MESSAGE_TAG, "the tag is blank, or holds | or a control character")
        size = len(tag.encode())
        text = f"{p.TAGS}\x01{tag}\x02"
    keys = [key for key in system.keys if key]
    if not keys:
        return text, size
    joined = " ".join(keys)
    if CONTROL.search(joined) or any(key.isspace() for key in keys):
        raise Refused(Code.ILLEGAL_MESSAGE_KEY, "a key is blank or holds a control character")
    return f"{text}{p.KEYS}\x01{joined}\x02", size + len(joined.encode()) - len(keys) + 1


def _typed(system: SystemProperties, topic: str, origin: Origin) -> tuple[MessageType, MessageIn, str]:
    """Return a message's type, what chooses its queue, and the properties of its type.

    Of several types a message has the first in RocketMQ's order: transaction, delay, order, priority, lite.
    """
    kind: MessageType | None = None
    item, text = _FREE, ""
    if system.message_type == MessageType.TRANSACTION:
        kind, text = MessageType.TRANSACTION, _transaction(system, topic)
    if system.HasField("delivery_timestamp"):
        kind = kind or MessageType.DELAY
        wanted_ms = timestamp_ms(system.delivery_timestamp)
        deliver_ms = checked_instant(wanted_ms, origin.now_ms, origin.delay_horizon_ms, "deliverAt")
        text += f"{p.TIMER_DELIVER_MS}\x01{deliver_ms}\x02"
    if group := system.message_group:
        kind, item = kind or MessageType.FIFO, MessageIn(sharding_key=_checked_group(group))
        text += f"{p.SHARDING_KEY}\x01{group}\x02"
    if (
        system.HasField("priority") and kind is None
    ):  # RocketMQ's broker, too, drops the priority of another type
        kind, text = MessageType.PRIORITY, _priority(system.priority)
    if system.HasField("lite_topic"):
        kind, text = kind or MessageType.LITE, text + _lite(system.lite_topic)
    return kind or MessageType.NORMAL, item, text


def _transaction(system: SystemProperties, topic: str) -> str:
    """Return the properties of a half message. Its producer group is the topic: producers have no group in this protocol."""
    text = f"{p.TRANSACTION_PREPARED}\x01true\x02{p.PRODUCER_GROUP}\x01{topic}\x02"
    if not system.HasField("orphaned_transaction_recovery_duration"):
        return text
    seconds = duration_ms(system.orphaned_transaction_recovery_duration) // 1000
    if not 0 <= seconds <= RECOVERY_SECONDS_MAX:
        limit = f"0 to {RECOVERY_SECONDS_MAX} s"
        raise Refused(Code.BAD_REQUEST, f"orphaned_transaction_recovery_duration is {seconds} s, not {limit}")
    return f"{text}{p.CHECK_IMMUNITY_TIME}\x01{seconds}\x02" if seconds else text


def _keyed(item: MessageIn, key: str) -> MessageIn:
    """Return what chooses the queue of a message with an idempotency key: a repeat has to find its original."""
    if len(key.encode()) > IDEMPOTENCY_KEY_BYTES_MAX:
        detail = f"the idempotency key {p.GANTRY_KEY} has over {IDEMPOTENCY_KEY_BYTES_MAX} bytes of UTF-8"
        raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, detail)
    return MessageIn(sharding_key=item.sharding_key, idempotency_key=key)


def _checked_group(group: str) -> str:
    size = len(group.encode())
    if group.isspace() or CONTROL.search(group):
        raise Refused(Code.ILLEGAL_MESSAGE_GROUP, "the message group is blank or holds a control character")
    if size >= MESSAGE_GROUP_BYTES_END:
        detail = f"the message group has {size} bytes, the limit is {MESSAGE_GROUP_BYTES_END - 1}"
        raise Refused(Code.ILLEGAL_MESSAGE_GROUP, detail)
    return group


def _priority(priority: int) -> str:
    if priority < 0:
        raise Refused(Code.BAD_REQUEST, f"the priority is {priority}, it may not be negative")
    return f"{p.PRIORITY}\x01{priority}\x02"


def _lite(lite_topic: str) -> str:
    if not lite_topic or lite_topic.isspace() or CONTROL.search(lite_topic):
        raise Refused(Code.ILLEGAL_LITE_TOPIC, "the lite topic is blank or holds a control character")
    if len(lite_topic) > LITE_TOPIC_CHARS_MAX:
        detail = f"the lite topic has {len(lite_topic)} characters, the limit is {LITE_TOPIC_CHARS_MAX}"
        raise Refused(Code.ILLEGAL_LITE_TOPIC, detail)
    return f"{p.LITE_TOPIC}\x01{lite_topic}\x02"


def _origin(message: Message, system: SystemProperties, origin: Origin) -> str:
    """Return the properties of the sender's host and trace. A W3C trace is stored as HTTP stores it, too."""
    host, trace = system.born_host, system.trace_context
    if CONTROL.search(host) or CONTROL.search(trace):
        raise Refused(Code.BAD_REQUEST, "born_host or trace_context holds a control character")
    if not host or host.isspace():
        host = origin.host
    text = f"{p.BORN_HOST}\x01{host}\x02" if host else ""
    if trace:
        text += f"{p.TRACE_CONTEXT}\x01{trace}\x02"
        if TRACEPARENT not in message.user_properties:
            text += trace_properties({b"traceparent": trace.encode()})
    return text


def _born_ms(system: SystemProperties) -> int | None:
    """Return the client's time of birth; None, which means now, for one that no record can hold."""
    if not system.HasField("born_timestamp"):
        return None
    born_ms = timestamp_ms(system.born_timestamp)
    return born_ms if 0 < born_ms <= TIME_MS_MAX else None
