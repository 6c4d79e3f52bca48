"""What a simulated life of a group is like: drawn once from its seed, so that lives differ in kind and not only in luck."""

import random
from dataclasses import dataclass, replace

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
    retain_ms: int
    """How often a leader deletes the beginning of its log. 0: never."""


def draw(seed: random.Random, nodes: int) -> Profile:
    """Draw a profile. A quarter of the lives are quick takeovers among replicas that read an old register, with old leaders that wake up."""
    profile = _draw(seed, nodes)
    if seed.random() >= 0.25:
        return profile
    faults = (
        ("crash", 3),
        ("crash_leader", 1),
        ("pause_leader", 3),
        ("freeze_reads", 4),
        ("isolate_leader", 1),
    )
    return replace(
        profile, faults=faults, fault_ms=300, down_ms=30, sync_ms=3, persist_ms=10, delay_ms=5, register_ms=10,
        append_ms=100, register_lost=0, lost=0, stale=0.3, retain_ms=seed.choice((0, 0, 300)),
    )  # fmt: skip


def _draw(seed: random.Random, nodes: int) -> Profile:
    one_of = seed.choice
    return Profile(
        min_in_sync=one_of((1, 2) if nodes > 2 else (1, 1, 2)),
        append_ms=one_of((15, 100, 300, 600)),
        sync_ms=one_of((2, 10, 80)),
        persist_ms=one_of((2, 30, 200)),
        delay_ms=one_of((2, 10, 60)),
        late=one_of((0, 0.01, 0.05)),
        late_ms=one_of((300, 1500, 4000)),
        lost=one_of((0, 0.01, 0.08)),
        doubled=one_of((0, 0.05)),
        register_ms=one_of((5, 40, 150)),
        register_lost=one_of((0, 0.1, 0.4)),
        stale=one_of((0, 0.3, 0.8)),
        drift=one_of((0, DRIFT_MAX)),
        fault_ms=one_of((100, 300, 1000, 3000)),
        faults=(
            ("crash", one_of((0.5, 2, 4))),
            ("crash_leader", one_of((0, 1, 3))),
            ("power_cut", one_of((0, 0.2))),
            ("pause", one_of((0, 1, 3))),
            ("pause_leader", one_of((0, 1, 2))),
            ("cut_links", one_of((0, 1, 3))),
            ("isolate_leader", one_of((0, 1, 2))),
            ("register_away", one_of((0, 0.3, 1))),
            ("freeze_reads", one_of((0, 1, 4))),
            ("replace", one_of((0, 0, 0.1, 0.4))),
            ("resign", one_of((0, 0.5, 2))),
        ),
        power=one_of((0, 0.5, 1)),
        down_ms=one_of((30, 200, 1500)),
        calm=one_of((0, 0.3)),
        retain_ms=one_of((0, 0, 300, 3000)),
    )
