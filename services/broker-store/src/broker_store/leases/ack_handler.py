"""Requests 9031 and 9032: acknowledge messages, give them back, or extend their leases. One log record holds all changes of a request.

An item with a valid lease is held while its record is written, and settled when the record is visible. The
answer is sent when it is durable. A lease that a restart forgot is adopted (adoption.py), unless the message was leased
again since, or lost.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from broker_store.commit.queues import QueueTable
from broker_store.commit.topics import TopicTable
from broker_store.groups.groups import GroupTable
from broker_store.leases.adoption import Adoption
from broker_store.leases.lease_table.handle_state import HandleState
from broker_store.leases.lease_table.runs import Kind, ranges_of
from broker_store.leases.message_moves import MessageMoves
from broker_store.leases.note_bodies import LeaseNote, QueueNote
from broker_store.leases.note_writer import Answered, NoteWriter
from broker_store.leases.queue_scan import Cold
from broker_store.leases.receive_handler import Receiver
from broker_store.leases.subscription_opening import Opener, attempts_max, is_in_order
from broker_store.leases.subscriptions import QueueLeases, Subscription, Subscriptions
from broker_store.ports import Peer
from broker_store.retrying.policy import policy_of
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.names import RETRY_PREFIX, retry_topic
from gantry_wire.private_requests.leases import (
    INVISIBLE_MS_MAX,
    REASON_CHARS_MAX,
    ExtendReplyHeader,
    ItemKind,
    ItemStatus,
    LeaseItemsHeader,
    read_reasons,
    unpack_items,
)
from gantry_wire.private_requests.settling import SettleStatus

ADOPTED_MS = 60_000
"""How long a lease that a restart forgot is kept for the consumer that still has its handle."""
IN_PLACE_MS_MAX = 30_000
"""A message given back for longer waits in the system queue of delays, because it would hold up the group's offset here."""
_WITH_REASON = frozenset({ItemKind.NACK, ItemKind.DEAD})
REASONS_MAX = 1000
"""Reasons kept per queue, for dead letters."""
_DONE, _EXPIRED, _INVALID, _FAILED = map(int, ItemStatus)

Send = Callable[[bytes], object]


class ItemsAsk(NamedTuple):
    """A request about leased messages, of one protocol."""

    command: Command
    header: LeaseItemsHeader
    items: Sequence[tuple[int, int, int, int, int, int]]
    """The fields of each LeaseItem."""
    reply: Callable[[bytes], bytes]
    """Returns the answer in the protocol's form, from an ItemStatus byte per item."""


Item = tuple[int, int, int, int, int]
"""Offset, lease, place in the request, kind, delay in ms."""
_FOR_GOOD = frozenset({ItemKind.ACK, ItemKind.DEAD})
"""Kinds that end a message: to repeat one changes nothing."""
_LEFT = frozenset({SettleStatus.ALREADY, SettleStatus.REMOVED, SettleStatus.BAD_ITEM})
"""Why no dead letter is written: there is one from before a reset, or the message is gone."""


class Moved(NamedTuple):
    """A message to be moved: to the delays, for longer than `IN_PLACE_MS_MAX`, or with no delay to the dead letters."""

    subscription: Subscription
    leases: QueueLeases
    offset: int
    delay_ms: int | None
    place: int
    """Its item in the request."""


class Earlier(NamedTuple):
    """The first item of a request that names a message under a lease."""

    place: int
    kind: int


Repeat = tuple[int, int, int, int, Earlier]
"""Offset, lease, place in the request and kind of an item that repeats an earlier one."""


class Change(NamedTuple):
    """Messages of one queue with one outcome: done, or due again at `due_ms` (nack)."""

    subscription: Subscription
    leases: QueueLeases
    first: int
    mask: int
    is_nack: bool
    due_ms: int = 0
    attempt: int = 0


class Request:
    """One request in flight."""

    __slots__ = ("changes", "moved", "statuses")

    def __init__(self, count: int) -> None:
        self.statuses = bytearray(count)
        self.changes: list[Change] = []
        self.moved: list[Moved] = []


@dataclass(frozen=True, slots=True, eq=False)
class Acker:
    """Answers acknowledgements and extensions."""

    queues: QueueTable
    topics: TopicTable
    groups: GroupTable
    subscriptions: Subscriptions
    opener: Opener
    notes: NoteWriter
    receiver: Receiver
    adoption: Adoption
    moves: MessageMoves
    now_ms: Callable[[], int]
    """Store time."""
    steady_ms: Callable[[], int]
    """The clock by which leases and waits end. Nothing moves it ahead."""
    rng: Callable[[], float]
    """Returns random numbers from 0 to 1, for delays with jitter."""

    # 9031

    def ack(self, peer: Peer, command: Command) -> bytes | None:
        """Settle items. Answers when the changes are durable."""
        header = command.read(LeaseItemsHeader)
        ask = ItemsAsk(command, header, list(unpack_items(command.body)), partial(_reply, command))
        return self.settle(peer, ask)

    def settle(self, peer: Peer, ask: ItemsAsk) -> bytes | None:
        """Settle items. None: the answer follows when the changes are durable. Raises RefusedRequest."""
        try:
            return self._settle(peer.send, ask, may_wait=False)
        except Cold as cold:
            self.receiver.deferred.answer(peer, ask.command, self._settle_slowly(ask, cold))
            return None

    async def settled(self, ask: ItemsAsk) -> bytes:
        """Settle items and return the answer. Raises RefusedRequest."""
        return await self._settle_slowly(ask, None)

    async def _settle_slowly(self, ask: ItemsAsk, cold: Cold | None) -> bytes:
        """Read the bytes in a thread, then judge all items again: nothing was written yet."""
        if cold is not None:
            await self.receiver.warm(cold)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def send(data: bytes) -> None:
            if not answer.done():  # cancelled where the store ends
                answer.set_result(data)

        reply = self._settle(send, ask, may_wait=True)
        return await answer if reply is None else reply

    def _settle(self, send: Send, ask: ItemsAsk, *, may_wait: bool) -> bytes | None:
        """Settle items. None: `send` gets the answer when the changes are durable. Raises Cold."""
        request = Request(len(ask.items))
        reasons = read_reasons(ask.header.reasons)
        now_ms = self.steady_ms()
        for subscription, leases, of_queue in self._queues(ask, request):
            for one in [one for one in of_queue if leases.is_reset(one[0])] if leases.resets else ():
                of_queue.remove(one)
                request.statuses[one[2]] = _EXPIRED
            _note_reasons(leases, of_queue, reasons)
            first, repeats = _split_repeats(of_queue)
            self._judge_all(subscription, leases, first, request, now_ms, may_wait=may_wait)
            for offset, lease, place, kind, earlier in repeats:
                was_acked = request.statuses[earlier.place] == _DONE and earlier.kind == ItemKind.ACK
                is_done = was_acked or self._is_done(leases, offset, lease, now_ms)
                request.statuses[place] = _DONE if is_done and kind == ItemKind.ACK else _EXPIRED
        if not request.changes and not request.moved:
            return ask.reply(bytes(request.statuses))
        self._write(send, ask, request)
        return None

    def _judge_all(
        self,
        subscription: Subscription,
        leases: QueueLeases,
        items: list[Item],
        request: Request,
        now_ms: int,
        *,
        may_wait: bool,
    ) -> None:
        """Decide the items of one queue, sorted, run by run. Under one lease no message occurs twice."""
        at = 0
        while at < len(items):
            offset, lease, place, kind, delay_ms = items[at]
            run = leases.table.runs.find(offset)
            is_held = (
                run is not None and run.lease == lease and run.kind is Kind.LEASED and run.time_ms > now_ms
            )
            if not is_held:
                handle_state = self.adoption.state(
                    subscription, leases, (offset, lease), now_ms, now_ms + ADOPTED_MS, may_wait=may_wait
                )
                if handle_state is not HandleState.HELD:
                    request.statuses[place] = (
                        _DONE if handle_state is HandleState.DONE and kind in _FOR_GOOD else _EXPIRED
                    )
                    at += 1
                    continue
                run = leases.table.runs.find(offset)
            assert run is not None
            first, mask, end = run.first, 0, run.end
            begin = at
            while (
                at < len(items)
                and items[at][0] < end
                and items[at][1] == lease
                and items[at][3:] == (kind, delay_ms)
            ):
                bit = 1 << (items[at][0] - first)
                if not run.mask & bit:
                    break
                mask |= bit
                request.statuses[items[at][2]] = _DONE
                at += 1
            if kind == ItemKind.RELEASE:
                leases.table.give_back(first, mask, lease)
            elif kind == ItemKind.ACK:
                request.changes.append(Change(subscription, leases, first, mask, is_nack=False))
            else:
                wait_ms = (
                    None if kind == ItemKind.DEAD else self._wait_ms(subscription, run.attempt, delay_ms)
                )
                if wait_ms is None or self._waits_elsewhere(subscription, leases, run.attempt, wait_ms):
                    request.moved += [
                        Moved(subscription, leases, item[0], wait_ms, item[2]) for item in items[begin:at]
                    ]
                    continue
                change = Change(subscription, leases, first, mask, True, now_ms + wait_ms, run.attempt)
                request.changes.append(change)

    def _is_done(self, leases: QueueLeases, offset: int, lease: int, now_ms: int) -> bool:
        return leases.table.handle_state(offset, lease, now_ms, self.receiver.is_ours) is HandleState.DONE

    def _wait_ms(self, subscription: Subscription, attempt: int, asked_ms: int) -> int:
        """Return how long a message that is given back waits: as requested, or by the group's policy."""
        if asked_ms >= 0:
            return asked_ms
        config = self.groups.find(subscription.group)
        policy = None if config is None else policy_of(config.attributes)
        return 0 if policy is None else policy.wait_ms(attempt - 1, self.rng)

    def _waits_elsewhere(
        self, subscription: Subscription, leases: QueueLeases, attempt: int, wait_ms: int
    ) -> bool:
        """Whether a message that is given back waits in another queue.

        Not in order: the next message of its key waits for it.
        """
        if wait_ms <= IN_PLACE_MS_MAX or leases.table.in_order:
            return False
        return attempt < attempts_max(self.groups.find(subscription.group))

    def _write(self, send: Send, ask: ItemsAsk, request: Request) -> None:
        """Write the changes, one record per topic, and answer when all are durable."""
        work: dict[str, tuple[Subscription, list[Change]]] = {}
        for change in request.changes:
            work.setdefault(change.subscription.topic, (change.subscription, []))[1].append(change)
        left = len(work) + len(request.moved)
        failed: list[RefusedRequest] = []

        def answered(refusal: RefusedRequest | None) -> None:
            nonlocal left
            left -= 1
            if refusal is not None:
                failed.append(refusal)
            if left:
                return
            if failed:
                first = failed[0]
                send(encode_response(first.code, ask.command.opaque, first.fields, remark=first.remark))
            else:
                send(ask.reply(bytes(request.statuses)))

        for subscription, changes in work.values():
            self._write_changes(subscription, changes, answered)
        for moved in request.moved:
            subscription, leases, offset, delay_ms, _place = moved
            self.moves.send(subscription, leases, offset, delay_ms, self._sent(request, moved, answered))

    def _sent(self, request: Request, moved: Moved, answered: Answered) -> Callable[[str], None]:
        subscription, leases, offset, delay_ms, place = moved

        def sent(failure: str) -> None:
            run = leases.table.runs.find(offset)
            if delay_ms is None and failure in _LEFT and run is not None:
                self._write_changes(
                    subscription, [Change(subscription, leases, offset, 1, is_nack=False)], answered
                )
                return
            if delay_ms is not None and failure == SettleStatus.ALREADY and run is not None:
                # It was sent on before the group was reset, and an item is settled once: this time it waits
                # in its place.
                due_ms = self.steady_ms() + delay_ms
                self._write_changes(
                    subscription,
                    [Change(subscription, leases, offset, 1, True, due_ms, run.attempt)],
                    answered,
                )
                return
            if failure:
                request.statuses[place] = _FAILED
            answered(None)

        return sent

    def _write_changes(self, subscription: Subscription, changes: list[Change], answered: Answered) -> None:
        for change in changes:
            change.leases.table.hold_for(change.first, change.mask)
        note = LeaseNote(subscription.group, subscription.topic, _queue_notes(changes))

        def on_visible() -> None:
            if not self.subscriptions.apply_if_dropped(subscription, note):
                self._make_visible(subscription, changes)

        def on_written(refusal: RefusedRequest | None) -> None:
            if refusal is not None:
                for change in changes:
                    change.leases.table.withdraw(change.first, change.mask)
            answered(refusal)

        try:
            self.notes.write(note, on_visible, on_written)
        except RefusedRequest as error:
            on_written(error)

    def _make_visible(self, subscription: Subscription, changes: list[Change]) -> None:
        now_ms = self.steady_ms()
        tries = attempts_max(self.groups.find(subscription.group))
        is_due = False
        for _one, leases, first, mask, is_nack, due_ms, _attempt in changes:
            table = leases.table
            if is_nack:
                table.put_back(first, mask, due_ms, now_ms, tries)
                is_due = True
                continue
            table.settle(first, mask)
            if leases.reasons:
                for offset in [offset for offset in leases.reasons if table.runs.find(offset) is None]:
                    del leases.reasons[offset]
            is_due = is_due or table.in_order
        for leases in {id(change.leases): change.leases for change in changes}.values():
            self.opener.keep_in_step(subscription, leases)
        if is_due:
            self.moves.collect(subscription)

    # 9032

    def extend(self, peer: Peer, command: Command) -> bytes | None:
        """Handle 9032."""
        header = command.read(LeaseItemsHeader)

        def reply(statuses: bytes) -> bytes:
            until = ExtendReplyHeader(until_ms=self.now_ms() + (header.invisible_ms or 0))
            return encode_response(ResponseCode.SUCCESS, command.opaque, until, statuses)

        return self.move_end(peer, ItemsAsk(command, header, list(unpack_items(command.body)), reply))

    def move_end(self, peer: Peer, ask: ItemsAsk) -> bytes | None:
        """Make leases end at another time, `invisible_ms` of the header from now. Kept in memory only. Raises RefusedRequest."""
        try:
            return self._move_end(ask, may_wait=False)
        except Cold as cold:
            self.receiver.deferred.answer(peer, ask.command, self._move_end_slowly(ask, cold))
            return None

    async def _move_end_slowly(self, ask: ItemsAsk, cold: Cold) -> bytes:
        await self.receiver.warm(cold)
        return self._move_end(ask, may_wait=True)

    def _move_end(self, ask: ItemsAsk, *, may_wait: bool) -> bytes:
        invisible_ms = ask.header.invisible_ms or 0
        if not 1 <= invisible_ms <= INVISIBLE_MS_MAX:
            remark = f"invisibleMs is {invisible_ms}, it may be 1 to {INVISIBLE_MS_MAX}"
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)
        request = Request(len(ask.items))
        now_ms = self.steady_ms()
        for subscription, leases, of_queue in self._queues(ask, request):
            for offset, lease, place, _kind, _delay in of_queue:
                handle_state = self.adoption.state(
                    subscription, leases, (offset, lease), now_ms, now_ms + invisible_ms, may_wait=may_wait
                )
                request.statuses[place] = _DONE if handle_state is HandleState.HELD else _EXPIRED
                if handle_state is HandleState.HELD:
                    leases.table.extend(offset, 1, lease, now_ms + invisible_ms)
        return ask.reply(bytes(request.statuses))

    def _queues(
        self, ask: ItemsAsk, request: Request
    ) -> Iterator[tuple[Subscription, QueueLeases, list[Item]]]:
        """Yield the items by queue. Items of a missing queue or of an unknown group are invalid."""
        header, items = ask.header, ask.items
        if self.topics.find(header.topic) is None:
            remark = f"topic[{header.topic}] not exist, apply first please!"
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, remark)
        config = self.groups.find(header.group)
        if config is None and not any(self.receiver.is_ours(one[4]) for one in items):
            config = self.groups.find_or_create(
                header.group
            )  # a crash may have come before the group was saved
        for (is_retry, queue_id), of_queue in _by_queue(items).items():
            topic = retry_topic(header.group) if is_retry else header.topic
            if config is not None and self.queues.find(topic, queue_id) is not None:
                subscription = self.subscriptions.open(header.group, topic)
                leases = self._leases(subscription, queue_id, config)
                if leases is not None:
                    yield subscription, leases, of_queue
                    continue
            for item in of_queue:
                request.statuses[item[2]] = _INVALID

    def _leases(
        self, subscription: Subscription, queue_id: int, config: SubscriptionGroupConfig
    ) -> QueueLeases | None:
        """Return a queue's current leases, None for a queue that never held a message."""
        is_retry = subscription.topic.startswith(RETRY_PREFIX)
        opened = self.opener.queue(subscription, queue_id, in_order=is_in_order(config) and not is_retry)
        return None if opened is None else opened[1]


def _split_repeats(items: list[Item]) -> tuple[list[Item], list[Repeat]]:
    """Sort the items of a queue. Return the first of each message and lease, and those that repeat one.

    A repeat is answered as a later request would be: it changes nothing.
    """
    items.sort()
    if all(one[0] != after[0] or one[1] != after[1] for one, after in pairwise(items)):
        return items, []
    first: list[Item] = []
    repeats: list[Repeat] = []
    for item in items:
        offset, lease, place, kind, _delay_ms = item
        if first and first[-1][:2] == (offset, lease):
            repeats.append((offset, lease, place, kind, Earlier(*first[-1][2:4])))
        else:
            first.append(item)
    return first, repeats


def _by_queue(items: Sequence[tuple[int, int, int, int, int, int]]) -> dict[tuple[int, int], list[Item]]:
    by_queue: dict[tuple[int, int], list[Item]] = {}
    for place, (kind, is_retry, queue_id, offset, lease, delay_ms) in enumerate(items):
        item = (offset, lease, place, kind, delay_ms)
        key = (1 if is_retry else 0, queue_id)
        of_queue = by_queue.get(key)
        if of_queue is None:
            by_queue[key] = [item]
        else:
            of_queue.append(item)
    return by_queue


def _note_reasons(leases: QueueLeases, items: list[Item], reasons: dict[int, str]) -> None:
    for offset, _lease, place, kind, _delay in items if reasons else ():
        if kind in _WITH_REASON and place in reasons and len(leases.reasons) < REASONS_MAX:
            leases.reasons[offset] = reasons[place][:REASON_CHARS_MAX]


def _queue_notes(changes: list[Change]) -> list[QueueNote]:
    notes: dict[int, QueueNote] = {}
    for change in changes:
        note = notes.setdefault(change.leases.queue_id, QueueNote(change.leases.queue_id, None, [], []))
        flat = ranges_of(change.first, change.mask)
        if not change.is_nack:
            note.done += flat
            continue
        for at in range(0, len(flat), 2):
            note.failed += (flat[at], flat[at + 1], change.attempt)
    return list(notes.values())


def _reply(command: Command, statuses: bytes) -> bytes:
    return encode_response(ResponseCode.SUCCESS, command.opaque, None, statuses)
