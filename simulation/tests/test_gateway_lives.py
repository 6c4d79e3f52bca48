"""Drawn lives with gateways: planted faults of gateways are found, and a seed repeats its life in another process."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace
from repeats import digest_elsewhere

from gantry_simulation.lives.drawing.draw_plan import draw_plan
from gantry_simulation.lives.life import live
from gantry_simulation.lives.operations.table import OPERATIONS
from gantry_simulation.lives.plan import Act, Plan, Shape, StoreShape
from gantry_simulation.lives.planted.fault import Planted
from gantry_simulation.lives.planted.gateways import GATEWAY_FAULTS
from gantry_simulation.lives.planted.tasks import TASK_FAULTS
from gateway.ports.stores import PeerAway
from gateway.stores.link_store import LinkStore

FOUND_AT = (51, 110, 85, 51)
"""A seed that finds each fault."""
TASK_FAULTS_AT = (154, 154, 154, 154, 147, 147, 230, 147, 147, 255, 515, 166, 163)
LATE_COPIES_AT = (3, 10)
"""Seeds with which letters are redriven between the last reading and the last list."""
MANY_LETTERS = 30
SLOW_REDRIVE = 12
"""The number of an act that redrives all letters, few a second."""
TO_TOPIC = 3
"""The span of a redrive to a topic that clients read, too."""
COPIES_DAMAGED_AT = (1, 6)
"""The numbers of acts that damage a copy of a letter: one that the store has just written, and an older one."""


def plan_of(seed: int) -> Plan:
    plan = draw_plan(seed)
    assert plan.shape.gateways, "draw lives with gateways: choose another seed"
    return plan


def slow_redrive(seed: int, *more: Act) -> Plan:
    """Many letters, which a client redrives a few a second, and more acts."""
    shape = Shape(
        stores=(StoreShape(has_slow_disk=True),), clients=2, nameservers=1, schedulers=1, gateways=1
    )
    acts = [
        Act(at_ms=at_ms, kind=kind, on="store-0", by="client-0", number=number, size=16)
        for at_ms, kind, number in (
            (500, "http die early", 0),
            *((1_000 + 20 * number, "http send", number) for number in range(MANY_LETTERS)),
            *((at_ms, "http receive", 0) for at_ms in (3_000, 3_200, 3_400, 3_600, 5_000)),
            (7_000, "http redrive", SLOW_REDRIVE),
        )
    ]
    return Plan(seed=seed, seconds=7.5, shape=shape, acts=(*acts, *more))


@pytest.mark.parametrize(
    ("planted", "seed"),
    list(zip(GATEWAY_FAULTS, FOUND_AT, strict=True)),
    ids=[planted.name for planted in GATEWAY_FAULTS],
)
def test_a_planted_fault_of_a_gateway_is_found(planted: Planted, seed: int) -> None:
    with planted.planted():
        assert live(plan_of(seed)).violations
    assert live(plan_of(seed)).violations == []


@pytest.mark.parametrize(
    ("planted", "seed"),
    list(zip(TASK_FAULTS, TASK_FAULTS_AT, strict=True)),
    ids=[planted.name for planted in TASK_FAULTS],
)
def test_a_planted_fault_of_a_task_a_list_or_a_search_is_found(planted: Planted, seed: int) -> None:
    with planted.planted():
        assert live(plan_of(seed)).violations


@pytest.mark.parametrize("seed", sorted(set(TASK_FAULTS_AT)))
def test_lives_that_find_faults_of_tasks_find_none_that_is_not_there(seed: int) -> None:
    assert live(plan_of(seed)).violations == []


@pytest.mark.parametrize("seed", LATE_COPIES_AT)
def test_the_copies_of_a_redrive_whose_client_was_killed_are_read_in_the_end(seed: int) -> None:
    """The redrive is slow: letters are sent again while everything is read, and nobody knows the id of the task."""
    killed = Act(at_ms=7_300, kind="kill", on="client-0", span_ms=100)
    life = live(slow_redrive(seed, killed))
    assert life.violations == []
    assert life.happened["http redrive"]
    assert not any("starts store-0." in line for line in life.history)


def test_a_list_without_a_store_does_not_end_the_last_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection to the store is lost during the first list of the last reader. The next one shows what was redriven."""
    right, calls = LinkStore.redriven, count()

    async def redriven(store: LinkStore, group: str, from_offset: int) -> list[tuple[int, int]]:
        if next(calls) % 2:
            raise PeerAway("store-0", sent=True, message="the connection was lost")
        return await right(store, group, from_offset)

    monkeypatch.setattr(LinkStore, "redriven", redriven)
    life = live(slow_redrive(1))
    assert life.violations == []
    assert any("'redriven': " in line for line in life.history)


@pytest.mark.parametrize("number", COPIES_DAMAGED_AT)
def test_a_redriven_letter_whose_copy_is_damaged_counts_as_sent_again(number: int) -> None:
    """Nobody can read the copy in the end, and the task has counted it."""
    damaged = Act(at_ms=14_000, kind="bit flip", on="store-0", number=number, span_ms=100)
    plan = slow_redrive(1, damaged)
    acts = tuple(replace(act, span_ms=TO_TOPIC) if act.kind == "http redrive" else act for act in plan.acts)
    life = live(replace(plan, acts=acts, seconds=15.0))
    assert life.violations == []
    assert any("changes: " in line and "a redriven letter" in line for line in life.history)


def test_lives_use_every_call_and_both_servers() -> None:
    plans = [plan for plan in map(draw_plan, range(1, 300)) if plan.shape.gateways]
    kinds = {act.kind for plan in plans for act in plan.acts if act.kind.startswith("http")}
    assert kinds == {kind for kind in OPERATIONS if kind.startswith("http")}
    assert {(plan.shape.gateways, plan.shape.nats, plan.shape.valkey) for plan in plans} == {
        (gateways, nats, valkey) for gateways in (1, 2) for nats in (False, True) for valkey in (False, True)
    }


def digest(seed: int) -> str:
    return live(plan_of(seed)).digest


def test_a_seed_repeats_a_life_with_gateways_also_in_another_process() -> None:
    here = digest(55)
    assert digest_elsewhere("test_gateway_lives", 55) == here
    assert digest(55) == here
