"""Messages that leave a group's queue: dead letters, and retries that are far in the future.

Both are settled: the copy is appended exactly once, whatever crashes, and with it the log knows that the
group is done with the original. Until then the group keeps the original.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from broker_store.commit.queues import QueueTable
from broker_store.commit.topics import PERM_RW, TopicTable
from broker_store.groups.groups import GroupTable
from broker_store.leases.lease_table.runs import Kind, Run, stretches_of
from broker_store.leases.note_bodies import LeaseNote, QueueNote
from broker_store.leases.note_writer import NoteWriter
from broker_store.leases.queue_scan import Scanner
from broker_store.leases.subscription_opening import Opener
from broker_store.leases.subscriptions import QueueLeases, Subscription, Subscriptions
from broker_store.log.errors import LogError, PositionRemoved
from broker_store.ports import InThread
from broker_store.retrying.retries import Retries, moved_after, readable_reason, used_up
from broker_store.settling.settling import Settling
from gantry_chassis.logs.structured import get_logger
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.limits import INT32_MAX, PROPERTIES_BYTES_MAX
from gantry_wire.messages.properties import (
    DELAY,
    GANTRY_DLQ_ATTEMPTS,
    GANTRY_DLQ_REASON,
    GANTRY_KEY,
    GANTRY_ORIGIN,
    GANTRY_SETTLED,
    ORIGIN_MESSAGE_ID,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    format_properties,
)
from gantry_wire.names import TIMER_TOPIC, retry_topic
from gantry_wire.private_requests.settling import SettleItem, SettleOutput, SettleResult, SettleStatus
from gantry_wire.records.message_record import Record, decode_record

AGAIN_SECONDS = 1.0
"""Pause before a dead letter that could not be written is retried."""
_NOT_TAKEN_ALONG = (
    GANTRY_KEY, GANTRY_SETTLED, DELAY, TIMER_DELAY_SEC, TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_OUT_MS,
    REAL_TOPIC, REAL_QUEUE_ID,
)  # fmt: skip
_GONE = frozenset({SettleStatus.REMOVED, SettleStatus.BAD_ITEM})

Sent = Callable[[str], None]
"""Called once: "" when the message waits elsewhere now, else the reason."""

_log = get_logger()


class Place(NamedTuple):
    """One message of a group's queue."""

    subscription: Subscription
    leases: QueueLeases
    offset: int
    attempt: int

    @property
    def times(self) -> int:
        """Return the number of deliveries, within what a record can hold: the first count may come from a client."""
        return min(self.attempt, INT32_MAX)


@dataclass(slots=True, eq=False)
class MessageMoves:
    """Moves messages away: to the dead letters, or to the delay queue."""

    scanner: Scanner
    queues: QueueTable
    topics: TopicTable
    groups: GroupTable
    subscriptions: Subscriptions
    opener: Opener
    notes: NoteWriter
    settling: Settling
    retries: Retries
    on_due: Callable[[Subscription], None]
    """Called when messages of a subscription may be due."""
    in_thread: InThread
    now_ms: Callable[[], int]
    """Store time."""
    dead_letters: int = 0
    """Dead letters written since the start."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def collect(self, subscription: Subscription) -> None:
        """Take a subscription's messages that reached the delivery limit, and settle them."""
        for leases in subscription.queues.values():
            dead, leases.table.dead = leases.table.dead, []
            for run in dead:
                self._bury(subscription, leases, run)
        self.on_due(subscription)

    def send(
        self, subscription: Subscription, leases: QueueLeases, offset: int, delay_ms: int | None, sent: Sent
    ) -> None:
        """Move a leased message: with a delay to the system queue of delays, from where it returns through the group's retry topic.

        Without one to the dead letters. It stays on lease when that fails.
        """
        run = leases.table.runs.find(offset)
        assert run is not None
        leases.table.hold_for(offset, 1)
        place = Place(subscription, leases, offset, run.attempt)

        def done(status: str) -> None:
            if status == SettleStatus.SETTLED:
                self.dead_letters += delay_ms is None
                self._left(place)
                sent("")
            else:
                leases.table.withdraw(offset, 1)
                sent(status)

        self._begin(self._settle(place, delay_ms, done, lambda: True))

    async def close(self) -> None:
        """Wait for running writes."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _bury(self, subscription: Subscription, leases: QueueLeases, run: Run) -> None:
        for start, end in stretches_of(run.first, run.mask):
            for offset in range(start, end):
                place = Place(subscription, leases, offset, run.attempt)
                self._begin_burial(place)

    def _begin_burial(self, place: Place) -> None:
        self._begin(self._settle(place, None, self._buried(place), partial(self._is_dead, place)))

    def _buried(self, place: Place) -> Callable[[str], None]:
        def done(status: str) -> None:
            if status == SettleStatus.SETTLED:
                self.dead_letters += 1
                self._left(place)
                return
            is_reset = place.leases.is_reset(place.offset)
            if (status == SettleStatus.ALREADY or status in _GONE) and not is_reset:
                if self._is_dead(place) and self._is_current(place):
                    self._note_done(place)
                return
            _log.warning(
                "a dead letter cannot be written and is tried again",
                group=place.subscription.group,
                topic=place.subscription.topic,
                offset=place.offset,
                reason=status,
            )
            self._try_later(place)

        return done

    def _note_done(self, place: Place) -> None:
        """Log that a message is done: what the log has about it precedes a reset, or its record is gone."""
        subscription, leases, offset, _ = place
        done = QueueNote(leases.queue_id, done=[offset, 1])
        note = LeaseNote(subscription.group, subscription.topic, [done])

        def on_visible() -> None:
            if not self.subscriptions.apply_if_dropped(subscription, note):
                leases.table.settle(offset, 1)
                self._left(place)

        def answered(refusal: RefusedRequest | None) -> None:
            if refusal is not None:
                self._try_later(place)

        try:
            self.notes.write(note, on_visible, answered)
        except RefusedRequest as refusal:
            answered(refusal)

    def _try_later(self, place: Place) -> None:
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._again, place)

    def _again(self, place: Place) -> None:
        if self._is_dead(place):
            self._begin_burial(place)
        else:  # reset, or its dead letter was flushed late
            self._left(place)

    def _is_dead(self, place: Place) -> bool:
        """Whether a message is still to become a dead letter: a reset delivers it again instead."""
        run = place.leases.table.runs.find(place.offset)
        return run is not None and run.kind is Kind.DEAD

    def _is_current(self, place: Place) -> bool:
        """Whether neither the group nor the topic was deleted."""
        subscription = place.subscription
        return self.subscriptions.find(subscription.group, subscription.topic) is subscription

    def _left(self, place: Place) -> None:
        """Follow an outcome. The table has it since its records became visible (`Subscriptions.decided`)."""
        place.leases.reasons.pop(place.offset, None)
        if self._is_current(place):
            self.opener.keep_in_step(place.subscription, place.leases)
        if place.leases.table.in_order:
            self.on_due(place.subscription)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(
        self,
        place: Place,
        delay_ms: int | None,
        done: Callable[[str], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        """Settle one message: with a delay to the delay queue, else to the dead letters. Calls `done` with the status.

        Does nothing if `is_wanted` denies it once the message is read.
        """
        try:
            item = await self._item(place, delay_ms)
            if item is None:
                done(SettleStatus.REMOVED)
                return
        except (WireError, OSError) as error:
            done(str(error) or type(error).__name__)
            return
        if not is_wanted():
            return
        if place.leases.is_reset(place.offset):
            done("the group's offset is being reset")
            return

        def settled(answer: list[SettleResult] | RefusedRequest) -> None:
            if isinstance(answer, RefusedRequest):
                done(answer.remark)
            else:
                done(answer[0].status)

        subscription = place.subscription
        try:
            self.settling.settle(
                subscription.topic, place.leases.queue_id, subscription.group, None, [item], settled
            )
        except RefusedRequest as refusal:
            done(refusal.remark)

    async def _item(self, place: Place, delay_ms: int | None) -> SettleItem | None:
        """Return the item to settle, None for a message that is gone. Raises RepairAwaited for one that another replica may have."""
        queue = self.queues.find(place.subscription.topic, place.leases.queue_id)
        if queue is None:
            return None
        found = self.scanner.places(queue, Run(place.offset, 1, Kind.DEAD))
        if not found:
            return None
        _offset, position, _size = found[0]
        try:
            data = await self.in_thread(
                partial(self.scanner.read_whole_record, queue, found[0], may_wait=True)
            )
        except PositionRemoved:
            return None
        except LogError:
            self.scanner.leave_out(queue, place.offset)
            return None
        record = decode_record(data)
        output = (
            self._dead_letter(place, record)
            if delay_ms is None
            else self._delayed_output(place, record, delay_ms)
        )
        return SettleItem(place.offset, position, [output], "dead" if delay_ms is None else "later")

    def _dead_letter(self, place: Place, record: Record) -> SettleOutput:
        group = place.subscription.group
        target = self.retries.dead_letters(group)
        reason = readable_reason(place.leases.reasons.get(place.offset, ""))
        put = {
            GANTRY_DLQ_ATTEMPTS: str(place.attempt),
            **_origin(record),
            GANTRY_DLQ_REASON: reason
            or (used_up(place.attempt) if self._is_dead(place) else moved_after(place.attempt)),
        }
        put = _that_fit(record, put)
        return SettleOutput(target.topic, 0, set=put, drop=_NOT_TAKEN_ALONG, reconsume_times=place.times)

    def _delayed_output(self, place: Place, record: Record, delay_ms: int) -> SettleOutput:
        group = place.subscription.group
        config = self.groups.find(group)
        name = retry_topic(group)
        self.topics.ensure(name, max(1 if config is None else config.retry_queue_nums, 1), PERM_RW)
        put = {
            **_origin(record),
            REAL_TOPIC: name,
            REAL_QUEUE_ID: "0",
            TIMER_DELAY_MS: str(delay_ms),
            TIMER_OUT_MS: str(self.now_ms() + delay_ms),
        }
        drop = tuple(name for name in _NOT_TAKEN_ALONG if name not in put and name != DELAY)
        return SettleOutput(TIMER_TOPIC, 0, set=put, drop=drop, reconsume_times=place.times)


def _origin(record: Record) -> dict[str, str]:
    """Return the properties that identify the original message."""
    properties = record.readable_properties()
    topic = record.topic.decode(errors="replace")
    return {
        RETRY_TOPIC: properties.get(RETRY_TOPIC, topic),
        ORIGIN_MESSAGE_ID: properties.get(ORIGIN_MESSAGE_ID, record.message_id),
        GANTRY_ORIGIN: properties.get(GANTRY_ORIGIN, f"{topic}:{record.queue_id}:{record.queue_offset}"),
    }


def _that_fit(record: Record, put: dict[str, str]) -> dict[str, str]:
    """Return those properties that fit beside the message's own: a shorter dead letter is better than none."""
    room = PROPERTIES_BYTES_MAX - len(record.properties) - 1
    kept: dict[str, str] = {}
    for name, value in put.items():
        size = len(format_properties({name: value}))
        if size <= room:
            kept[name] = value
            room -= size
    return kept
