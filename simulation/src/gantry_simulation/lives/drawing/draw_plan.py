"""Draws a plan from a seed. Each life has a random subset of operations and of faults, so that no fault hides behind another one."""

from __future__ import annotations

import random

import msgspec

from gantry_simulation.lives.drawing.gateways import (
    draw_edge_faults,
    draw_http,
    draw_orders,
    with_gateways,
    with_parking,
)
from gantry_simulation.lives.drawing.retention import draw_retaining, with_small_segments
from gantry_simulation.lives.drawing.scenes import (
    PORTS_SHARE,
    draw_cut_amid_slow_syncs,
    draw_port_uses,
    draw_pulls_with_offsets,
)
from gantry_simulation.lives.drawing.shared import (
    DELAYS_MS,
    FAULTS_BEGIN_MS,
    FAULTS_COUNT,
    QUIET_SHARE,
    SPAN_MS,
    draw_operation,
    subset,
)
from gantry_simulation.lives.faults.table import (
    COMMON_FAULTS,
    FAULTS,
    NETWORK_FAULTS,
    POWER_CUT,
    STORE_FAULTS,
)
from gantry_simulation.lives.operations import delays, nameservers, transactions
from gantry_simulation.lives.operations.sends import KEYED
from gantry_simulation.lives.operations.table import COMMON, SENDS
from gantry_simulation.lives.operations.topics import DELETE, MAKE
from gantry_simulation.lives.plan import (
    CHECKER,
    CONCURRENT,
    NAMESERVER,
    ORDERLY,
    PAYER,
    SCHEDULER,
    STORE,
    Act,
    Plan,
    Shape,
    StoreShape,
    names,
)

SECONDS = (4.0, 12.0)
OPERATIONS_COUNT = (30, 150)
WORKERS_SHARE = 0.18
"""Share of the lives with schedulers, txn-checkers or programs that use the SDK: they cost several times as much."""
GATEWAYS_SHARE = 0.15
WORKING = (SCHEDULER, CHECKER, PAYER, CONCURRENT, ORDERLY)
STRUCK_MORE = 2
"""How many times more often than others these are struck: there are few of them, and their faults hurt little."""
CALM_SHARE = 0.5
"""Share of the lives with uses of ports without a fault: only there every request must be answered in time."""
STORE_POWER_SHARE = 0.7
NEAR_MS = 8
"""A fault that strikes at an operation strikes within this time after it: requests take some of it to arrive."""
BURST_SHARE, BURST_MS = 0.4, 5
"""Share of the operations that begin within this time of the one before: one flush covers several of them."""
CHAIN_SHARE = 0.3
"""Share of the faults of stores that others follow closely."""
CHAINS = (
    ("kill", "power cut"),
    ("kill", "kill"),
    ("power cut", "power cut"),
    ("disk error", "kill", "power cut"),
    ("disk error", "power cut"),
    ("slow syncs", "power cut"),
    ("bit flip", "power cut"),
    ("lost files", "kill"),
)
"""Faults of one store, each soon after the one before, or soon after the start that follows it."""
LASTING = ("disk error", "slow syncs")
"""Faults that end no process."""
AFTER_START_MS = 30
"""A start takes about this time."""
AGAIN_MS = 500
"""A keyed message is sent again within this time after a start."""
ORDER_MS = (20, 4_000)
"""Time from a delayed message or a half to an order about it."""
SEGMENT_BYTES = (128 << 10, 1 << 20)
CHECKPOINT_SECONDS = (0.1, 0.5, 5.0)
RETAINING_SHARE = 0.06
"""Share of the lives in which retention deletes segments. Programs that use the SDK miss messages then, and gateways too, so there are none."""
COUNTED_SHARE = 0.15
"""Share of the lives that count memory."""


def draw_plan(seed: int) -> Plan:
    """Return the plan of a seed."""
    rng = random.Random(f"{seed}/plan")
    shape = _with_readers(random.Random(f"{seed}/readers"), _draw_shape(rng))
    seconds = rng.uniform(*SECONDS)
    end_ms = int(seconds * 1000)
    operations = _draw_operations(rng, shape, end_ms)
    faults = _draw_faults(rng, shape, end_ms, [act.at_ms for act in operations])
    faults += _draw_chained(rng, shape, faults, [act.at_ms for act in operations])
    repeats = _draw_repeats(rng, operations, faults)
    acts = [act for act in (*operations, *faults, *repeats) if act.at_ms <= end_ms]
    uses = random.Random(f"{seed}/ports")
    if uses.random() < PORTS_SHARE:
        if uses.random() < CALM_SHARE:
            acts = [act for act in acts if act.kind not in FAULTS]
        acts += draw_port_uses(uses, shape, end_ms)
    acts += draw_pulls_with_offsets(random.Random(f"{seed}/carried"), shape, end_ms)
    more = random.Random(f"{seed}/gateways")
    if more.random() < GATEWAYS_SHARE:
        shape = with_gateways(more, shape)
        acts = [
            act for act in acts if act.kind != MAKE
        ]  # a message over HTTP may be in any queue of its topic
        acts += draw_http(more, shape, end_ms)
        acts += draw_edge_faults(more, shape, end_ms)
        orders = random.Random(f"{seed}/orders")
        shape = with_parking(orders, shape)
        acts += draw_orders(orders, shape, end_ms)
    else:
        acts += draw_cut_amid_slow_syncs(random.Random(f"{seed}/cut"), shape, end_ms)
    kept = random.Random(f"{seed}/retention")
    if kept.random() < RETAINING_SHARE and not (shape.has_programs or shape.gateways):
        shape = with_small_segments(kept, shape)
        acts = [act for act in acts if act.kind != "bit flip"]  # what retention deletes must be readable
        acts += draw_retaining(kept, shape, end_ms)
    if random.Random(f"{seed}/memory").random() < COUNTED_SHARE:
        shape = msgspec.structs.replace(shape, counts_memory=True)
    return Plan(seed=seed, seconds=seconds, shape=shape, acts=tuple(sorted(acts, key=lambda act: act.at_ms)))


def _draw_shape(rng: random.Random) -> Shape:
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


def _with_readers(rng: random.Random, shape: Shape) -> Shape:
    """Let programs ask for what others send with the SDK."""
    if not shape.producers:
        return shape
    return msgspec.structs.replace(shape, polling=rng.choice((0, 0, 1, 2)), pulling=int(rng.random() < 0.4))


def _draw_operations(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    kinds = subset(rng, COMMON) + 3 * subset(rng, SENDS)
    if rng.random() < 0.1:
        kinds += [DELETE, MAKE]
    if shape.nameservers and rng.random() < 0.5:
        kinds.append(*nameservers.OPERATIONS)
    if shape.schedulers:
        kinds += len(kinds) // 2 * subset(rng, list(delays.SENDS))
    if shape.checkers or rng.random() < 0.1:
        kinds += len(kinds) // 2 * subset(rng, list(transactions.SENDS))
    acts: list[Act] = []
    for number in range(1, rng.randint(*OPERATIONS_COUNT) + 1):
        is_next = acts and rng.random() < BURST_SHARE
        at_ms = acts[-1].at_ms + rng.randint(0, BURST_MS) if is_next else rng.randint(100, end_ms)
        acts.append(draw_operation(rng, shape, rng.choice(kinds), number, at_ms))
    return acts + _draw_orders(rng, acts)


def _draw_orders(rng: random.Random, acts: list[Act]) -> list[Act]:
    """Return orders about some delayed messages and transactions: some overtake them, some come too late."""
    orders: list[Act] = []
    chance = rng.choice((0.0, 0.2, 0.5))
    for act in acts:
        kinds = (*delays.ORDERS,) if act.kind in delays.SENDS else (*transactions.ORDERS,)
        if act.kind in (*delays.SENDS, *transactions.SENDS) and rng.random() < chance:
            orders.append(
                msgspec.structs.replace(
                    act,
                    at_ms=act.at_ms + rng.randint(*ORDER_MS),
                    kind=rng.choice(kinds),
                    span_ms=rng.randint(*DELAYS_MS),
                )
            )
    return orders


def _draw_faults(rng: random.Random, shape: Shape, end_ms: int, busy_ms: list[int]) -> list[Act]:
    """Half of the faults strike within a few milliseconds of an operation, at one of `busy_ms`: their windows are short."""
    if rng.random() < QUIET_SHARE:
        return []
    kinds = subset(rng, list(COMMON_FAULTS))
    stores = names(STORE, len(shape.stores))
    members = shape.members()
    members += STRUCK_MORE * [name for kind in WORKING for name in names(kind, shape.counts()[kind])]
    others = [name for name in members if name not in stores]
    acts: list[Act] = []
    for _ in range(rng.randint(*FAULTS_COUNT)):
        kind = rng.choice(kinds)
        store, other = rng.choice(stores), rng.choice(others)
        on, by = (store, other) if rng.random() < 0.5 else (other, store)
        if kind in STORE_FAULTS or (kind == POWER_CUT and rng.random() < STORE_POWER_SHARE):
            on, by = store, ""
        elif kind == POWER_CUT:
            on, by = rng.choice([name for name in members if not name.startswith(NAMESERVER)]), ""
        elif kind not in NETWORK_FAULTS:
            on, by = rng.choice(members), ""
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


def _draw_chained(rng: random.Random, shape: Shape, faults: list[Act], busy_ms: list[int]) -> list[Act]:
    """Return further faults soon after some of those of stores: during recovery, on a disk that has failed, amid slow syncs.

    Those that follow a lasting fault strike soon after an operation, at one of `busy_ms`.
    """
    stores = names(STORE, len(shape.stores))
    acts: list[Act] = []
    for first in faults:
        chains = [chain for chain in CHAINS if chain[0] == first.kind and first.on in stores]
        if not chains or rng.random() >= CHAIN_SHARE:
            continue
        last = first
        for kind in rng.choice(chains)[1:]:
            wait_ms = last.span_ms
            if last.kind in LASTING:
                meanwhile = [
                    at_ms - last.at_ms for at_ms in busy_ms if 0 <= at_ms - last.at_ms <= last.span_ms
                ]
                wait_ms = rng.choice(meanwhile or [0])
            last = Act(
                at_ms=last.at_ms + wait_ms + rng.randint(0, AFTER_START_MS), kind=kind, on=last.on,
                number=rng.getrandbits(16), span_ms=rng.randint(*SPAN_MS),
            )  # fmt: skip
            acts.append(last)
    return acts


def _draw_repeats(rng: random.Random, operations: list[Act], faults: list[Act]) -> list[Act]:
    """Return keyed messages that are sent again soon after starts: their keys must have survived."""
    acts: list[Act] = []
    for fault in faults:
        before = [
            act for act in operations if act.kind == KEYED and act.on == fault.on and act.at_ms < fault.at_ms
        ]
        if before:
            at_ms = fault.at_ms + fault.span_ms + rng.randint(0, AGAIN_MS)
            acts.append(msgspec.structs.replace(rng.choice(before), at_ms=at_ms))
    return acts
