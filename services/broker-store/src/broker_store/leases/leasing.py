"""Receive and acknowledge as one part of the store: the commands 9030 to 9034, timers, and calls from other parts.

Checks queues with leases or delays, and waits, every TICK_SECONDS while there are any. Logs expired leases every second.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import msgspec

from broker_store.groups.groups import GroupTable
from broker_store.groups.offset_keeper import Resume
from broker_store.leases.ack_handler import Acker
from broker_store.leases.lease_table.runs import Kind
from broker_store.leases.message_moves import MessageMoves
from broker_store.leases.note_bodies import LeaseNote, QueueNote
from broker_store.leases.note_writer import NoteWriter
from broker_store.leases.receive_handler import Receiver
from broker_store.leases.subscription_opening import attempts_max
from broker_store.leases.subscriptions import Subscription, Subscriptions
from broker_store.leases.wait_handler import Waits
from broker_store.ports import Commands, Peer
from gantry_chassis.logs.structured import get_logger
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.private_requests.leases import LeaseQueueState, LeaseStateHeader

TICK_SECONDS = 0.05
"""A lease or a delay ends at most this late."""
TICKS_PER_NOTE = 20
TICKS_PER_OFFER = 20
"""Ticks between two offers of messages that no receiver fetched."""


_log = get_logger()


class HasId(Protocol):
    """A closed connection."""

    @property
    def id(self) -> int:
        """Its number."""
        ...


class Leasing:
    """The leases as one part of the store."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        groups: GroupTable,
        notes: NoteWriter,
        waits: Waits,
        receiver: Receiver,
        acker: Acker,
        moves: MessageMoves,
        steady_ms: Callable[[], int],
    ) -> None:
        """`steady_ms` is the clock by which leases end."""
        self._subscriptions = subscriptions
        self._groups = groups
        self._notes = notes
        self.waits = waits
        self.receiver = receiver
        self.acker = acker
        self._moves = moves
        self._steady_ms = steady_ms
        self._ticks = 0

    # --- calls from the rest of the store ---

    def commands(self) -> Commands:
        """Return the table entries."""
        return {
            GantryCode.RECEIVE: ("pull", self.receiver.handle),
            GantryCode.ACK: ("ack", self.acker.ack),
            GantryCode.EXTEND_LEASE: ("ack", self.acker.extend),
            GantryCode.LEASE_STATE: ("adminBroker", self._state),
            GantryCode.WAIT_FOR_MESSAGES: ("pull", self.waits.wait),
        }

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops."""
        return {"leases": self._run, "filters": partial(self.roll, 0)}

    @property
    def in_flight(self) -> int:
        """Messages leased, waiting, due or held. For metrics."""
        return sum(leases.table.runs.count for leases in self.receiver.active)

    @property
    def received(self) -> int:
        """Messages delivered since the start. For metrics."""
        return self.receiver.messages

    @property
    def dead_letters(self) -> int:
        """Dead letters written since the start. For metrics."""
        return self._moves.dead_letters

    def topic_deleted(self, topic: str) -> None:
        """Answer the waits on a deleted topic: their next receive reports it."""
        self.waits.topic_deleted(topic)
        active = self.receiver.active
        for leases in [leases for leases, subscription in active.items() if subscription.topic == topic]:
            del active[leases]

    def offset_set(self, group: str, topic: str, queue_id: int, offset: int, on_written: Resume) -> bool:
        """Handle a new offset of a group: everything from there on is delivered again, and current leases are dropped.

        The log must have it before the caller answers. True: calls `on_written` with None, or with the
        error. False: nothing was delivered from there on, so there is nothing to drop, and the offset alone
        is enough.
        """
        subscription = self._subscriptions.find(group, topic)
        leases = None if subscription is None else subscription.queues.get(queue_id)
        if subscription is None or leases is None or offset >= leases.table.unseen.next:
            return False
        note = LeaseNote(group, topic, [QueueNote(queue_id, offset)])

        leases.resets.append(offset)

        def on_visible() -> None:
            leases.resets.remove(offset)
            self._subscriptions.apply(note)

        def answered(refusal: RefusedRequest | None) -> None:
            if refusal is not None:
                leases.resets.remove(offset)
            on_written(None if refusal is None else OSError(refusal.remark))

        try:
            self._notes.write(note, on_visible, answered)
        except RefusedRequest as refusal:
            answered(refusal)
        return True

    def closed(self, peer: HasId) -> None:
        """Drop the waits of a closed connection. Its leases stay: they belong to the holder of the handles."""
        self.waits.close_peer(peer.id)

    async def close(self) -> None:
        """Answer waits and finish running work."""
        self.waits.close()
        await self._moves.close()
        await self.receiver.deferred.close()

    # --- time ---

    async def _run(self) -> None:
        work = self.receiver.work
        while True:
            await work.wait()
            await asyncio.sleep(TICK_SECONDS)
            self.tick()
            if not (self.receiver.active or self.waits.count):
                work.clear()

    def tick(self) -> None:
        """Advance time: end leases and delays, log what ended, offer what is due, end waits."""
        self._ticks += 1
        now_ms = self._steady_ms()
        active = self.receiver.active
        for leases, subscription in list(active.items()):
            table = leases.table
            is_timed_out = table.is_timed_out(now_ms)
            if is_timed_out:
                table.expire(now_ms, attempts_max(self._groups.find(subscription.group)))
            if is_timed_out or table.dead:  # a receive may have ended leases before this tick
                self._moves.collect(subscription)
            if not len(table.runs) and not table.failed:
                del active[leases]
        self.waits.expire(offer=self._ticks % TICKS_PER_OFFER == 0)
        if self._ticks % TICKS_PER_NOTE == 0:
            self._note_failed()

    def _note_failed(self) -> None:
        """Log the leases that expired since the last call."""
        by_subscription: dict[int, tuple[Subscription, list[QueueNote]]] = {}
        for leases, subscription in self.receiver.active.items():
            if leases.table.failed:
                failed, leases.table.failed = leases.table.failed, []
                flat = [value for values in failed for value in values]
                by_subscription.setdefault(id(subscription), (subscription, []))[1].append(
                    QueueNote(leases.queue_id, failed=flat)
                )
        for subscription, notes in by_subscription.values():
            note = LeaseNote(subscription.group, subscription.topic, notes)
            self._notes.write_unanswered(
                note, partial(self._subscriptions.apply_if_dropped, subscription, note)
            )

    # --- groups ---

    def group_changed(self, name: str) -> None:
        """Log that a deleted group is forgotten. Apply changed settings of other groups at once."""
        config = self._groups.find(name)
        if config is None:
            if self._subscriptions.of_group(name):
                # Forget it when the log has the note: notes of the group that are in flight precede this
                # one.
                self._notes.write_unanswered(LeaseNote(name, "", gone=True), lambda: self._forget_group(name))
        elif not config.consume_enable:
            self.waits.answer_group(name)

    def _forget_group(self, name: str) -> None:
        self._subscriptions.drop_group(name)
        active = self.receiver.active
        for leases in [leases for leases, subscription in active.items() if subscription.group == name]:
            del active[leases]

    async def roll(self, below: int) -> None:
        """Append the filters again that only records below a position hold. What cannot be appended keeps its segment.

        Below 0: those that a snapshot of an earlier version has, whose records retention may have deleted. Not a filter that is being changed:
        the record of the new one must be the later one.
        """
        for subscription in self._subscriptions.filters_below(below):
            if subscription.coming is None:
                refusal = await self._append_filter(subscription)
                if refusal is not None:
                    _log.warning("filters keep a segment that is due for deletion", reason=refusal.remark)
                    return

    async def _append_filter(self, subscription: Subscription) -> RefusedRequest | None:
        done: asyncio.Future[RefusedRequest | None] = asyncio.get_running_loop().create_future()
        note = LeaseNote(subscription.group, subscription.topic, filter=subscription.filter)

        def on_visible() -> None:
            # Not if the group or the topic was deleted meanwhile: that is later in the log.
            if self._subscriptions.find(note.group, note.topic) is subscription:
                self._subscriptions.apply(note)

        def answered(refusal: RefusedRequest | None) -> None:
            if not done.done():
                done.set_result(refusal)

        try:
            self._notes.write(note, on_visible, answered)
        except RefusedRequest as refusal:
            return refusal
        return await done

    def _state(self, _peer: Peer, command: Command) -> bytes:
        """Handle 9033: a group's state in each queue."""
        header = command.read(LeaseStateHeader)
        states: list[LeaseQueueState] = []
        for subscription in self._subscriptions.of_group(header.group):
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
