"""What the drawing of every subject shares."""

from __future__ import annotations

import random
from collections.abc import Sequence

from gantry_simulation.lives.operations import delays
from gantry_simulation.lives.operations.http.sends import KEYED as KEYED_OVER_HTTP
from gantry_simulation.lives.operations.sends import KEYED
from gantry_simulation.lives.plan import CLIENT, STORE, Act, Shape, names

QUIET_SHARE = 0.1
"""Share of the lives without a fault."""
FAULTS_COUNT = (1, 7)
SPAN_MS = (10, 4_000)
BODY_SIZES = (16, 16, 100, 100, 1_000, 20_000)
DELAYS_MS = (-500, 6_000)
KEYS = 8
"""Idempotency keys of a life. Few, so that they repeat."""
FAULTS_BEGIN_MS = 500


def subset(rng: random.Random, names: Sequence[str]) -> list[str]:
    """Return some of the names, at least one."""
    chosen = [name for name in names if rng.random() < 0.5]
    return chosen or [rng.choice(names)]


def draw_operation(rng: random.Random, shape: Shape, kind: str, number: int, at_ms: int) -> Act:
    """Return an operation with drawn fields."""
    key = rng.randrange(KEYS)
    is_keyed = kind in (KEYED, KEYED_OVER_HTTP)
    stores = names(STORE, len(shape.stores))
    return Act(
        at_ms=at_ms,
        kind=kind,
        on=stores[(key if is_keyed else rng.randrange(1 << 16)) % len(stores)],
        by=rng.choice(names(CLIENT, shape.clients)),
        number=key if is_keyed else number,
        topic=(key if is_keyed else rng.randrange(1 << 16)) % shape.topics,
        queue=(key if is_keyed else rng.randrange(1 << 16)) % shape.queues,
        size=BODY_SIZES[key % len(BODY_SIZES)] if is_keyed else rng.choice(BODY_SIZES),
        span_ms=rng.randint(*DELAYS_MS) if kind in delays.SENDS else 0,
    )
