"""Builds the leases from the two halves of the store."""

from broker_store.leases.dead_lettering import DeadLetteringParts
from broker_store.leases.leasing import Leasing
from broker_store.leases.parts import LeaseParts
from broker_store.opening.opened import OpenedStore
from broker_store.process.building import Surroundings
from broker_store.process.reading import Consuming
from broker_store.process.sending import Sending
from broker_store.requests.deferred_replies import DeferredReplies


def build_leasing(
    around: Surroundings, store: OpenedStore, sending: Sending, consuming: Consuming
) -> Leasing:
    """Return the leases, connected to arrivals, topic deletions and offset changes."""
    parts = LeaseParts(
        log=store.log,
        queues=store.queues,
        topics=store.topics,
        targets=sending.targets,
        groups=consuming.groups,
        offsets=consuming.offsets,
        metrics=consuming.metrics,
        settings=consuming.settings,
        appends=sending.appends,
        subscriptions=store.states.leases,
        deferred=DeferredReplies(around.classes["pull"], around.now_ms),
        in_thread=consuming.in_thread,
        now_ms=around.now_ms,
        steady_ms=store.clock.steady_ms,
        rng=store.environment.rng.random,
        boot=store.boot_count,
    )
    leasing = Leasing(parts, DeadLetteringParts(sending.settling, sending.retries, lambda _group: ""))
    consuming.lease_arrivals = leasing
    consuming.keeper.before_commit = leasing.offset_set
    sending.removal.on_removed.append(leasing.topic_deleted)
    watch, counted = consuming.metrics.watch, consuming.metrics.counted
    watch("gantry_store_leased_messages", "Messages leased, waiting, due or held.", lambda: leasing.in_flight)
    counted("gantry_store_received_messages", "Messages delivered with a lease.", lambda: leasing.received)
    counted("gantry_store_lease_dead_letters", "Dead letters of leases.", lambda: leasing.dead_letters)
    watch("gantry_store_held_receives", "Receives that wait for a message.", lambda: leasing.held_count)
    return leasing
