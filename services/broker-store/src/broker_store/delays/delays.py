"""Delayed and timed sends: moved into their system queue, as in RocketMQ. Never waits itself: the scheduler does."""

from collections.abc import Callable, Mapping

from broker_store.commit.message import Message
from broker_store.commit.queues import Queue
from broker_store.commit.special_sends import TIMERS, level_of
from broker_store.config.delay_levels import LevelList
from broker_store.delays.delayed_message import DelayedMessage, Wait, delay_fields
from broker_store.delays.instants import Now, due_ms
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.properties import (
    DELAY,
    GANTRY_DELAY_MS,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_OUT_MS,
    UNIQ_KEY,
    edit_properties,
    parse_properties,
)
from gantry_wire.messages.recall_handle import RecallHandle
from gantry_wire.names import HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.records.message_record import Record

OpenQueue = Callable[[str, int], Queue]
_NOTHING: Mapping[str, str] = {}


class Delays:
    """Handles messages with a delay."""

    def __init__(
        self,
        levels: LevelList,
        horizon_ms: int,
        broker_name: str,
        open_queue: OpenQueue,
        now: Callable[[], Now],
    ) -> None:
        self.levels = levels
        self.horizon_ms = horizon_ms
        self.broker_name = broker_name
        self._open_queue = open_queue
        self._now = now

    def prepare(self, message: Message, properties: dict[str, str]) -> Message:
        """Return what is stored for a message: the message itself if it has no delay. Raises RefusedRequest.

        A level takes precedence over an instant, whose properties are then removed, from `properties` too.
        A level above the last becomes the last, there too.
        """
        level = level_of(properties)
        if level > 0:
            return self._by_level(message, properties, level)
        deliver_ms = due_ms(properties, self._now(), self.horizon_ms)
        return message if deliver_ms is None else self._by_instant(message, deliver_ms)

    def by_level(self, message: Message, level: int) -> Message:
        """Return what is stored for a message that waits out a level, whatever its properties say."""
        return self._by_level(message, {}, level)

    def by_wait(self, message: Message, wait_ms: int) -> Message:
        """Return what is stored for a message that waits this long. Without a wait it is the message itself."""
        if wait_ms <= 0:
            return message
        wait_ms = min(wait_ms, self.horizon_ms)
        return self._by_instant(message, self._now().store_ms + wait_ms, {TIMER_DELAY_MS: str(wait_ms)})

    def check(self, properties: Mapping[str, str]) -> None:
        """Raise RefusedRequest for an impossible delay."""
        due_ms(properties, self._now(), self.horizon_ms)

    def reply_place_of(self, record: Record) -> tuple[int, dict[str, str]]:
        """Return the queue and reply fields that a stored message's sender gets again: due time and handle if it is delayed."""
        topic = record.topic.decode(errors="replace")
        if topic not in (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC):
            return record.queue_id, {}
        properties = parse_properties(record.properties)
        queue_id = int(properties.get(REAL_QUEUE_ID, "0"))
        if topic == HALF_TOPIC:
            return queue_id, {}
        if topic == SCHEDULE_TOPIC:
            deliver_ms = self.levels.deliver_ms(record.properties, record.store_timestamp)
            return queue_id, delay_fields(deliver_ms, "")
        deliver_ms = int(properties.get(TIMER_OUT_MS, "0"))
        handle = self._handle(properties.get(REAL_TOPIC, ""), deliver_ms, properties.get(UNIQ_KEY, ""))
        return queue_id, delay_fields(deliver_ms, handle)

    def _by_level(self, message: Message, properties: dict[str, str], level: int) -> Message:
        drop = [name for name in TIMERS if properties.pop(name, None) is not None]
        number = self.levels.number(level)
        put: dict[str, str] = {}
        if number != level:
            put[DELAY] = properties[DELAY] = str(number)
        wait_ms = self.levels.duration_ms(number)
        put[GANTRY_DELAY_MS] = str(wait_ms)
        queue = self._open_queue(SCHEDULE_TOPIC, number - 1)
        raw = _real_destination(message, put, drop)
        return DelayedMessage(message, queue, raw, Wait(0, wait_ms))

    def _by_instant(self, message: Message, deliver_ms: int, put: Mapping[str, str] = _NOTHING) -> Message:
        raw = _real_destination(message, {**put, TIMER_OUT_MS: str(deliver_ms)}, ())
        handle = self._handle(message.queue.topic, deliver_ms, message.unique_key)
        return DelayedMessage(message, self._open_queue(TIMER_TOPIC, 0), raw, Wait(deliver_ms, 0, handle))

    def _handle(self, topic: str, deliver_ms: int, unique_key: str) -> str:
        """Return the recall handle. RocketMQ gives none for retries."""
        if topic.startswith(RETRY_PREFIX):
            return ""
        return RecallHandle(topic, self.broker_name, deliver_ms, unique_key).text()


def _real_destination(message: Message, put: dict[str, str], drop: list[str] | tuple[()]) -> bytes:
    put = {REAL_TOPIC: message.queue.topic, REAL_QUEUE_ID: str(message.queue.queue_id), **put}
    raw = edit_properties(message.properties, put, drop)
    if len(raw) > PROPERTIES_BYTES_MAX:
        remark = (
            f"the message properties have {len(raw)} bytes with those that a delay needs, "
            f"the limit is {PROPERTIES_BYTES_MAX}"
        )
        raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, remark)
    return raw
