"""Draws what lives with gateways have beside others: operations over HTTP, faults at the edge, orders and tasks."""

from __future__ import annotations

import random

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
from gantry_simulation.lives.faults.table import NETWORK_FAULTS, POWER_CUT
from gantry_simulation.lives.operations.http import leases, reading, schedules, sends, tasks, transactions
from gantry_simulation.lives.operations.http.table import SENDS
from gantry_simulation.lives.plan import GATEWAY, NATS, VALKEY, Act, Shape

HTTP_FIRST = 10_000
"""Number of the first operation over HTTP."""
HTTP_COUNT = (20, 80)
KEPT_MS = (0, 3_000)
"""How long a client keeps what it has received."""
EDGE_FAULTS = (
    "kill",
    "stop",
    "pause",
    "step wall clock",
    "cut",
    "cut one way",
    "break connections",
    POWER_CUT,
)
READS_SHARE, READS_COUNT = 0.5, (4, 16)
"""Share of the lives with pulls and queries over HTTP."""
ORDERS_FIRST = 20_000
"""Number of the first of them and of what follows."""
WAITS_MS = (4_500, 7_500)
"""Delays that certainly reach a scheduler, so that orders and tasks find the messages."""
FAR_MS, FAR_SHARE = (1_200_000, 7_200_000), 0.3
"""Delays of messages that only orders and tasks reach: schedulers keep them in their files."""
ORDER_MS = (50, 4_000)
"""Time from a delayed message to an order about it."""
ORDERED_SHARE = 0.7
PARKING_SHARE, DECIDED_SHARE = 0.6, 0.3
SINGLE, BULK, LETTERS = "single", "bulk", "letters"
"""What a life with a scheduler has: orders about one message, tasks about many, redrives of dead letters."""


def with_gateways(rng: random.Random, shape: Shape) -> Shape:
    """Add gateways, and what they need or may have."""
    return msgspec.structs.replace(
        shape,
        gateways=rng.randint(1, 2),
        nats=rng.random() < 0.5,
        valkey=rng.random() < 0.4,
        nameservers=max(shape.nameservers, 1),
        schedulers=max(shape.schedulers, int(rng.random() < 0.5)),
    )


def draw_http(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    """Return operations over HTTP. Without a txn-checker some are transactions: a client that dies leaves them open."""
    kinds = subset(rng, list(leases.RECEIVES)) + 2 * subset(rng, list(SENDS))
    if shape.checkers:
        kinds = [kind for kind in kinds if kind != transactions.TRANSACTION] or [sends.KEYED]
    acts: list[Act] = []
    for number in range(HTTP_FIRST, HTTP_FIRST + rng.randint(*HTTP_COUNT)):
        act = draw_operation(rng, shape, rng.choice(kinds), number, rng.randint(100, end_ms))
        span_ms = rng.randint(*(DELAYS_MS if act.kind == sends.DELAYED else KEPT_MS))
        acts.append(msgspec.structs.replace(act, span_ms=span_ms))
    return acts


def draw_edge_faults(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    """Return faults of gateways, NATS and Valkey, and of their connections to anybody."""
    if rng.random() < QUIET_SHARE:
        return []
    kinds = subset(rng, EDGE_FAULTS)
    edge = [name for name in shape.members() if name.startswith((GATEWAY, NATS, VALKEY))]
    others = [name for name in shape.members() if not name.startswith(GATEWAY)]
    acts: list[Act] = []
    for _ in range(rng.randint(*FAULTS_COUNT)):
        kind, on = rng.choice(kinds), rng.choice(edge)
        other = rng.choice([name for name in others if name != on])
        one_way = (on, other) if rng.random() < 0.5 else (other, on)
        acts.append(
            Act(
                at_ms=rng.randint(FAULTS_BEGIN_MS, max(end_ms, FAULTS_BEGIN_MS + 1)), kind=kind,
                on=one_way[0] if kind in NETWORK_FAULTS else on, by=one_way[1] if kind in NETWORK_FAULTS else "",
                number=rng.getrandbits(16), span_ms=rng.randint(*SPAN_MS),
            )
        )  # fmt: skip
    return acts


class Drawn:
    """Acts of one life, with numbers of their own."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.acts: list[Act] = []
        self._rng, self._shape = rng, shape

    def add(self, kind: str, at_ms: int, span_ms: int = 0, *, number: int | None = None) -> Act:
        """Add an operation; by itself its number is a new one."""
        number = ORDERS_FIRST + len(self.acts) if number is None else number
        act = draw_operation(self._rng, self._shape, kind, number, at_ms)
        act = msgspec.structs.replace(act, span_ms=span_ms)
        self.acts.append(act)
        return act


def draw_orders(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    """Return pulls and queries, and with a scheduler orders about delayed messages and tasks."""
    drawn = Drawn(rng, shape)
    if rng.random() < READS_SHARE:
        kinds = subset(rng, list(reading.OPERATIONS))
        for _ in range(rng.randint(*READS_COUNT)):
            drawn.add(rng.choice(kinds), rng.randint(500, end_ms))
    if shape.checkers:
        _draw_checked(rng, drawn, end_ms)
    if not shape.schedulers:
        return drawn.acts
    for subject in subset(rng, (SINGLE, BULK, LETTERS)):
        {SINGLE: _draw_single, BULK: _draw_bulk, LETTERS: _draw_letters}[subject](rng, drawn, end_ms)
    return drawn.acts


def with_parking(rng: random.Random, shape: Shape) -> Shape:
    """Let some txn-checkers park transactions early."""
    if shape.checkers and rng.random() < PARKING_SHARE:
        return msgspec.structs.replace(shape, check_max=rng.randint(1, 2))
    return shape


def _draw_checked(rng: random.Random, drawn: Drawn, end_ms: int) -> None:
    """Draw transactions: decided, left to checks, and decided by an operator; polls for checks, and lists."""
    for _ in range(rng.randint(3, 10)):
        begun = drawn.add(rng.choice((transactions.OPEN, transactions.TRANSACTION)), rng.randint(100, end_ms))
        if rng.random() < DECIDED_SHARE:
            at_ms, span_ms = begun.at_ms + rng.randint(*ORDER_MS), rng.randint(0, 1)
            drawn.acts.append(
                msgspec.structs.replace(begun, kind=transactions.DECIDE, at_ms=at_ms, span_ms=span_ms)
            )
    for _ in range(rng.randint(0, 5)):
        drawn.add(transactions.CHECKS, rng.randint(1_500, max(end_ms, 1_500)))
    for _ in range(rng.randint(0, 3)):
        drawn.add(transactions.LIST, rng.randint(1_500, max(end_ms, 1_500)))


def _wait_ms(rng: random.Random) -> int:
    return rng.randint(*(FAR_MS if rng.random() < FAR_SHARE else WAITS_MS))


def _draw_single(rng: random.Random, drawn: Drawn, end_ms: int) -> None:
    """Draw delayed messages and orders about most of them: some overtake them, some come too late."""
    kinds = subset(rng, list(schedules.ORDERS))
    for _ in range(rng.randint(4, 12)):
        sent = drawn.add(sends.DELAYED, rng.randint(100, end_ms), _wait_ms(rng))
        while rng.random() < ORDERED_SHARE:
            at_ms, span_ms = sent.at_ms + rng.randint(*ORDER_MS), rng.randint(*DELAYS_MS)
            order = msgspec.structs.replace(sent, kind=rng.choice(kinds), at_ms=at_ms, span_ms=span_ms)
            drawn.acts.append(order)
    for _ in range(rng.randint(0, 4)):
        drawn.add(rng.choice(list(schedules.LISTS)), rng.randint(500, end_ms))


def _draw_bulk(rng: random.Random, drawn: Drawn, end_ms: int) -> None:
    """Draw delayed messages and tasks about all with a key."""
    for _ in range(rng.randint(6, 14)):
        drawn.add(sends.DELAYED, rng.randint(100, end_ms // 2), _wait_ms(rng))
    kinds = subset(rng, (tasks.BULK_CANCEL, tasks.BULK_MOVE))
    for _ in range(rng.randint(1, 3)):
        drawn.add(rng.choice(kinds), rng.randint(end_ms // 3, end_ms), rng.randint(2_000, 6_000))
    _draw_lists(rng, drawn, end_ms)


def _draw_letters(rng: random.Random, drawn: Drawn, end_ms: int) -> None:
    """Draw messages that die at once, and redrives: some at the same time."""
    drawn.add(leases.DIE_EARLY, rng.randint(100, 500), number=0)
    for _ in range(rng.randint(4, 12)):
        drawn.add(sends.PLAIN, rng.randint(200, end_ms // 2))
    for _ in range(rng.randint(4, 8)):
        drawn.add(leases.NACK, rng.randint(400, end_ms * 3 // 4), rng.randint(0, 300))
    for _ in range(rng.randint(1, 3)):
        drawn.add(tasks.REDRIVE_LETTERS, rng.randint(end_ms // 2, end_ms), rng.randint(0, 3))
    _draw_lists(rng, drawn, end_ms)


def _draw_lists(rng: random.Random, drawn: Drawn, end_ms: int) -> None:
    for _ in range(rng.randint(0, 2)):
        drawn.add(tasks.LIST, rng.randint(end_ms // 2, end_ms))
