"""Draws operations and faults."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from gantry_simulation.lives.drawing.shared import (
    DELAYS_MS,
    FAULTS_BEGIN_MS,
    FAULTS_COUNT,
    QUIET_SHARE,
    SPAN_MS,
    draw_operation,
    subset,
)
from gantry_simulation.lives.faults.table import NETWORK_FAULTS, POWER_CUT, STORE_FAULTS
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
    Shape,
    broker_of,
    names,
)

OPERATIONS_COUNT = (30, 150)
WORKING = (SCHEDULER, CHECKER, PAYER, CONCURRENT, ORDERLY)
STRUCK_MORE = 2
"""How many times more often than others these are struck: there are few of them, and their faults hurt little."""
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


def draw_operations(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    """Return operations of clients."""
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


def draw_faults(
    rng: random.Random, shape: Shape, end_ms: int, busy_ms: list[int], possible: Sequence[str]
) -> list[Act]:
    """Half of the faults strike within a few milliseconds of an operation, at one of `busy_ms`: their windows are short."""
    if rng.random() < QUIET_SHARE:
        return []
    kinds = subset(rng, possible)
    stores = shape.store_names()
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


def draw_chained(rng: random.Random, shape: Shape, faults: list[Act], busy_ms: list[int]) -> list[Act]:
    """Return further faults soon after some of those of stores: during recovery, on a disk that has failed, amid slow syncs.

    Those that follow a lasting fault strike soon after an operation, at one of `busy_ms`.
    """
    stores, brokers = shape.store_names(), names(STORE, len(shape.stores))
    acts: list[Act] = []
    for first in faults:
        chains = [chain for chain in CHAINS if chain[0] == first.kind and first.on in (*stores, *brokers)]
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


def draw_repeats(rng: random.Random, operations: list[Act], faults: list[Act]) -> list[Act]:
    """Return keyed messages that are sent again soon after starts: their keys must have survived."""
    acts: list[Act] = []
    for fault in faults:
        before = [
            act
            for act in operations
            if act.kind == KEYED and act.on == broker_of(fault.on) and act.at_ms < fault.at_ms
        ]
        if before:
            at_ms = fault.at_ms + fault.span_ms + rng.randint(0, AGAIN_MS)
            acts.append(msgspec.structs.replace(rng.choice(before), at_ms=at_ms))
    return acts
