"""Builds settling over an opened store."""

from broker_store.commit.appends import Appends, AtTurnEnd
from broker_store.commit.targets import Targets
from broker_store.opening.opening import OpenedStore
from broker_store.process.disk_care import DiskCare
from broker_store.settling.settling import Settling, SettlingParts


def build_settling(
    store: OpenedStore,
    appends: Appends,
    targets: Targets,
    at_turn_end: AtTurnEnd,
    care: DiskCare,
    *,
    fast_path: bool,
) -> Settling:
    """Return settling over an opened store."""
    return Settling(
        SettlingParts(
            store.log, appends, store.queues, store.topics, targets, store.states.settled,
            store.states.transactions, store.levels, store.clock, store.boot_count, store.environment.secret_below, at_turn_end,
            lambda: care.roll_below, fast_path,
        )
    )  # fmt: skip
