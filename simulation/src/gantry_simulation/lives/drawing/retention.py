"""Draws lives in which retention deletes segments."""

from __future__ import annotations

import random

import msgspec

from gantry_simulation.lives.drawing.shared import FAULTS_BEGIN_MS, SPAN_MS, draw_operation
from gantry_simulation.lives.faults.table import DISK_PRESSURE, HOURS_OFF
from gantry_simulation.lives.operations import retaining
from gantry_simulation.lives.plan import CLIENT, STORE, Act, Shape, names

SMALL_SEGMENT_BYTES, LARGE_BODY = 64 << 10, 20_000
RETAINING_FIRST = 20_000
"""Number of the first message that fills segments."""
FILLING, PRESSURES, PRESSURE_MS = (15, 40), (1, 4), (500, 5_000)
ASKS, ASK_MS = (1, 3), 600
"""Requests to delete during each pressure, soon after its begin."""
BOUNDS_READ = 8
HOURS_SHARE = 0.5
"""Share of those lives of stores and clients alone in which hours pass."""


def with_small_segments(rng: random.Random, shape: Shape) -> Shape:
    """Return the shape with stores whose segments are soon full."""
    stores = tuple(
        msgspec.structs.replace(
            store, segment_bytes=SMALL_SEGMENT_BYTES, zero_ahead_bytes=rng.choice((0, SMALL_SEGMENT_BYTES))
        )
        for store in shape.stores
    )
    return msgspec.structs.replace(shape, stores=stores, deletes_old=True)


def draw_retaining(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    """Return large messages that fill segments, disks that fill up, requests to delete, reads of bounds, and hours that pass."""

    def operation(kind: str, number: int, at_ms: int) -> Act:
        return draw_operation(rng, shape, kind, number, at_ms)

    acts: list[Act] = []
    for number in range(RETAINING_FIRST, RETAINING_FIRST + rng.randint(*FILLING)):
        act = operation("send", number, rng.randint(100, end_ms))
        acts.append(msgspec.structs.replace(act, size=LARGE_BODY))
    at_once: list[int] = []
    for _ in range(rng.randint(*PRESSURES)):
        at_ms = rng.randint(FAULTS_BEGIN_MS, max(end_ms, FAULTS_BEGIN_MS + 1))
        store = rng.choice(names(STORE, len(shape.stores)))
        pressure = Act(
            at_ms=at_ms,
            kind=DISK_PRESSURE,
            on=store,
            number=rng.getrandbits(20),
            span_ms=rng.randint(*PRESSURE_MS),
        )
        acts.append(pressure)
        at_once += [at_ms + rng.randint(0, ASK_MS) for _ in range(rng.randint(*ASKS))]
    counts = shape.counts()
    if sum(counts.values()) == counts[STORE] + counts[CLIENT] and rng.random() < HOURS_SHARE:
        at_ms = rng.randint(end_ms // 3, end_ms)
        acts.append(Act(at_ms=at_ms, kind=HOURS_OFF, on=STORE + "-0", span_ms=rng.randint(*SPAN_MS) // 4))
        at_once += [at_ms + rng.randint(1_000, 3_000), *at_once]
    at_once.append(rng.randint(100, end_ms))
    acts += [operation(retaining.DELETE_OLD, 0, at_ms) for at_ms in at_once]
    acts += [
        operation(retaining.READ_BOUNDS, 0, rng.randint(FAULTS_BEGIN_MS, max(end_ms, FAULTS_BEGIN_MS + 1)))
        for _ in range(BOUNDS_READ)
    ]
    return [act for act in acts if act.at_ms <= end_ms]
