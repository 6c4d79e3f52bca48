"""Builds the parts of delayed sends over an opened store."""

from broker_store.appends import Appends
from broker_store.delays.delays import Delays
from broker_store.delays.recall import RecallParts, Recalls
from broker_store.opened import OpenedStore
from broker_store.targets import Targets


def build_delays(store: OpenedStore) -> Delays:
    """Return what decides about messages with a delay."""
    settings = store.settings
    horizon_ms = settings.delay_horizon_seconds * 1000
    return Delays(store.levels, horizon_ms, settings.broker_name, store.queues.open, store.clock.now_ms)


def build_recalls(store: OpenedStore, delays: Delays, targets: Targets, appends: Appends) -> Recalls:
    """Return what takes timed messages back."""
    is_enabled = store.settings.recall_enable
    return Recalls(RecallParts(delays, store.topics, targets, appends, store.clock.now_ms, is_enabled))
