"""Receive and acknowledge, assembled: the commands 9030 to 9034, timers, and calls from the rest of the store.

Checks queues with leases or delays every TICK_SECONDS. Logs expired leases every second.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from broker_store.groups.offset_keeper import Resume
from broker_store.leases.acking import Acker
from broker_store.leases.dead_lettering import DeadLettering
from broker_store.leases.notes import LeaseNote, QueueNote
from broker_store.leases.opening import Opener, attempts_max
from broker_store.leases.parts import LeaseParts, Notes
from broker_store.leases.receiving import Receiver
from broker_store.leases.runs import Kind
from broker_store.leases.subscriptions import Subscription
from broker_store.leases.waiting import Waiter, Waiters
from broker_store.ports import Commands, Peer
from broker_store.retrying.retries import Retries
from broker_store.settling.settling import Settling
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.encode import encode_response
from gantry_wire.errors import RefusedRequest
from gantry_wire.frame import Command
from gantry_wire.lease_headers import (
    WAIT_MS_MAX,
    LeaseQueueState,
    LeaseStateHeader,
    WaitHeader,
    WaitReplyHeader,
)
from gantry_wire.names import RETRY_PREFIX, retry_topic

TICK_SECONDS = 0.05
"""A lease or a delay ends at most this late."""
TICKS_PER_NOTE = 20
WOKEN_AT_ONCE = 8
"""Waiting receivers woken when messages become due. The others follow with the next offer."""
TICKS_PER_OFFER = 20
"""Ticks between two offers of messages that no receiver fetched."""


class HasId(Protocol):
    """A closed connection."""

    @property
    def id(self) -> int:
        """Its number."""
        ...


class Leasing:
    """Builds and connects the parts. Create it inside the loop."""

    def __init__(self, parts: LeaseParts, settling: Settling, retries: Retries) -> None:
        self._parts = parts
        self._notes = Notes(parts)
        self._opener = Opener(parts, self._notes)
        self._waiters = Waiters()
        self._dead_lettering = DeadLettering(parts, self._opener, settling, retries, self._offer)
        self._receiver = Receiver(parts, self._opener, self._notes)
        self._acker = Acker(parts, self._opener, self._notes, self._receiver, self._dead_lettering)
        self._woken: list[Waiter] = []
        self._ticks = 0

    # --- calls from the rest of the store ---

    def commands(self) -> Commands:
        """Return the table entries."""
        return {
            GantryCode.RECEIVE: ("pull", self._receiver.handle),
            GantryCode.ACK: ("ack", self._acker.ack),
            GantryCode.EXTEND_LEASE: ("ack", self._acker.extend),
            GantryCode.LEASE_STATE: ("adminBroker", self._state),
            GantryCode.WAIT_FOR_MESSAGES: ("pull", self._wait),
        }

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops."""
        return {"leases": self._run}

    @property
    def held_count(self) -> int:
        """Number of waits. While it is 0 no arrivals need be reported."""
        return self._waiters.count

    @property
    def in_flight(self) -> int:
        """Messages leased, waiting, due or held. For metrics."""
        return sum(leases.table.runs.count for leases in self._receiver.active)

    @property
    def received(self) -> int:
        """Messages delivered since the start. For metrics."""
        return self._receiver.messages

    @property
    def dead_letters(self) -> int:
        """Dead letters written since the start. For metrics."""
        return self._dead_lettering.dead_letters

    def arrived(self, topic: str, tags_codes: Sequence[int]) -> None:
        """Record readable messages. `answer_arrivals` follows."""
        waiters = self._waiters
        if topic.startswith(RETRY_PREFIX):
            group = topic.removeprefix(RETRY_PREFIX)
            self._woken += waiters.take_if(key for key in waiters.keys_now() if key[0] == group)
        self._woken += waiters.arrived(topic, tags_codes)

    def answer_arrivals(self) -> None:
        """Answer the waits that arrivals have woken."""
        if self._woken:
            woken, self._woken = self._woken, []
            self._answer(woken, is_ready=True)

    def topic_deleted(self, topic: str) -> None:
        """Answer the waits on a deleted topic: their next receive reports it."""
        self._answer(
            self._waiters.take_if(key for key in self._waiters.keys_now() if key[1] == topic), is_ready=True
        )
        active = self._receiver.active
        for leases in [leases for leases, subscription in active.items() if subscription.topic == topic]:
            del active[leases]

    def offset_set(self, group: str, topic: str, queue_id: int, offset: int, on_written: Resume) -> bool:
        """Handle a new offset of a group: everything from there on is delivered again, and current leases are dropped.

        The log must have it before the caller answers. True: calls `on_written` with None, or with the
        error. False: nothing was delivered from there on, so there is nothing to drop, and the offset alone
        is enough.
        """
        subscription = self._parts.subscriptions.find(group, topic)
        leases = None if subscription is None else subscription.queues.get(queue_id)
        if subscription is None or leases is None or offset >= leases.table.unseen.next:
            return False
        note = LeaseNote(group, topic, [QueueNote(queue_id, offset)])

        def on_visible() -> None:
            self._parts.subscriptions.apply(note)

        def answered(refusal: RefusedRequest | None) -> None:
            on_written(None if refusal is None else OSError(refusal.remark))

        try:
            self._notes.write(note, on_visible, answered)
        except RefusedRequest as refusal:
            answered(refusal)
        return True

    def closed(self, peer: HasId) -> None:
        """Drop the waits of a closed connection. Its leases stay: they belong to the holder of the handles."""
        self._waiters.close_peer(peer.id)

    async def close(self) -> None:
        """Answer waits and finish running work."""
        self._answer(self._waiters.take_if(self._waiters.keys_now()), is_ready=False)
        await self._dead_lettering.close()
        await self._parts.deferred.close()

    # --- waiting ---

    def _wait(self, peer: Peer, command: Command) -> bytes | None:
        """Handle 9034. Raises RefusedRequest as a receive would."""
        header = command.read(WaitHeader)
        key = (header.group, header.topic)
        if header.wait_ms <= 0:
            self._answer(
                [dropped] if (dropped := self._waiters.drop(key, peer.id, header.wait_id)) else [],
                is_ready=False,
            )
            return None if command.is_oneway else _ready(command.opaque, is_ready=False)
        config = self._opener.group(header.group)
        self._opener.topic(header.topic)
        subscription = self._parts.subscriptions.open(header.group, header.topic)
        if self._is_ready(subscription):
            return _ready(command.opaque, is_ready=True)
        if self._waiters.is_full:
            return _ready(command.opaque, is_ready=False)
        deadline_ms = _loop_ms() + min(header.wait_ms, WAIT_MS_MAX)
        waiter = Waiter(key, header.wait_id, deadline_ms, peer, command.opaque)
        replaced = self._waiters.add(waiter, self._opener.wanted(subscription, config, is_retry=False).tags)
        if replaced is not None:
            self._answer([replaced], is_ready=False)
        return None

    def _is_ready(self, subscription: Subscription) -> bool:
        """Whether a receive may find something now."""
        if self._has_some(subscription, ""):
            return True
        retries = self._parts.subscriptions.find(subscription.group, retry_topic(subscription.group))
        if retries is None:
            return bool(list(self._parts.queues.of_topic(retry_topic(subscription.group))))
        return self._has_some(retries, subscription.topic)

    def _has_some(self, subscription: Subscription, route: str) -> bool:
        config = self._parts.topics.find(subscription.topic)
        count = 0 if config is None else config.read_queue_nums
        for queue in self._parts.queues.of_topic(subscription.topic):
            if queue.queue_id >= count:
                continue
            leases = subscription.queues.get(queue.queue_id)
            if leases is None:
                if queue.max_offset > queue.min_offset:
                    return True
                continue
            if leases.table.has_due() or (route and leases.table.has_due(route)):
                return True
            start, _end = leases.table.unseen.first
            if start < queue.max_offset and not leases.table.is_full:
                return True
        return False

    def _offer(self, subscription: Subscription) -> None:
        """Wake receivers for messages that may be due."""
        if not self._waiters.count:
            return
        if subscription.topic.startswith(RETRY_PREFIX):
            self._answer(
                self._waiters.take_if(k for k in self._waiters.keys_now() if k[0] == subscription.group),
                is_ready=True,
            )
        elif self._is_ready(subscription):
            self._answer(
                self._waiters.take((subscription.group, subscription.topic), WOKEN_AT_ONCE), is_ready=True
            )

    def _answer(self, waiters: list[Waiter], *, is_ready: bool) -> None:
        for waiter in waiters:
            waiter.peer.send(_ready(waiter.opaque, is_ready=is_ready))

    # --- time ---

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.tick()

    def tick(self) -> None:
        """Advance time: end leases and delays, log what ended, offer what is due, end waits."""
        self._ticks += 1
        now_ms = self._parts.steady_ms()
        active = self._receiver.active
        for leases, subscription in list(active.items()):
            table = leases.table
            if table.is_timed_out(now_ms):
                table.expire(now_ms, attempts_max(self._parts.groups.find(subscription.group)))
                self._dead_lettering.collect(subscription)
            if not len(table.runs) and not table.failed:
                del active[leases]
        if self._waiters.count:
            self._answer(self._waiters.expire(_loop_ms()), is_ready=False)
            if self._ticks % TICKS_PER_OFFER == 0:
                self._offer_all()
        if self._ticks % TICKS_PER_NOTE == 0:
            self._note_failed()

    def _offer_all(self) -> None:
        for group, topic in self._waiters.keys_now():
            subscription = self._parts.subscriptions.find(group, topic)
            if subscription is not None:
                self._offer(subscription)

    def _note_failed(self) -> None:
        """Log the leases that expired since the last call."""
        by_subscription: dict[int, tuple[Subscription, list[QueueNote]]] = {}
        for leases, subscription in self._receiver.active.items():
            if leases.table.failed:
                failed, leases.table.failed = leases.table.failed, []
                flat = [value for values in failed for value in values]
                by_subscription.setdefault(id(subscription), (subscription, []))[1].append(
                    QueueNote(leases.queue_id, failed=flat)
                )
        for subscription, notes in by_subscription.values():
            note = LeaseNote(subscription.group, subscription.topic, notes)
            self._notes.write_unanswered(
                note, partial(self._parts.subscriptions.apply_if_dropped, subscription, note)
            )

    # --- groups ---

    def group_changed(self, name: str) -> None:
        """Log that a deleted group is forgotten. Apply changed settings of other groups at once."""
        groups, subscriptions = self._parts.groups, self._parts.subscriptions
        config = groups.find(name)
        if config is None:
            if subscriptions.of_group(name):
                # Forget it when the log has the note: notes of the group that are in flight precede this
                # one.
                self._notes.write_unanswered(LeaseNote(name, "", gone=True), lambda: self._forget_group(name))
        elif not config.consume_enable:
            waiters = self._waiters
            self._answer(waiters.take_if(key for key in waiters.keys_now() if key[0] == name), is_ready=True)

    def _forget_group(self, name: str) -> None:
        self._parts.subscriptions.drop_group(name)
        active = self._receiver.active
        for leases in [leases for leases, subscription in active.items() if subscription.group == name]:
            del active[leases]

    def _state(self, _peer: Peer, command: Command) -> bytes:
        """Handle 9033: a group's state in each queue."""
        header = command.read(LeaseStateHeader)
        states: list[LeaseQueueState] = []
        for subscription in self._parts.subscriptions.of_group(header.group):
            if header.topic not in {None, subscription.topic}:
                continue
            for leases in subscription.queues.values():
                counts = dict.fromkeys(Kind, 0)
                for run in leases.table.runs:
                    counts[run.kind] += run.mask.bit_count()
                states.append(
                    LeaseQueueState(
                        subscription.topic,
                        leases.queue_id,
                        leases.table.low,
                        counts[Kind.LEASED],
                        counts[Kind.WAITING],
                        counts[Kind.DUE],
                        counts[Kind.HELD],
                        counts[Kind.DEAD],
                        subscription.filter.kind,
                        subscription.filter.expression,
                    )
                )
        return encode_response(ResponseCode.SUCCESS, command.opaque, None, msgspec.json.encode(states))


def _ready(opaque: int, *, is_ready: bool) -> bytes:
    return encode_response(ResponseCode.SUCCESS, opaque, WaitReplyHeader(ready=is_ready))


def _loop_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
