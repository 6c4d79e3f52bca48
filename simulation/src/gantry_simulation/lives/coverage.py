"""Which faults happened together with which features, over many lives. A zero is a combination that nothing was learned about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gantry_simulation.lives.faults.table import FAULTS
from gantry_simulation.lives.operations.table import OPERATIONS
from gantry_simulation.lives.plan import (
    CHECKER,
    CONCURRENT,
    GATEWAY,
    NAMESERVER,
    NATS,
    ORDERLY,
    PAYER,
    POLLING,
    PRODUCER,
    PULLING,
    SCHEDULER,
    VALKEY,
    Shape,
)

NONE = "no fault"
KINDS = (NAMESERVER, SCHEDULER, CHECKER, GATEWAY, PRODUCER, PAYER, CONCURRENT, ORDERLY, POLLING, PULLING)


def features_of(shape: Shape) -> list[str]:
    """Return what is special about the shape of a life."""
    found = [f"flush={flush}" for flush in sorted({store.flush for store in shape.stores})]
    found += ["no index"] if any(not store.index for store in shape.stores) else []
    found += ["slow paths"] if any(not store.fast_paths for store in shape.stores) else []
    found += ["slow disk"] if any(store.has_slow_disk for store in shape.stores) else []
    found += ["two stores"] if len(shape.stores) > 1 else []
    found += [kind for kind, count in shape.counts().items() if kind in KINDS and count]
    found += [NATS] if shape.nats else []
    found += [VALKEY] if shape.valkey else []
    found += ["last power cut"] if shape.ends_with_power_cut else []
    found += ["rough network"] if shape.has_rough_network else []
    found += [f"{shape.replicas} replicas"] if shape.replicas else []
    found += ["asynchronous replication"] if shape.is_async else []
    found += ["clocks of other rates"] if shape.clock_drift else []
    found += ["last takeovers"] if shape.last_takeovers else []
    return found


FEATURES = (
    *OPERATIONS, "flush=sync", "flush=async", "no index", "slow paths", "slow disk", "two stores", *KINDS, NATS, VALKEY,
    "last power cut", "rough network", "3 replicas", "5 replicas", "asynchronous replication", "clocks of other rates", "last takeovers",
)  # fmt: skip


class Coverage:
    """Counts lives."""

    def __init__(self) -> None:
        self._pairs: Counter[tuple[str, str]] = Counter()

    def add(self, shape: Shape, happened: Iterable[str]) -> None:
        """Count one life: its shape, and the kinds of acts that had an effect."""
        kinds = set(happened)
        faults = [kind for kind in FAULTS if kind in kinds] or [NONE]
        features = [kind for kind in OPERATIONS if kind in kinds] + features_of(shape)
        self._pairs.update((fault, feature) for fault in faults for feature in features)

    def lines(self) -> list[str]:
        """Return a table: a row per feature, a column per fault."""
        faults = [*FAULTS, NONE]
        width = max(map(len, FEATURES)) + 1
        head = " " * width + " ".join(f"{_short(fault):>8}" for fault in faults)
        rows = [
            f"{feature:{width}}" + " ".join(f"{self._pairs[fault, feature]:8}" for fault in faults)
            for feature in FEATURES
        ]
        return [head, *rows]


def _short(fault: str) -> str:
    words = fault.split()
    return fault if len(fault) <= 8 else " ".join(word[:3] for word in words)[:8]
