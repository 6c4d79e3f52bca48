"""Draws lives of one broker group: three replicas or five, clients, and sometimes schedulers or programs that use the SDK."""

from __future__ import annotations

import random

import msgspec

from gantry_simulation.lives.drawing.acts import draw_chained, draw_faults, draw_operations, draw_repeats
from gantry_simulation.lives.drawing.retention import SMALL_SEGMENT_BYTES, draw_retaining, with_small_segments
from gantry_simulation.lives.drawing.scenes import draw_pulls_with_offsets
from gantry_simulation.lives.drawing.shapes import draw_shape, with_readers
from gantry_simulation.lives.drawing.shared import SPAN_MS, draw_operation
from gantry_simulation.lives.faults.table import (
    COMMON_FAULTS,
    DAMAGES,
    GROUP_FAULTS,
    HOURS_OFF,
    LOST_STRETCH,
    NETWORK_FAULTS,
)
from gantry_simulation.lives.operations import locks
from gantry_simulation.lives.plan import STORE, Act, Plan, Shape, broker_of, names

SECONDS = (6.0, 14.0)
FIVE_SHARE = 0.2
LEASES_MS = (300, 1000)
DRIFT_SHARE, DRIFT = 0.5, 0.12
ASYNC_SHARE = 0.3
"""Two clocks may differ by the factor of grace and lease, 1.5."""
TAKEOVERS_MAX = 3
AMONG_SHARE = 0.6
"""Share of the network faults that are between replicas."""
STRUCK_SHARE = 0.5
"""Share of the faults of single replicas that strike the one which leads then."""
CUT_OFF_SHARE, FIRST_CUT_MS, CUT_OFF_MS, LOCK_EVERY_MS = 0.2, 1_500, (1_000, 4_000), (20, 100)
RETAINING_SHARE = 0.15
"""Share of the lives in which retention deletes segments."""
LOCKS_SHARE, LOCKS_COUNT, LOCKS_AFTER_FAULT, LOCK_MS = 0.5, (5, 20), 4, (200, 5_000)
HOLES_SHARE, HOLES_COUNT, FIRST_HOLE_MS = 0.25, (1, 3), 1_500
"""Share of the lives in which the log of a replica loses stretches."""
SMALL_SHARE = 0.5
COUNTED_SHARE = 0.15
"""Share of the lives that count memory."""


def draw_group_plan(seed: int, rng: random.Random) -> Plan:
    """Return the plan of a seed whose store has replicas."""
    shape = _draw_shape(rng)
    seconds = rng.uniform(*SECONDS)
    end_ms = int(seconds * 1000)
    operations = draw_operations(rng, shape, end_ms)
    busy_ms = [act.at_ms for act in operations]
    faults = draw_faults(rng, shape, end_ms, busy_ms, _possible())
    faults = [_moved(rng, shape, act) for act in faults]
    faults += draw_chained(rng, shape, faults, busy_ms)
    faults = [act for act in faults if act.kind not in DAMAGES]
    acts = [*operations, *faults, *draw_repeats(rng, operations, faults)]
    acts += draw_pulls_with_offsets(rng, shape, end_ms)
    acts += _draw_locks(rng, shape, faults, end_ms)
    acts += _draw_leader_cut_off(rng, shape, end_ms)
    acts = [act for act in acts if act.at_ms <= end_ms]
    if rng.random() < RETAINING_SHARE and not shape.has_programs:
        shape = with_small_segments(rng, shape)
        acts += draw_retaining(rng, shape, end_ms)
    if all(act.kind != HOURS_OFF for act in acts):  # what is old then is known by where each log ended
        shape, lost = _draw_holes(random.Random(f"{seed}/holes"), shape, end_ms)
        acts += lost
    return Plan(seed=seed, seconds=seconds, shape=shape, acts=tuple(sorted(acts, key=lambda act: act.at_ms)))


def _draw_locks(rng: random.Random, shape: Shape, faults: list[Act], end_ms: int) -> list[Act]:
    """Return requests for queue locks to all replicas: the seconds after a fault are those in which an old leader may grant."""
    if rng.random() >= LOCKS_SHARE:
        return []
    at_ms = [rng.randint(100, end_ms) for _ in range(rng.randint(*LOCKS_COUNT))]
    at_ms += [fault.at_ms + rng.randint(*LOCK_MS) for fault in faults for _ in range(LOCKS_AFTER_FAULT)]
    return [draw_operation(rng, shape, locks.LOCK, number, at) for number, at in enumerate(at_ms)]


def _draw_leader_cut_off(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    """Return a leader that hears neither the others nor the register, and clients that ask it for locks meanwhile."""
    if rng.random() >= CUT_OFF_SHARE:
        return []
    begin_ms, span_ms = (
        rng.randint(FIRST_CUT_MS, max(end_ms - FIRST_CUT_MS, FIRST_CUT_MS)),
        rng.randint(*CUT_OFF_MS),
    )
    broker = names(STORE, 1)[0]
    cut = Act(at_ms=begin_ms, kind="cut off", on=broker, number=rng.getrandbits(16), span_ms=span_ms)
    away = Act(
        at_ms=begin_ms, kind="register away", on=broker, number=rng.getrandbits(16) | 1, span_ms=span_ms
    )
    at_ms = range(begin_ms, begin_ms + span_ms, rng.randint(*LOCK_EVERY_MS))
    return [
        cut,
        away,
        *(draw_operation(rng, shape, locks.LOCK, number, at) for number, at in enumerate(at_ms)),
    ]


def _draw_holes(rng: random.Random, shape: Shape, end_ms: int) -> tuple[Shape, list[Act]]:
    """Return stretches that the log of one replica loses. In half of these lives segments are small, so that whole ones are lost."""
    if rng.random() >= HOLES_SHARE:
        return shape, []
    if rng.random() < SMALL_SHARE:
        stores = tuple(
            msgspec.structs.replace(store, segment_bytes=min(store.segment_bytes, SMALL_SEGMENT_BYTES))
            for store in shape.stores
        )
        shape = msgspec.structs.replace(shape, stores=stores)
    on = rng.choice(shape.store_names())
    acts = [
        Act(
            at_ms=rng.randint(FIRST_HOLE_MS, max(end_ms, FIRST_HOLE_MS)),
            kind=LOST_STRETCH,
            on=on,
            number=rng.getrandbits(16),
            span_ms=rng.randint(*SPAN_MS),
        )
        for _ in range(rng.randint(*HOLES_COUNT))
    ]
    return shape, acts


def _possible() -> list[str]:
    """Return the kinds of faults: of damaged files, only a store without replicas promises anything."""
    return [kind for kind in (*COMMON_FAULTS, *GROUP_FAULTS, *GROUP_FAULTS) if kind not in DAMAGES]


def _draw_shape(rng: random.Random) -> Shape:
    shape = with_readers(rng, draw_shape(rng))
    may_be_async = not (shape.gateways or shape.has_programs)
    chance = random.Random(repr(shape)).random()  # the other draws stay as they are
    return msgspec.structs.replace(
        shape,
        stores=shape.stores[:1],
        replicas=5 if rng.random() < FIVE_SHARE else 3,
        lease_ms=rng.choice(LEASES_MS),
        is_async=may_be_async and chance < ASYNC_SHARE,
        clock_drift=DRIFT if rng.random() < DRIFT_SHARE and not shape.schedulers else 0.0,
        last_takeovers=rng.randint(0, TAKEOVERS_MAX),
        checkers=0,
        payers=0,
        nats=True,
        epilogue="",
        counts_memory=rng.random() < COUNTED_SHARE,
    )


def _moved(rng: random.Random, shape: Shape, act: Act) -> Act:
    """Let a fault strike replicas where it may."""
    replicas = shape.store_names()
    if act.kind in NETWORK_FAULTS and rng.random() < AMONG_SHARE:
        on, by = rng.sample(replicas, 2)
        on = broker_of(on) if rng.random() < STRUCK_SHARE else on
        return msgspec.structs.replace(act, on=on, by=by)
    if act.kind in GROUP_FAULTS or (act.on in replicas and not act.by):
        on = broker_of(replicas[0]) if rng.random() < STRUCK_SHARE else rng.choice(replicas)
        return msgspec.structs.replace(act, on=on, by="")
    return act
