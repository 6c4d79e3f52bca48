"""Builds the leases over the sending half, and joins their waits with held pulls."""

import asyncio
from collections.abc import Sequence

from broker_store.leases.ack_handler import Acker
from broker_store.leases.adoption import Adoption
from broker_store.leases.leasing import Leasing
from broker_store.leases.message_moves import MessageMoves
from broker_store.leases.note_writer import NoteWriter
from broker_store.leases.queue_scan import Scanner
from broker_store.leases.receive_handler import Receiver
from broker_store.leases.subscription_opening import Opener
from broker_store.leases.wait_handler import Waits
from broker_store.opening.opened_store import OpenedStore
from broker_store.process.foundation import ReadingBase, Surroundings
from broker_store.process.parts.sending import Sending
from broker_store.reading.pull_handler import Pulls
from broker_store.requests.deferred_replies import DeferredReplies


class WaitingReaders:
    """Held pulls, and the waits of clients that receive: every arrival goes to both."""

    def __init__(self, pulls: Pulls, waits: Waits) -> None:
        self._pulls = pulls
        self._waits = waits

    @property
    def held_count(self) -> int:
        """Number of held pulls and waits. While it is 0 no arrivals need be reported."""
        return self._pulls.held_count + self._waits.count

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        """Record readable messages, once per queue and batch."""
        self._pulls.arrived(topic, queue_id, first_offset, tags_codes)
        self._waits.arrived(topic, queue_id, tags_codes)

    def answer_arrivals(self) -> None:
        """Answer the pulls and waits that this batch's arrivals woke."""
        self._pulls.answer_arrivals()
        self._waits.answer_arrivals()


def build_leasing(around: Surroundings, store: OpenedStore, base: ReadingBase, sending: Sending) -> Leasing:
    """Return the leases, with their metrics."""
    queues, topics, groups, subscriptions = store.queues, store.topics, base.groups, store.states.leases
    now_ms, steady_ms = around.now_ms, store.clock.steady_ms
    opener = Opener(groups, topics, base.settings, queues, base.offsets, store.log)
    notes = NoteWriter(sending.appends, sending.targets, topics, queues, subscriptions, now_ms)
    work = asyncio.Event()
    waits = Waits(subscriptions, queues, topics, opener, work)
    scanner = Scanner(store.log, base.metrics)
    moves = MessageMoves(
        scanner, queues, topics, groups, subscriptions, opener, notes,
        sending.settling, sending.retries, waits.offer, base.in_thread, now_ms,
    )  # fmt: skip
    receiver = Receiver(
        scanner, queues, topics, subscriptions, opener, notes, base.metrics,
        DeferredReplies(around.classes["pull"], now_ms), base.in_thread, base.in_thread.can_repair, now_ms, steady_ms,
        store.boot_count, work,
    )  # fmt: skip
    acker = Acker(
        queues, topics, groups, subscriptions, opener, notes, receiver, Adoption(queues, scanner, receiver), moves,
        now_ms, steady_ms, store.environment.rng.random,
    )  # fmt: skip
    leasing = Leasing(subscriptions, groups, notes, waits, receiver, acker, moves, steady_ms)
    watch, counted = base.metrics.watch, base.metrics.counted
    watch("gantry_store_leased_messages", "Messages leased, waiting, due or held.", lambda: leasing.in_flight)
    counted("gantry_store_received_messages", "Messages delivered with a lease.", lambda: leasing.received)
    counted("gantry_store_lease_dead_letters", "Dead letters of leases.", lambda: leasing.dead_letters)
    watch("gantry_store_held_receives", "Receives that wait for a message.", lambda: waits.count)
    return leasing
