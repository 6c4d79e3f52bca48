"""Draws scenes: a few acts that belong together, in a small share of the lives, because single draws rarely bring them together."""

from __future__ import annotations

import random

import msgspec

from gantry_simulation.lives.drawing.shared import FAULTS_BEGIN_MS, draw_operation
from gantry_simulation.lives.faults.table import POWER_CUT
from gantry_simulation.lives.operations import offsets, ports
from gantry_simulation.lives.plan import Act, Shape

PORTS_SHARE, HELD_PULLS, SENDS_MEANWHILE = 0.2, (1, 5), (0, 4)
QUIET_QUEUE = 3
"""The last queue of a topic. Other operations use it only in lives with four queues."""
CARRIED_SHARE, CARRIED_COUNT, CARRIED_PAUSE_MS = 0.1, (1, 5), 200
"""Pulls that carry an offset."""
CARRIED_FIRST = 1_000
"""Their lowest offset."""
PORT_USES_FIRST = 5_000
"""Number of the first message that is sent on a fast port."""
CUT_SHARE, CUT_SENDS, CUT_PAUSE_MS = 0.05, (5, 20), 40
"""Sends while syncs are slow, and a power cut among them."""
CUT_SPAN_MS, OFF_MS = (200, 1_000), (0, 2_000)
CUT_FIRST = 7_000
"""Number of the first of these messages."""


def draw_port_uses(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    """Return pulls that wait, most of them at a queue that nobody sends to, and sends on fast ports meanwhile."""
    acts: list[Act] = []
    for _ in range(rng.randint(*HELD_PULLS)):
        held = draw_operation(rng, shape, ports.HOLD, len(acts), rng.randint(100, end_ms))
        acts.append(msgspec.structs.replace(held, queue=rng.choice((held.queue, QUIET_QUEUE, QUIET_QUEUE))))
        for _ in range(rng.randint(*SENDS_MEANWHILE)):
            at_ms = held.at_ms + rng.randint(0, ports.HOLD_MS)
            acts.append(draw_operation(rng, shape, ports.SEND, PORT_USES_FIRST + len(acts), at_ms))
    return acts


def draw_pulls_with_offsets(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    """Return pulls of one queue that carry offsets, in any order, as those that were late."""
    if rng.random() >= CARRIED_SHARE:
        return []
    first = draw_operation(rng, shape, offsets.PULL, CARRIED_FIRST, rng.randint(100, end_ms))
    acts = [first]
    for _ in range(rng.randint(*CARRIED_COUNT)):
        at_ms = acts[-1].at_ms + rng.randint(0, CARRIED_PAUSE_MS)
        by = draw_operation(rng, shape, offsets.PULL, 0, at_ms).by
        number = CARRIED_FIRST + rng.randrange(CARRIED_FIRST)
        acts.append(msgspec.structs.replace(first, at_ms=at_ms, by=by, number=number))
    return acts


def draw_cut_amid_slow_syncs(rng: random.Random, shape: Shape, end_ms: int) -> list[Act]:
    """Return sends in quick succession while syncs are slow, and a power cut among them: most are written, few are synced."""
    if rng.random() >= CUT_SHARE:
        return []
    span_ms = rng.randint(*CUT_SPAN_MS)
    begin_ms = rng.randint(FAULTS_BEGIN_MS, max(end_ms - span_ms, FAULTS_BEGIN_MS))
    first = draw_operation(rng, shape, "send", CUT_FIRST, begin_ms)
    acts = [Act(at_ms=begin_ms, kind="slow syncs", on=first.on, span_ms=span_ms)]
    for number in range(CUT_FIRST, CUT_FIRST + rng.randint(*CUT_SENDS)):
        sent = draw_operation(rng, shape, "send", number, begin_ms + rng.randint(0, CUT_PAUSE_MS))
        acts.append(msgspec.structs.replace(sent, on=first.on))
        begin_ms = sent.at_ms
    cut_ms = rng.randint(acts[0].at_ms, begin_ms + CUT_PAUSE_MS)
    cut = Act(
        at_ms=cut_ms, kind=POWER_CUT, on=first.on, number=rng.getrandbits(16), span_ms=rng.randint(*OFF_MS)
    )
    return [*acts, cut]
