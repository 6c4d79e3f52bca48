"""What a simulated life of a group is like: drawn once from its seed, so that lives differ in kind and not only in luck."""

import random
from dataclasses import dataclass

LEASE_MS, GRACE_MS, BEAT_MS, LOOK_MS = 1000, 1500, 250, 2000
DRIFT_MAX = 0.15
"""Two clocks then differ by a factor of 1.35 at most: below grace / lease."""


@dataclass(frozen=True)
class Profile:
    min_in_sync: int
    append_ms: int
    sync_ms: int
    persist_ms: int
    delay_ms: int
    late: float
    late_ms: int
    lost: float
    doubled: float
    register_ms: int
    register_lost: float
    stale: float
    drift: float
    fault_ms: int
    faults: tuple[tuple[str, float], ...]
    power: float
    down_ms: int
    calm: float


def draw(seed: random.Random, nodes: int) -> Profile:
    one_of = seed.choice
    return Profile(
        min_in_sync=one_of((1, 2) if nodes > 2 else (1, 1, 2)),
        append_ms=one_of((15, 60, 150)),
        sync_ms=one_of((2, 10, 80)),
        persist_ms=one_of((2, 20, 150)),
        delay_ms=one_of((2, 10, 60)),
        late=one_of((0, 0.01, 0.05)),
        late_ms=one_of((300, 1500, 4000)),
        lost=one_of((0, 0.01, 0.08)),
        doubled=one_of((0, 0.05)),
        register_ms=one_of((5, 40, 150)),
        register_lost=one_of((0, 0.1, 0.4)),
        stale=one_of((0, 0.2, 0.6)),
        drift=one_of((0, DRIFT_MAX)),
        fault_ms=one_of((250, 700, 2000)),
        faults=(
            ("crash", one_of((0.5, 2, 4))),
            ("crash_leader", one_of((0, 1, 3))),
            ("power_cut", one_of((0, 0.2))),
            ("pause", one_of((0, 1, 3))),
            ("pause_leader", one_of((0, 1, 2))),
            ("cut_links", one_of((0, 1, 3))),
            ("isolate_leader", one_of((0, 1, 2))),
            ("register_away", one_of((0, 0.3, 1))),
            ("replace", one_of((0, 0, 0.1, 0.4))),
        ),
        power=one_of((0, 0.5, 1)),
        down_ms=one_of((30, 400, 2500)),
        calm=one_of((0, 0.3)),
    )
