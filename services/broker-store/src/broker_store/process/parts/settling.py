"""Builds settling over an opened store."""

from broker_store.commit.appends import Appends, AtTurnEnd
from broker_store.commit.targets import Targets
from broker_store.opening.opened_store import OpenedStore
from broker_store.process.disk_care import DiskCare
from broker_store.reading.repaired_reads import RepairedReads
from broker_store.settling.claims import ClaimTable
from broker_store.settling.request.ahead import Ahead
from broker_store.settling.request.slices import Slices
from broker_store.settling.settling import Settling
from gantry_chassis.machine.fine_timer import FineTimer


def build_settling(
    store: OpenedStore,
    appends: Appends,
    targets: Targets,
    at_turn_end: AtTurnEnd,
    care: DiskCare,
    reads: RepairedReads,
    *,
    fast_path: bool,
) -> Settling:
    """Return settling over an opened store."""
    clock = store.clock
    return Settling(
        log=store.log,
        appends=appends,
        queues=store.queues,
        topics=store.topics,
        targets=targets,
        table=store.states.settled,
        copies=store.states.transactions,
        group_decisions=store.states.leases,
        levels=store.levels,
        clock=clock,
        claims=ClaimTable(store.boot_count, store.environment.secret_below),
        slices=Slices(at_turn_end, clock.monotonic),
        ahead=Ahead(clock, FineTimer),
        roll_below=lambda: care.roll_below,
        has_fast_path=fast_path,
        reads=reads,
    )
