"""Lives of broker groups: three replicas or five, their register, and what strikes them."""

from __future__ import annotations

import pytest

from gantry_simulation.lives.drawing.draw_plan import REPLICAS_EVERY, draw_plan
from gantry_simulation.lives.life import live
from gantry_simulation.lives.operations.locks import LOCK
from gantry_simulation.lives.plan import Act, Plan, Shape, StoreShape
from gantry_simulation.lives.planted.finding import planted

LIVES = 10
FOUND_AT = {
    "a leader acknowledges what it alone has": 16,
    "a follower's checkpoint is at its end": 4,
    "a leader keeps the boot count of its directory": 4,
    "the promises of a replica are not durable": 4,
    "a hole counts as filled without a walk": 52,
    "what lacks the records of a hole stays": 52,
    "a leader whose log has a hole serves": 124,
}
"""A seed that finds each of these faults."""


def act(at_ms: int, kind: str, number: int = 0, *, on: str = "store-0", span_ms: int = 0) -> Act:
    return Act(at_ms=at_ms, kind=kind, on=on, by="client-0", number=number, span_ms=span_ms, size=16)


def test_drawn_lives_of_groups_keep_every_promise() -> None:
    seeds = range(REPLICAS_EVERY, REPLICAS_EVERY * LIVES + 1, REPLICAS_EVERY)
    lives = {seed: live(draw_plan(seed)) for seed in seeds}
    assert {seed: life.violations for seed, life in lives.items() if life.violations} == {}
    assert sum(" leads epoch " in line for life in lives.values() for line in life.history) > 2 * LIVES


def test_a_life_whose_logs_lose_stretches_fills_them_and_keeps_every_promise() -> None:
    life = live(draw_plan(124))
    assert life.violations == []
    assert life.happened["lost stretch"] == 3
    assert any("this log has lost records" in line for line in life.history)
    assert any("the log is filled" in line for line in life.history)


@pytest.mark.parametrize(("fault", "seed"), FOUND_AT.items())
def test_a_planted_fault_of_replicas_is_found(fault: str, seed: int) -> None:
    with planted(fault):
        assert live(draw_plan(seed)).violations


def asked_while_cut_off() -> Plan:
    """The leader is cut off from the others, not from the client that asks all of them for locks."""
    locks = (act(2_000 + 25 * number, LOCK) for number in range(120))
    acts = (act(2_000, "send", 1), act(2_010, "cut off", 1, span_ms=3_000), *locks)
    shape = Shape(stores=(StoreShape(),), replicas=3, nats=True)
    return Plan(seed=1, seconds=6.0, shape=shape, acts=acts)


def test_a_leader_that_is_cut_off_grants_nothing_once_another_one_grants() -> None:
    life = live(asked_while_cut_off())
    assert life.violations == []
    assert any("leads epoch 2" in line for line in life.history)
    answers = {line.rpartition(": ")[2] for line in life.history if "a lock everywhere" in line}
    assert {"yes, no, no", "no, no, no"} < answers
    with planted("a leader grants without its lease"):
        assert any("grants in epoch 1" in each for each in live(asked_while_cut_off()).violations)


def sent_while_cut_off() -> Plan:
    """The leader is cut off from the others, not from the client that sends."""
    sends = (act(1_500 + 50 * number, "send", number) for number in range(80))
    acts = (act(2_010, "cut off", 1, span_ms=3_000), *sends)
    shape = Shape(stores=(StoreShape(),), replicas=3, is_async=True, nats=True)
    return Plan(seed=1, seconds=6.0, shape=shape, acts=acts)


def test_an_asynchronous_leader_answers_alone_as_long_as_no_other_one_can_lead() -> None:
    life = live(sent_while_cut_off())
    assert life.violations == []
    assert any("leads epoch 2" in line for line in life.history)
    assert any("is stored at" in line and ": written, code 0" in line for line in life.history)
    with planted("an asynchronous leader answers without its lease"):
        assert live(sent_while_cut_off()).violations
