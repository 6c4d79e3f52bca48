"""Request 9030: leases due messages first, then unseen ones, and answers with their records as stored.

Runs in one step of the loop: every leased message is in the reply. When bytes are not in memory, the leases
are given back, a thread reads the bytes, and the receive is repeated.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import NamedTuple

from broker_store.commit.queues import QueueTable
from broker_store.commit.topics import PRIORITY_TYPE, TYPE_ATTRIBUTE, TopicTable
from broker_store.leases.lease_table.runs import Run
from broker_store.leases.note_bodies import LeaseNote
from broker_store.leases.note_writer import NoteWriter
from broker_store.leases.queue_scan import LOOK_STEPS_MAX, Cold, Repairs, Scanner, Wanted
from broker_store.leases.receive_attempts import ATTEMPT_ID_CHARS_MAX, Attempt, Attempts, Held, Taken
from broker_store.leases.subscription_opening import Opener, attempts_max, is_in_order
from broker_store.leases.subscriptions import QueueLeases, Subscription, Subscriptions
from broker_store.log.errors import LogError
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.ports import InThread, Peer, QueueReader
from broker_store.reading.repaired_reads import RepairAwaited
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.names import retry_topic
from gantry_wire.private_requests.leases import (
    ATTEMPT_MAX,
    EARLIEST,
    INVISIBLE_MS_MAX,
    LATEST,
    RECEIVE_MESSAGES_MAX,
    LeasedRun,
    ReceiveHeader,
    ReceiveReplyHeader,
    pack_runs,
)

ALL_QUEUES = -1
REPLY_BYTES_MAX = 4 * 1024 * 1024
"""Record bytes per reply. One message is always allowed."""


class Batch:
    """What one receive has collected."""

    __slots__ = (
        "count_left",
        "has_more",
        "lease",
        "parts",
        "runs",
        "size",
        "steps_left",
        "taken",
        "until_ms",
    )

    def __init__(self, count: int, lease: int, until_ms: int) -> None:
        self.count_left = count
        self.lease = lease
        self.until_ms = until_ms
        """When its leases end (steady ms)."""
        self.has_more = False
        """Whether another receive may find more messages at once."""
        self.runs: list[LeasedRun] = []
        self.parts: list[bytes] = []
        self.size = 0
        self.steps_left = LOOK_STEPS_MAX
        self.taken: list[Taken] = []
        """The leased messages."""

    @property
    def is_full(self) -> bool:
        """Whether nothing more fits the reply."""
        return self.count_left <= 0 or self.size >= REPLY_BYTES_MAX

    @property
    def count(self) -> int:
        """How many messages it has."""
        return sum([run.records for run in self.runs])

    def give_back(self) -> None:
        """End all its leases: they reach no consumer."""
        for _subscription, leases, first, mask in self.taken:
            leases.table.give_back(first, mask, self.lease)


class Ask(NamedTuple):
    """A receive of one protocol."""

    peer: Peer
    command: Command
    header: ReceiveHeader
    reply: Callable[[Batch], bytes | None]
    """Returns the answer in the protocol's form, None if it is sent later."""
    queue_id: int = ALL_QUEUES


@dataclass(slots=True, eq=False)
class Receiver:
    """Answers receives."""

    scanner: Scanner
    queues: QueueTable
    topics: TopicTable
    subscriptions: Subscriptions
    opener: Opener
    notes: NoteWriter
    metrics: StoreMetrics
    deferred: DeferredReplies
    in_thread: InThread
    can_repair: bool
    """Whether another replica may have what is damaged here."""
    now_ms: Callable[[], int]
    """Store time."""
    steady_ms: Callable[[], int]
    """The clock by which leases and waits end. Nothing moves it ahead."""
    boot: int
    """Number of this start of the store: the upper half of every lease number."""
    work: asyncio.Event
    """Set when there is something to check as time passes."""
    active: dict[QueueLeases, Subscription] = field(default_factory=dict[QueueLeases, Subscription])
    """Queues with leases or delays, to be checked as time passes."""
    attempts: Attempts = field(default_factory=Attempts)
    """Receives that clients may repeat."""
    messages: int = 0
    """Messages delivered. For metrics."""
    _leases: int = 0
    """Number of the last lease since this start."""

    def is_ours(self, lease: int) -> bool:
        """Whether a lease was given since this start of the store."""
        return lease >> 32 == self.boot

    def is_of_last_run(self, lease: int) -> bool:
        """Whether a lease was given by the run of the store before this one."""
        return lease >> 32 == self.boot - 1

    def watch(self, leases: QueueLeases, subscription: Subscription) -> None:
        """Check a queue as time passes, until it has neither leases nor delays."""
        self.active[leases] = subscription
        self.work.set()

    def handle(self, peer: Peer, command: Command) -> bytes | None:
        """Answer a receive. Raises RefusedRequest."""
        header = command.read(ReceiveHeader)
        return self.receive(Ask(peer, command, header, partial(self._reply, command)))

    def receive(self, ask: Ask, *, is_noted: bool = False) -> bytes | None:
        """Lease by the current filter. None: the answer follows. Raises RefusedRequest.

        With `is_noted` the request's own filter was logged, and another may have been since.
        """
        header = ask.header
        _check(header)
        config = self.opener.group(header.group)
        topic = self.opener.topic(header.topic)
        subscription = self.subscriptions.open(header.group, header.topic)
        asked = None if is_noted else self.opener.filter_to_note(subscription, header)
        note = self.opener.to_note(subscription, config, topic.read_queue_nums, asked, header.start)
        if note is not None:
            self._note_first(ask, subscription, note)
            return None
        try:
            return self._answer(ask, config, subscription, may_wait=False)
        except Cold as cold:
            self.deferred.answer(ask.peer, ask.command, self._receive_slowly(ask, subscription, cold))
            return None

    def _note_first(self, ask: Ask, subscription: Subscription, note: LeaseNote) -> None:
        """Log a group's filter and start, then answer: what it receives must hold after a crash too."""
        if note.queues and subscription.starting is not None:
            subscription.starting.append(partial(self._receive_later, ask, is_noted=False))
            return

        def answered(refusal: RefusedRequest | None) -> None:
            if subscription.coming is note.filter:
                subscription.coming = None
            waiting: list[Callable[[], None]] = []
            if note.queues:
                waiting, subscription.starting = subscription.starting or [], None
            self._receive_later(ask, refusal, is_noted=True)
            for again in waiting:
                again()

        subscription.coming = note.filter
        if note.queues:
            subscription.starting = []
        try:
            self.notes.write(note, lambda: self.subscriptions.apply(note), answered)
        except RefusedRequest:  # the store is stopped
            subscription.coming = subscription.starting = None
            raise

    def _receive_later(self, ask: Ask, refusal: RefusedRequest | None = None, *, is_noted: bool) -> None:
        """Receive outside of the request's handler, and send the answer."""
        try:
            if refusal is not None:
                raise refusal
            reply = self.receive(ask, is_noted=is_noted)
        except RefusedRequest as error:
            reply = encode_response(error.code, ask.command.opaque, error.fields, remark=error.remark)
        if reply is not None:
            ask.peer.send(reply)

    def _answer(
        self, ask: Ask, config: SubscriptionGroupConfig, subscription: Subscription, *, may_wait: bool
    ) -> bytes | None:
        header, now_ms = ask.header, self.steady_ms()
        if header.max_messages == 0:
            return ask.reply(Batch(0, 0, now_ms))
        key = (header.group, header.topic, header.attempt_id or "")
        known = self.attempts.find(key, now_ms) if header.attempt_id else None
        if known is not None:
            batch = self._again(*known, may_wait=may_wait)
        else:
            self._leases += 1
            batch = Batch(header.max_messages, self.boot << 32 | self._leases, now_ms + header.invisible_ms)
            try:
                self._gather_all(ask, config, subscription, batch, now_ms, may_wait=may_wait)
            except Exception:
                batch.give_back()
                raise
            if header.attempt_id and batch.taken:
                self.attempts.keep(key, Attempt(batch.lease, batch.until_ms, batch.taken), now_ms)
        count = batch.count
        self.messages += count
        if count:
            self.metrics.on_get(header.topic, header.group, count, batch.size, 0)
        return ask.reply(batch)

    def _reply(self, command: Command, batch: Batch) -> bytes:
        """Return the answer to 9030."""
        until_ms = self.now_ms() + batch.until_ms - self.steady_ms()
        reply = ReceiveReplyHeader(runs=len(batch.runs), until_ms=until_ms, more=batch.has_more)
        body = b"".join([pack_runs(batch.runs), *batch.parts])
        return encode_response(ResponseCode.SUCCESS, command.opaque, reply, body)

    def _again(self, lease: int, held: list[Held], *, may_wait: bool) -> Batch:
        """Return the messages of an earlier receive that are still on its lease. Raises Cold."""
        batch = Batch(RECEIVE_MESSAGES_MAX, lease, min(one.run.time_ms for one in held))
        for (subscription, leases, _first, _mask), run in held:
            queue = self.queues.find(subscription.topic, leases.queue_id)
            if queue is not None:
                self._read(queue, leases, run, batch, may_wait=may_wait)
        return batch

    async def _receive_slowly(self, ask: Ask, subscription: Subscription, cold: Cold) -> bytes | None:
        """Read the bytes in a thread, then receive again: they are in memory by then, and repaired where they were damaged.

        Leases nothing if the group or the topic was deleted meanwhile. The next receive begins with new tables.
        """
        header = ask.header
        repairs = Repairs() if self.can_repair else None
        while True:
            await self.warm(cold, repairs)
            config = self.opener.group(header.group)
            self.opener.topic(header.topic)
            if self.subscriptions.find(header.group, header.topic) is not subscription:
                nothing = Batch(0, 0, self.steady_ms())
                nothing.has_more = True
                return ask.reply(nothing)
            self.scanner.repairs = repairs
            try:
                return self._answer(ask, config, subscription, may_wait=True)
            except Cold as another:  # damaged, too
                cold = another
            finally:
                self.scanner.repairs = None

    async def warm(self, cold: Cold, repairs: Repairs | None = None) -> None:
        """Bring bytes into memory, in a thread, and repair them. The receive finds out what is wrong with them."""
        try:
            with suppress(LogError):
                await self.in_thread(self.scanner.warm, cold.position, cold.size)
        except RepairAwaited:
            if repairs is not None:
                repairs.awaits = True
        finally:
            self.metrics.cold_reads += 1
            if repairs is not None:
                repairs.tried.add(cold.position)

    def _gather_all(
        self,
        ask: Ask,
        config: SubscriptionGroupConfig,
        subscription: Subscription,
        batch: Batch,
        now_ms: int,
        *,
        may_wait: bool,
    ) -> None:
        """Fill the batch: with messages of the topic that came back to the group's retry topic, then from its own queues."""
        header = ask.header
        name = retry_topic(header.group)
        if name != header.topic and self.queues.of_topic(name):
            retries = self.subscriptions.open(header.group, name)
            self._gather(retries, config, batch, now_ms, header.topic, may_wait=may_wait)
        self._gather(subscription, config, batch, now_ms, "", may_wait=may_wait, queue_id=ask.queue_id)

    def _gather(
        self,
        subscription: Subscription,
        config: SubscriptionGroupConfig,
        batch: Batch,
        now_ms: int,
        route: str,
        *,
        may_wait: bool,
        queue_id: int = ALL_QUEUES,
    ) -> None:
        """Fill the batch from a topic's queues."""
        wanted = self.opener.wanted(subscription, config, is_retry=bool(route))
        for place in self._queue_order(subscription) if queue_id < 0 else (queue_id,):
            if batch.is_full:
                break
            opened = self.opener.queue(subscription, place, in_order=is_in_order(config) and not route)
            if opened is None:
                continue
            queue, leases = opened
            if leases.table.is_timed_out(now_ms):
                leases.table.expire(now_ms, attempts_max(config))
            self._gather_queue(queue, subscription, leases, wanted, batch, route, may_wait=may_wait)
            if len(leases.table.runs):
                self.watch(leases, subscription)
            self.opener.keep_in_step(subscription, leases)
        batch.has_more |= batch.is_full

    def _queue_order(self, subscription: Subscription) -> Iterable[int]:
        """Return the queues of a topic in the order of this receive: in turn, or from the highest priority down.

        A topic for messages with priorities has a queue for each (RocketMQ 5.4); what a consumer has on lease stays there.
        """
        topic = self.topics.find(subscription.topic)
        count = topic.read_queue_nums if topic is not None else 0
        if topic is not None and topic.attributes.get(TYPE_ATTRIBUTE) == PRIORITY_TYPE:
            return range(count - 1, -1, -1)
        subscription.turn += 1
        first = subscription.turn % count if count else 0
        return chain(range(first, count), range(first))

    def _gather_queue(
        self,
        queue: QueueReader,
        subscription: Subscription,
        leases: QueueLeases,
        wanted: Wanted,
        batch: Batch,
        route: str,
        *,
        may_wait: bool,
    ) -> None:
        table = leases.table
        routes = (route, "") if route else ("",)
        has_looked = False
        while not batch.is_full:
            runs = [
                run
                for way in routes
                for run in table.take(batch.count_left, batch.lease, batch.until_ms, way)
            ]
            for run in runs:
                batch.taken.append(Taken(subscription, leases, run.first, run.mask))
            for run in runs:
                self._read(queue, leases, run, batch, may_wait=may_wait)
            if not runs:
                if has_looked:
                    return
                has_looked = True
                batch.steps_left = self.scanner.look(
                    queue, table, wanted, batch.count_left, batch.steps_left, may_wait=may_wait
                )

    def _read(
        self, queue: QueueReader, leases: QueueLeases, run: Run, batch: Batch, *, may_wait: bool
    ) -> None:
        """Read a run's messages into the batch. Missing ones are done; those without room are given back.

        Damaged ones that another replica may have stay leased, and are due again when that ends.
        """
        first, mask, attempt = run.first, run.mask, run.attempt
        places = self.scanner.places(queue, run)
        fitting = len(places)
        size = batch.size
        for number, place in enumerate(places):
            size += place[2]
            if size > REPLY_BYTES_MAX and (number or batch.parts):
                fitting = number
                size = REPLY_BYTES_MAX  # no smaller message of another queue takes its place: that would starve this one
                break
        offsets: list[int] = []
        if fitting:
            offsets, parts = self.scanner.read_all(queue, places[:fitting], may_wait=may_wait)
            batch.parts += parts
        if len(offsets) < mask.bit_count():
            back = bits_of(first, [place[0] for place in places[fitting:]])
            if back:
                leases.table.give_back(first, back, batch.lease)
            missing = mask & ~bits_of(first, offsets) & ~back
            if self.scanner.awaits_repair:
                missing &= ~bits_of(first, [place[0] for place in places[:fitting]])
            if missing:
                leases.table.settle(first, missing)
        batch.size = size
        batch.count_left -= len(offsets)
        if offsets:
            batch.runs.append(LeasedRun(len(offsets), batch.lease, min(attempt, ATTEMPT_MAX)))


def bits_of(first: int, offsets: list[int]) -> int:
    """Return offsets as a mask."""
    mask = 0
    for offset in offsets:
        mask |= 1 << (offset - first)
    return mask


def _check(header: ReceiveHeader) -> None:
    """Raise RefusedRequest (INVALID_PARAMETER) for a receive that no store can serve."""
    if not 0 <= header.max_messages <= RECEIVE_MESSAGES_MAX:  # 0 only sets the filter
        raise _out_of_bounds("maxMessages", header.max_messages, 0, RECEIVE_MESSAGES_MAX)
    if not 1 <= header.invisible_ms <= INVISIBLE_MS_MAX:
        raise _out_of_bounds("invisibleMs", header.invisible_ms, 1, INVISIBLE_MS_MAX)
    if header.start is not None and header.start not in {EARLIEST, LATEST}:
        remark = f"start is {header.start[:16]!r}, it may be {EARLIEST} or {LATEST}"
        raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)
    if header.attempt_id is not None and len(header.attempt_id) > ATTEMPT_ID_CHARS_MAX:
        raise _out_of_bounds("attemptId's length", len(header.attempt_id), 0, ATTEMPT_ID_CHARS_MAX)


def _out_of_bounds(name: str, value: int, least: int, most: int) -> RefusedRequest:
    return RefusedRequest(
        ResponseCode.INVALID_PARAMETER,
        f"{name} is {value}, it may be {least} to {most}",
        {"limit": f"{least}…{most}"},
    )
