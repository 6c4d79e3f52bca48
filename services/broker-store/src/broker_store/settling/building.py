"""Builds the settling over an opened store."""

from broker_store.appends import Appends, AtTurnEnd
from broker_store.opened import OpenedStore
from broker_store.settling.settling import Settling, SettlingParts
from broker_store.targets import Targets


def build_settling(
    store: OpenedStore, appends: Appends, targets: Targets, at_turn_end: AtTurnEnd
) -> Settling:
    """Return the settling over an opened store."""
    return Settling(
        SettlingParts(
            store.log, appends, store.queues, store.topics, targets, store.states.settled,
            store.states.transactions, store.levels, store.clock, store.boot_count, at_turn_end,
        )
    )  # fmt: skip
