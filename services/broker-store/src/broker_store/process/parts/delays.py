"""Builds the parts of delayed sends over an opened store."""

from functools import partial

from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.appends import Appends
from broker_store.commit.targets import Targets
from broker_store.delays.delays import Delays
from broker_store.delays.instants import Now
from broker_store.delays.recall import Recalls
from broker_store.opening.opened_store import OpenedStore


def now_of(clock: StoreClock) -> Now:
    """Return the current times at which a delay begins."""
    return Now(clock.now_ms(), clock.wall_ms())


def build_delays(store: OpenedStore) -> Delays:
    """Return the part that handles messages with a delay."""
    settings = store.settings
    horizon_ms = settings.delay_horizon_seconds * 1000
    return Delays(
        store.levels, horizon_ms, settings.broker_name, store.queues.open, partial(now_of, store.clock)
    )


def build_recalls(store: OpenedStore, delays: Delays, targets: Targets, appends: Appends) -> Recalls:
    """Return the part that recalls timed messages."""
    is_enabled = store.settings.recall_enable
    return Recalls(delays, store.topics, targets, appends, store.clock.now_ms, is_enabled)
