"""protectBroker: finds groups that read so far behind the log's end that they evict other groups' data from the page cache."""

from broker_store.metrics.store_metrics import StoreMetrics
from gantry_wire.names import GATEWAY_GROUP


def groups_too_far_behind(metrics: StoreMetrics, behind_bytes_max: int) -> list[tuple[str, int]]:
    """Return (group, bytes behind) of the groups beyond the limit, by their worst topic."""
    worst: dict[str, int] = {}
    for (_topic, group), reads in metrics.groups.items():
        if reads.behind_bytes > behind_bytes_max and group != GATEWAY_GROUP:
            worst[group] = max(worst.get(group, 0), reads.behind_bytes)
    return list(worst.items())
