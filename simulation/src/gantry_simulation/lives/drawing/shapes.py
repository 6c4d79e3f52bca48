"""Draws the shape of a system."""

from __future__ import annotations

import random

import msgspec

from gantry_simulation.lives.plan import Shape, StoreShape

WORKERS_SHARE = 0.18
"""Share of the lives with schedulers, txn-checkers or programs that use the SDK: they cost several times as much."""
SEGMENT_BYTES = (128 << 10, 1 << 20)
CHECKPOINT_SECONDS = (0.1, 0.5, 5.0)


def draw_shape(rng: random.Random) -> Shape:
    """Return a system of stores, clients and perhaps nameservers, workers and programs."""
    shape = Shape(
        stores=tuple(
            StoreShape(
                flush="async" if rng.random() < 0.3 else "sync",
                index=rng.random() < 0.8,
                fast_paths=rng.random() < 0.7,
                checkpoint_seconds=rng.choice(CHECKPOINT_SECONDS),
                has_slow_disk=rng.random() < 0.2,
                zero_ahead_bytes=rng.choice((0, 128 << 10)),
                segment_bytes=rng.choice(SEGMENT_BYTES),
            )
            for _ in range(1 if rng.random() < 0.8 else 2)
        ),
        clients=rng.randint(1, 3),
        topics=rng.randint(1, 2),
        queues=rng.choice((1, 1, 2, 4)),
        nameservers=rng.randint(1, 2) if rng.random() < 0.2 else 0,
        has_rough_network=rng.random() < 0.3,
        ends_with_power_cut=rng.random() < 0.5,
        epilogue=rng.choice(("", "", "rebuild", "hours")),
    )
    return _with_workers(rng, shape) if rng.random() < WORKERS_SHARE else shape


def _with_workers(rng: random.Random, shape: Shape) -> Shape:
    """Add schedulers, txn-checkers or programs that use the SDK: few of them, each in some of the lives."""
    kind = rng.choice(("delays", "delays", "transactions", "transactions", "both", "programs"))
    programs = kind == "programs"
    return msgspec.structs.replace(
        shape,
        nameservers=rng.choice((1, 1, 2)),
        schedulers=rng.randint(1, 2) if kind != "transactions" else 0,
        checkers=rng.randint(1, 2) if kind in ("transactions", "both") or rng.random() < 0.2 else 0,
        producers=int(programs),
        payers=int(programs and rng.random() < 0.3),
        concurrent=rng.choice((0, 1, 2)) if programs else 0,
        orderly=rng.choice((0, 1, 2, 2)) if programs else 0,
    )


def with_readers(rng: random.Random, shape: Shape) -> Shape:
    """Let programs ask for what others send with the SDK."""
    if not shape.producers:
        return shape
    return msgspec.structs.replace(shape, polling=rng.choice((0, 0, 1, 2)), pulling=int(rng.random() < 0.4))
