"""Repairs for the readers of a replica's store."""

from broker_store.reading.repaired_reads import RepairAwaited, Repaired
from broker_store.replication.repairing import Repairing


def repairs_of(repairing: Repairing) -> Repaired:
    """Return what readers ask for a repair."""

    async def repaired(position: int) -> bool:
        if await repairing.want(position, is_exact=True):
            return True
        if repairing.may_come(position):
            raise RepairAwaited(position)
        return False

    return repaired
