"""Messages as users give and get them, queues, and what became of a send. Knows no connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from gantry.errors import InvalidMessage
from gantry.formats.compression import decompress
from gantry.formats.namespaces import unwrap
from gantry_wire.properties import (
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
from gantry_wire.record import Record

DELAY_LEVEL_MAX = 18
DELAY_SECONDS_MAX = 10**9
"""Some 31 years: no broker takes more, Gantry's takes 40 days unless it is set otherwise."""
_FLAG_MAX = 2**31 - 1
_TIME_MS_MAX = 2**63 - 1
KEY_SEPARATOR = " "
RESERVED = frozenset({KEYS, TAGS, WAIT, DELAY, UNIQ_KEY, SHARDING_KEY, TIMER_DELAY_MS, TIMER_DELIVER_MS})
"""Properties that are set by the arguments of a message, never by `properties`."""


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker. Sorted as RocketMQ's rebalance sorts: topic, broker, number."""

    topic: str
    broker: str
    queue_id: int


class SendStatus(StrEnum):
    """How safe a stored message is. All four mean that it is in the log."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """A message was stored."""

    message_id: str
    """The unique id the producer gave it."""
    queue: MessageQueue
    queue_offset: int
    offset_message_id: str
    """Where it lies in the broker's log, as `gantry message show` takes it."""
    status: SendStatus = SendStatus.SEND_OK
    transaction_id: str | None = None
    recall_handle: str | None = None
    """Of a message that waits for its time: `producer.cancel(result)` takes it back until then."""
    region: str | None = None
    trace_on: bool = True
    duplicate: bool = False
    """Answered by Gantry from its idempotency window: it was stored before."""


class Message:
    """A message to send. Arguments of a wrong type or size are refused here, or at the latest before anything leaves.

    `keys` are what it can be found by; `tag` is what consumers filter by. At most one of `delay_level` (1 to 18),
    `delay` (seconds) and `deliver_at` (a datetime with a zone, or ms since 1970) says when it may be consumed.
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
        """Set when it is sent, and kept when it is sent again: a duplicate can be told by it."""
        if type(topic) is not str or not topic:
            raise InvalidMessage("topic", f"a name, not {topic!r}")
        if type(body) is not bytes:
            raise InvalidMessage("body", f"bytes, not {type(body).__name__}; text needs .encode()")
        if tag is not None or sharding_key is not None or properties or flag:
            self._check_texts(properties)
        if delay_level or delay is not None or deliver_at is not None:
            self._set_time(delay, deliver_at)

    @property
    def is_timed(self) -> bool:
        """Whether it is to be consumed later."""
        return self.delay_level != 0 or self.delay_ms is not None or self.deliver_at_ms is not None

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {len(self.body)} bytes, tag={self.tag!r}, keys={self.keys!r})"

    def _check_texts(self, properties: Mapping[str, str] | None) -> None:
        for field, value in (("tag", self.tag), ("sharding_key", self.sharding_key)):
            if value is not None and (not isinstance(value, str) or not value):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidMessage(field, f"text of at least one character, not {value!r}")
        if self.tag is not None and "||" in self.tag:
            raise InvalidMessage("tag", "one tag; `||` divides tags in subscriptions only")
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
                raise InvalidMessage("delay", f"seconds from now, 0 to {DELAY_SECONDS_MAX}, not {delay!r}")
            self.delay_ms = round(delay * 1000)
        if isinstance(deliver_at, datetime):
            if deliver_at.tzinfo is None:
                raise InvalidMessage("deliver_at", "a datetime with a time zone, as datetime.now(UTC)")
            self.deliver_at_ms = round(deliver_at.timestamp() * 1000)
        elif deliver_at is not None:
            if isinstance(deliver_at, bool) or not isinstance(deliver_at, int):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidMessage("deliver_at", f"a datetime, or ms since 1970, not {deliver_at!r}")
            self.deliver_at_ms = deliver_at
        if self.deliver_at_ms is not None and not 0 <= self.deliver_at_ms <= _TIME_MS_MAX:
            raise InvalidMessage("deliver_at", f"an instant from 1970 on, not {deliver_at!r}")


def check_flag(flag: object) -> None:
    """Raise InvalidMessage unless it can be the flag of a message."""
    if not isinstance(flag, int) or isinstance(flag, bool) or abs(flag) > _FLAG_MAX:
        raise InvalidMessage("flag", f"a whole number of 32 bits, not {flag!r}")


def check_message(message: object) -> None:
    """Raise InvalidMessage unless it is a message to send."""
    if not isinstance(message, Message):
        raise InvalidMessage("message", f"a gantry.Message, not {type(message).__name__}")


def check_property(key: object, value: object) -> None:
    """Raise InvalidMessage unless a user may set this property."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise InvalidMessage("properties", f"text by text, not {key!r}: {value!r}")
    if not key or not value:
        raise InvalidMessage(
            "properties", f"{key!r}: neither name nor value may be empty (brokers drop such)"
        )
    if key in RESERVED:
        raise InvalidMessage("properties", f"{key} is set by the argument of the message, not here")


def _joined(keys: str | Iterable[str]) -> str:
    """Return keys as they travel: divided by blanks, so that none can hold one."""
    parts = [keys] if isinstance(keys, str) else list(keys)
    for key in parts:
        if not isinstance(key, str) or not key:  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
            raise InvalidMessage(
                "keys", f"one text, or a list of texts of at least one character, not {key!r}"
            )
        if " " in key:
            raise InvalidMessage(
                "keys",
                f"{key!r} holds a blank, which divides keys: give several keys as a list, and one without blanks",
            )
    return " ".join(parts)


class ReceivedMessage:
    """A message that was consumed. Body and properties are taken apart when they are first asked for."""

    __slots__ = ("_body", "_properties", "_topic", "broker", "namespace", "reconsume_times", "record")

    def __init__(self, record: Record, broker: str, *, namespace: str = "", topic: str | None = None) -> None:
        """`topic` where it is known already: it is not read from the record then."""
        self.record: Record = record
        self.broker: str = broker
        self.namespace: str = namespace
        self.reconsume_times: int = record.reconsume_times
        self._topic = topic
        self._body: bytes | None = None
        self._properties: dict[str, str] | None = None

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes from a group's retry topic."""
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
        """What was sent, decompressed; UnreadableBody where that is impossible."""
        if self._body is None:
            self._body = decompress(self.record.body, self.record.sys_flag)
        return self._body

    @property
    def properties(self) -> dict[str, str]:
        """All properties, the broker's among them."""
        if self._properties is None:
            self._properties = parse_properties(self.record.properties.decode(errors="replace"))
        return self._properties

    @property
    def message_id(self) -> str:
        """The unique id its producer gave it, else its place in the log."""
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
        """What it can be found by."""
        return [key for key in self.properties.get(KEYS, "").split(KEY_SEPARATOR) if key]

    @property
    def sharding_key(self) -> str | None:
        """What its order belongs to."""
        return self.properties.get(SHARDING_KEY)

    @property
    def transaction_id(self) -> str | None:
        """Of a message sent in a transaction."""
        return self.properties.get(TRANSACTION_ID) or self.properties.get(UNIQ_KEY)

    @property
    def queue_id(self) -> int:
        """Number of the queue it was read from."""
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        """Its number in the queue."""
        return self.record.queue_offset

    @property
    def position(self) -> int:
        """Its place in the broker's log."""
        return self.record.position

    @property
    def flag(self) -> int:
        """The number its producer gave along."""
        return self.record.flag

    @property
    def born_timestamp_ms(self) -> int:
        """When it was made, by the producer's clock (ms since 1970)."""
        return self.record.born_timestamp

    @property
    def store_timestamp_ms(self) -> int:
        """When it was stored, by the broker's clock (ms since 1970)."""
        return self.record.store_timestamp

    @property
    def born_host(self) -> str:
        """Address of the producer."""
        return "{}:{}".format(*self.record.born_address)

    @property
    def store_host(self) -> str:
        """Address of the broker that took it."""
        return "{}:{}".format(*self.record.store_address)

    def __repr__(self) -> str:
        return (
            f"ReceivedMessage({self.topic!r}, queue {self.broker}:{self.queue_id} at {self.queue_offset}, "
            f"tag={self.tag!r}, reconsumed {self.reconsume_times})"
        )
