"""Messages to send and received messages, queues, and the result of a send. Independent of connections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from gantry_wire.messages.properties import (
    DELAY,
    KEYS,
    RETRY_TOPIC,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    TRANSACTION_ID,
    UNIQ_KEY,
    WAIT,
    parse_properties,
)
from gantry_wire.records.message_record import Record
from gantrymq.errors import InvalidMessage
from gantrymq.formats.compression import decompress
from gantrymq.formats.namespaces import unwrap

DELAY_LEVEL_MAX = 18
DELAY_SECONDS_MAX = 10**9
"""Some 31 years: no broker accepts more; Gantry's accepts 40 days by default."""
_FLAG_MAX = 2**31 - 1
_TIME_MS_MAX = 2**63 - 1
KEY_SEPARATOR = " "
RESERVED = frozenset({KEYS, TAGS, WAIT, DELAY, UNIQ_KEY, SHARDING_KEY, TIMER_DELAY_MS, TIMER_DELIVER_MS})
"""Properties set by the arguments of a message, never by `properties`."""


class MessageQueue(NamedTuple):
    """A queue of a topic on a broker. Sorted as RocketMQ's rebalance sorts: topic, broker, number."""

    topic: str
    broker: str
    queue_id: int


class SendStatus(StrEnum):
    """The durability of a stored message. All four mean that it is in the log."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """The result of a stored message."""

    message_id: str
    """The unique id from its producer."""
    queue: MessageQueue
    queue_offset: int
    offset_message_id: str
    """Its place in the broker's log, in the form that `gantrymq message show` takes."""
    status: SendStatus = SendStatus.SEND_OK
    transaction_id: str | None = None
    recall_handle: str | None = None
    """For a delayed message: `producer.cancel(result)` cancels it until its delivery."""
    region: str | None = None
    trace_on: bool = True
    duplicate: bool = False
    """Gantry answered from its idempotency window: the message was stored before."""


class Message:
    """A message to send. Arguments of a wrong type or size are refused here, or at the latest before it is sent.

    `keys` are for finding it; consumers filter by `tag`. At most one of `delay_level` (1 to 18),
    `delay` (seconds) and `deliver_at` (a datetime with a zone, or ms since 1970) sets its delivery time.
    Messages of one `sharding_key` go to one queue, in the order they are sent. `wait_stored` False: the answer
    does not wait for the disk.
    """

    __slots__ = (
        "body",
        "delay_level",
        "delay_ms",
        "deliver_at_ms",
        "flag",
        "keys",
        "properties",
        "sharding_key",
        "tag",
        "topic",
        "unique_id",
        "wait_stored",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - each is a part of a message
        self,
        topic: str,
        body: bytes,
        *,
        tag: str | None = None,
        keys: str | Iterable[str] = (),
        sharding_key: str | None = None,
        delay_level: int = 0,
        delay: float | None = None,
        deliver_at: datetime | int | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        wait_stored: bool = True,
    ) -> None:
        self.topic: str = topic
        self.body: bytes = body
        self.tag: str | None = tag
        self.keys: str = _joined(keys) if keys else ""
        self.sharding_key: str | None = sharding_key
        self.delay_level: int = delay_level
        self.delay_ms: int | None = None
        self.deliver_at_ms: int | None = None
        self.properties: dict[str, str] | None = None
        self.flag: int = flag
        self.wait_stored: bool = wait_stored
        self.unique_id: str | None = None
        """Set at the first send, and kept at repeats, so that duplicates can be recognized."""
        if type(topic) is not str or not topic:
            raise InvalidMessage("topic", f"must be a name, not {topic!r}")
        if type(body) is not bytes:
            raise InvalidMessage("body", f"bytes, not {type(body).__name__}; text needs .encode()")
        if tag is not None or sharding_key is not None or properties or flag:
            self._check_texts(properties)
        if delay_level or delay is not None or deliver_at is not None:
            self._set_time(delay, deliver_at)

    @property
    def is_timed(self) -> bool:
        """Whether it is delayed."""
        return self.delay_level != 0 or self.delay_ms is not None or self.deliver_at_ms is not None

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {len(self.body)} bytes, tag={self.tag!r}, keys={self.keys!r})"

    def _check_texts(self, properties: Mapping[str, str] | None) -> None:
        for field, value in (("tag", self.tag), ("sharding_key", self.sharding_key)):
            if value is not None and (not isinstance(value, str) or not value):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidMessage(field, f"must be text of at least one character, not {value!r}")
        if self.tag is not None and "||" in self.tag:
            raise InvalidMessage("tag", "one tag; `||` separates tags only in subscriptions")
        check_flag(self.flag)
        if properties:
            self.properties = dict(properties)
            for key, value in self.properties.items():
                check_property(key, value)

    def _set_time(self, delay: float | None, deliver_at: datetime | int | None) -> None:
        if bool(self.delay_level) + (delay is not None) + (deliver_at is not None) > 1:
            raise InvalidMessage("delay", "give one of delay_level, delay and deliver_at")
        level = self.delay_level
        if isinstance(level, bool) or not isinstance(level, int) or not 0 <= level <= DELAY_LEVEL_MAX:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidMessage("delay_level", f"0 (none) to {DELAY_LEVEL_MAX}, not {level!r}")
        if delay is not None:
            is_number = isinstance(delay, int | float) and not isinstance(delay, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
            if not is_number or not 0 <= delay <= DELAY_SECONDS_MAX:
                raise InvalidMessage(
                    "delay", f"must be seconds from now, 0 to {DELAY_SECONDS_MAX}, not {delay!r}"
                )
            self.delay_ms = round(delay * 1000)
        if isinstance(deliver_at, datetime):
            if deliver_at.tzinfo is None:
                raise InvalidMessage("deliver_at", "a datetime with a time zone, as datetime.now(UTC)")
            self.deliver_at_ms = round(deliver_at.timestamp() * 1000)
        elif deliver_at is not None:
            if isinstance(deliver_at, bool) or not isinstance(deliver_at, int):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidMessage(
                    "deliver_at", f"must be a datetime, or ms since 1970, not {deliver_at!r}"
                )
            self.deliver_at_ms = deliver_at
        if self.deliver_at_ms is not None and not 0 <= self.deliver_at_ms <= _TIME_MS_MAX:
            raise InvalidMessage("deliver_at", f"must be an instant from 1970 on, not {deliver_at!r}")


def check_flag(flag: object) -> None:
    """Raise InvalidMessage unless it is a valid flag of a message."""
    if not isinstance(flag, int) or isinstance(flag, bool) or abs(flag) > _FLAG_MAX:
        raise InvalidMessage("flag", f"must be a whole number of 32 bits, not {flag!r}")


def check_message(message: object) -> None:
    """Raise InvalidMessage unless it is a message to send."""
    if not isinstance(message, Message):
        raise InvalidMessage("message", f"must be a gantrymq.Message, not {type(message).__name__}")


def check_property(key: object, value: object) -> None:
    """Raise InvalidMessage unless a user may set this property."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise InvalidMessage("properties", f"must be text by text, not {key!r}: {value!r}")
    if not key or not value:
        raise InvalidMessage(
            "properties", f"{key!r}: neither name nor value may be empty (brokers drop such)"
        )
    if key in RESERVED:
        raise InvalidMessage("properties", f"{key} is set by an argument of the message, not here")


def _joined(keys: str | Iterable[str]) -> str:
    """Return keys in their wire form: separated by blanks, so that none can contain one."""
    parts = [keys] if isinstance(keys, str) else list(keys)
    for key in parts:
        if not isinstance(key, str) or not key:  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
            raise InvalidMessage(
                "keys", f"one text, or a list of texts of at least one character, not {key!r}"
            )
        if " " in key:
            raise InvalidMessage(
                "keys",
                f"{key!r} contains a blank, which separates keys: give several keys as a list, and one without blanks",
            )
    return " ".join(parts)


class ReceivedMessage:
    """A consumed message. Body and properties are decoded when first used."""

    __slots__ = ("_body", "_properties", "_topic", "broker", "namespace", "reconsume_times", "record")

    def __init__(self, record: Record, broker: str, *, namespace: str = "", topic: str | None = None) -> None:
        """Take the record; a known `topic` is not read from it."""
        self.record: Record = record
        self.broker: str = broker
        self.namespace: str = namespace
        self.reconsume_times: int = record.reconsume_times
        self._topic = topic
        self._body: bytes | None = None
        self._properties: dict[str, str] | None = None

    @property
    def topic(self) -> str:
        """The topic it was sent to, even if it comes from a group's retry topic."""
        if self._topic is None:
            topic = self.properties.get(RETRY_TOPIC) or self.record.topic.decode(errors="replace")
            self._topic = unwrap(self.namespace, topic)
        return self._topic

    @property
    def stored_topic(self) -> str:
        """The topic it was read from."""
        return self.record.topic.decode(errors="replace")

    @property
    def queue(self) -> MessageQueue:
        """The queue it was read from."""
        return MessageQueue(unwrap(self.namespace, self.stored_topic), self.broker, self.record.queue_id)

    @property
    def body(self) -> bytes:
        """The body as sent, decompressed; UnreadableBody if that is impossible."""
        if self._body is None:
            self._body = decompress(self.record.body, self.record.sys_flag)
        return self._body

    @property
    def properties(self) -> dict[str, str]:
        """All properties, including the broker's."""
        if self._properties is None:
            self._properties = parse_properties(self.record.properties.decode(errors="replace"))
        return self._properties

    @property
    def message_id(self) -> str:
        """The unique id from its producer, else its place in the log."""
        return self.properties.get(UNIQ_KEY) or self.record.message_id

    @property
    def offset_message_id(self) -> str:
        """Its place in the broker's log, as text."""
        return self.record.message_id

    @property
    def tag(self) -> str | None:
        """Its tag."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        """Its keys."""
        return [key for key in self.properties.get(KEYS, "").split(KEY_SEPARATOR) if key]

    @property
    def sharding_key(self) -> str | None:
        """The key whose messages are in order."""
        return self.properties.get(SHARDING_KEY)

    @property
    def transaction_id(self) -> str | None:
        """The id of its transaction."""
        return self.properties.get(TRANSACTION_ID) or self.properties.get(UNIQ_KEY)

    @property
    def queue_id(self) -> int:
        """The number of the queue it was read from."""
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        """Its offset in the queue."""
        return self.record.queue_offset

    @property
    def position(self) -> int:
        """Its position in the broker's log."""
        return self.record.position

    @property
    def flag(self) -> int:
        """The number that its producer set."""
        return self.record.flag

    @property
    def born_timestamp_ms(self) -> int:
        """The time of its creation, by the producer's clock (ms since 1970)."""
        return self.record.born_timestamp

    @property
    def store_timestamp_ms(self) -> int:
        """The time it was stored, by the broker's clock (ms since 1970)."""
        return self.record.store_timestamp

    @property
    def born_host(self) -> str:
        """The address of the producer."""
        return "{}:{}".format(*self.record.born_address)

    @property
    def store_host(self) -> str:
        """The address of the broker that stored it."""
        return "{}:{}".format(*self.record.store_address)

    def __repr__(self) -> str:
        return (
            f"ReceivedMessage({self.topic!r}, queue {self.broker}:{self.queue_id} at {self.queue_offset}, "
            f"tag={self.tag!r}, reconsumed {self.reconsume_times})"
        )
