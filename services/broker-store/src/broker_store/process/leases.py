"""Builds the leases over the sending half, and joins their waits with held pulls."""

from collections.abc import Sequence

from broker_store.leases.leasing import Leasing
from broker_store.leases.parts import LeaseParts
from broker_store.opening.opened import OpenedStore
from broker_store.process.foundation import ReadingBase, Surroundings
from broker_store.process.sending import Sending
from broker_store.reading.pull_handler import Pulls
from broker_store.requests.deferred_replies import DeferredReplies


class WaitingReaders:
    """Held pulls, and the waits of clients that receive: every arrival goes to both."""

    def __init__(self, pulls: Pulls, leasing: Leasing) -> None:
        self._pulls = pulls
        self._leasing = leasing

    @property
    def held_count(self) -> int:
        """Number of held pulls and waits. While it is 0 no arrivals need be reported."""
        return self._pulls.held_count + self._leasing.held_count

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        """Record readable messages, once per queue and batch."""
        self._pulls.arrived(topic, queue_id, first_offset, tags_codes)
        self._leasing.arrived(topic, tags_codes)

    def answer_arrivals(self) -> None:
        """Answer the pulls and waits that this batch's arrivals woke."""
        self._pulls.answer_arrivals()
        self._leasing.answer_arrivals()


def build_leasing(around: Surroundings, store: OpenedStore, base: ReadingBase, sending: Sending) -> Leasing:
    """Return the leases, with their metrics."""
    parts = LeaseParts(
        log=store.log,
        queues=store.queues,
        topics=store.topics,
        targets=sending.targets,
        groups=base.groups,
        offsets=base.offsets,
        metrics=base.metrics,
        settings=base.settings,
        appends=sending.appends,
        subscriptions=store.states.leases,
        deferred=DeferredReplies(around.classes["pull"], around.now_ms),
        in_thread=base.in_thread,
        now_ms=around.now_ms,
        steady_ms=store.clock.steady_ms,
        rng=store.environment.rng.random,
        boot=store.boot_count,
    )
    leasing = Leasing(parts, sending.settling, sending.retries)
    watch, counted = base.metrics.watch, base.metrics.counted
    watch("gantry_store_leased_messages", "Messages leased, waiting, due or held.", lambda: leasing.in_flight)
    counted("gantry_store_received_messages", "Messages delivered with a lease.", lambda: leasing.received)
    counted("gantry_store_lease_dead_letters", "Dead letters of leases.", lambda: leasing.dead_letters)
    watch("gantry_store_held_receives", "Receives that wait for a message.", lambda: leasing.held_count)
    return leasing
