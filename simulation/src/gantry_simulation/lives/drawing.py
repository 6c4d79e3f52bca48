"""Draws a plan from a seed. Each life has a random subset of operations and of faults, so that no fault hides behind another one."""

from __future__ import annotations

import random
from collections.abc import Sequence

from gantry_simulation.lives.faults.table import FAULTS, NETWORK_FAULTS, STORE_FAULTS
from gantry_simulation.lives.operations.sends import KEYED
from gantry_simulation.lives.operations.table import OPERATIONS, SENDS
from gantry_simulation.lives.operations.topics import DELETE
from gantry_simulation.lives.plan import Act, Plan, Shape, StoreShape, client_name, store_name

SECONDS = (6.0, 16.0)
OPERATIONS_COUNT = (30, 150)
FAULTS_COUNT = (1, 7)
SPAN_MS = (10, 4_000)
QUIET_SHARE = 0.1
"""Share of the lives without a fault."""
FAULTS_BEGIN_MS = 500
NEAR_MS = 8
"""A fault that strikes at an operation strikes within this time after it: requests take some of it to arrive."""
BODY_SIZES = (16, 16, 100, 100, 1_000, 20_000)
CHECKPOINT_SECONDS = (0.1, 0.5, 5.0)
KEYS = 8
"""Idempotency keys of a life. Few, so that they repeat."""


def draw_plan(seed: int) -> Plan:
    """Return the plan of a seed."""
    rng = random.Random(f"{seed}/plan")
    shape = _draw_shape(rng)
    seconds = rng.uniform(*SECONDS)
    end_ms = int(seconds * 1000)
    operations = _draw_operations(rng, shape, end_ms)
    acts = [*operations, *_draw_faults(rng, shape, end_ms, [act.at_ms for act in operations])]
    return Plan(seed=seed, seconds=seconds, shape=shape, acts=tuple(sorted(acts, key=lambda act: act.at_ms)))


def _draw_shape(rng: random.Random) -> Shape:
    return Shape(
        stores=tuple(
            StoreShape(
                flush="async" if rng.random() < 0.3 else "sync",
                index=rng.random() < 0.8,
                fast_paths=rng.random() < 0.7,
                checkpoint_seconds=rng.choice(CHECKPOINT_SECONDS),
                has_slow_disk=rng.random() < 0.2,
                zero_ahead_bytes=rng.choice((0, 128 << 10)),
            )
            for _ in range(1 if rng.random() < 0.8 else 2)
        ),
        clients=rng.randint(1, 3),
        topics=rng.randint(1, 2),
        queues=rng.choice((1, 1, 2, 4)),
        has_nameserver=rng.random() < 0.2,
        has_rough_network=rng.random() < 0.3,
        ends_with_power_cut=rng.random() < 0.5,
    )


def _subset(rng: random.Random, names: Sequence[str]) -> list[str]:
    chosen = [name for name in names if rng.random() < 0.5]
    return chosen or [rng.choice(names)]


def _draw_operations(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    kinds = _subset(rng, [kind for kind in OPERATIONS if kind not in SENDS and kind != DELETE])
    kinds += 3 * _subset(rng, SENDS)
    if rng.random() < 0.1:
        kinds.append(DELETE)
    acts: list[Act] = []
    for number in range(1, rng.randint(*OPERATIONS_COUNT) + 1):
        kind = rng.choice(kinds)
        key = rng.randrange(KEYS)
        is_keyed = kind == KEYED
        acts.append(
            Act(
                at_ms=rng.randint(100, end_ms),
                kind=kind,
                on=store_name((key if is_keyed else rng.randrange(1 << 16)) % len(shape.stores)),
                by=client_name(rng.randrange(shape.clients)),
                number=key if is_keyed else number,
                topic=(key if is_keyed else rng.randrange(1 << 16)) % shape.topics,
                queue=(key if is_keyed else rng.randrange(1 << 16)) % shape.queues,
                size=BODY_SIZES[key % len(BODY_SIZES)] if is_keyed else rng.choice(BODY_SIZES),
            )
        )
    return acts


def _draw_faults(rng: random.Random, shape: Shape, end_ms: int, busy_ms: list[int]) -> list[Act]:
    """Half of the faults strike within a few milliseconds of an operation, at one of `busy_ms`: their windows are short."""
    if rng.random() < QUIET_SHARE:
        return []
    kinds = _subset(rng, list(FAULTS))
    stores = [store_name(number) for number in range(len(shape.stores))]
    clients = [client_name(number) for number in range(shape.clients)]
    others = [*stores, *clients, *(["nameserver"] if shape.has_nameserver else [])]
    acts: list[Act] = []
    for _ in range(rng.randint(*FAULTS_COUNT)):
        kind = rng.choice(kinds)
        store, client = rng.choice(stores), rng.choice(clients)
        on, by = (store, client) if rng.random() < 0.5 else (client, store)
        if kind in STORE_FAULTS:
            on, by = store, ""
        elif kind not in NETWORK_FAULTS:
            on, by = rng.choice(others), ""
        at_ms = rng.randint(FAULTS_BEGIN_MS, max(end_ms, FAULTS_BEGIN_MS + 1))
        acts.append(
            Act(
                at_ms=rng.choice(busy_ms) + rng.randint(0, NEAR_MS) if rng.random() < 0.5 else at_ms,
                kind=kind,
                on=on,
                by=by,
                number=rng.getrandbits(16),
                span_ms=rng.randint(*SPAN_MS),
            )
        )
    return acts
