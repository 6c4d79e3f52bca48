"""Draws a plan from a seed. Each life has a random subset of operations and of faults, so that no fault hides behind another one."""

from __future__ import annotations

import random

import msgspec

from gantry_simulation.lives.drawing.acts import draw_chained, draw_faults, draw_operations, draw_repeats
from gantry_simulation.lives.drawing.gateways import (
    draw_edge_faults,
    draw_http,
    draw_orders,
    with_gateways,
    with_parking,
)
from gantry_simulation.lives.drawing.replicas import draw_group_plan
from gantry_simulation.lives.drawing.retention import draw_retaining, with_small_segments
from gantry_simulation.lives.drawing.scenes import (
    PORTS_SHARE,
    draw_cut_amid_slow_syncs,
    draw_port_uses,
    draw_pulls_with_offsets,
)
from gantry_simulation.lives.drawing.shapes import draw_shape, with_readers
from gantry_simulation.lives.faults.table import COMMON_FAULTS, FAULTS
from gantry_simulation.lives.operations.topics import MAKE
from gantry_simulation.lives.plan import Plan

SECONDS = (4.0, 12.0)
GATEWAYS_SHARE = 0.15
CALM_SHARE = 0.5
"""Share of the lives with uses of ports without a fault: only there every request must be answered in time."""
RETAINING_SHARE = 0.06
"""Share of the lives in which retention deletes segments. Programs that use the SDK miss messages then, and gateways too, so there are none."""
COUNTED_SHARE = 0.15
"""Share of the lives that count memory."""
REPLICAS_EVERY = 4
"""The stores of every fourth seed have replicas."""


def draw_plan(seed: int) -> Plan:
    """Return the plan of a seed."""
    if seed % REPLICAS_EVERY == 0:
        return draw_group_plan(seed, random.Random(f"{seed}/replicas"))
    rng = random.Random(f"{seed}/plan")
    shape = with_readers(random.Random(f"{seed}/readers"), draw_shape(rng))
    seconds = rng.uniform(*SECONDS)
    end_ms = int(seconds * 1000)
    operations = draw_operations(rng, shape, end_ms)
    faults = draw_faults(rng, shape, end_ms, [act.at_ms for act in operations], list(COMMON_FAULTS))
    faults += draw_chained(rng, shape, faults, [act.at_ms for act in operations])
    repeats = draw_repeats(rng, operations, faults)
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
