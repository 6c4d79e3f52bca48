"""The ledger finds what a broken client or store would do."""

from __future__ import annotations

import pytest

from gantry_simulation.clients.ledger import Call, Ledger, OrderlyQueues, Place
from gantry_simulation.world.world import World


def call(member: str, offset: int, life: int = 1, *, alive: bool = True) -> Call:
    return Call(member, life, lambda: alive, offset)


def consume(queues: OrderlyQueues, *calls: Call) -> None:
    for each in calls:
        queues.begin(0, each)
        queues.end(0, each, success=True)


def found(world: World) -> str:
    return "; ".join(violation.what for violation in world.violations)


def test_calls_in_order_repeats_of_failures_and_series_of_other_members_are_no_violation(
    world: World,
) -> None:
    queues = OrderlyQueues(world, "g")
    consume(queues, call("a", 0), call("a", 1))
    failing = call("a", 2)
    queues.begin(0, failing)
    queues.end(0, failing, success=False)
    consume(queues, call("a", 2), call("b", 1), call("b", 2), call("b", 3), call("b", 1, life=2))
    assert world.violations == []
    assert queues.repeats == 2


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([call("a", 0), call("a", 2)], "1 is skipped"),
        (
            [call("a", 0), call("a", 1), call("a", 2), call("b", 0), call("b", 2)],
            "b is called with 2 after 0",
        ),
    ],
)
def test_a_skipped_message_is_found(world: World, calls: list[Call], words: str) -> None:
    consume(OrderlyQueues(world, "g"), *calls)
    assert words in found(world)


@pytest.mark.parametrize("alive", [True, False])
def test_two_calls_of_a_queue_at_a_time_are_found_unless_the_first_has_died(
    world: World, alive: bool
) -> None:
    queues = OrderlyQueues(world, "g")
    queues.begin(0, call("a", 0, alive=alive))
    queues.begin(0, call("b", 0))
    assert ("while a runs" in found(world)) is alive


@pytest.mark.parametrize(("wait", "is_found"), [(11, True), (5, False)])
def test_a_series_below_an_offset_that_was_committed_long_before_is_found(
    world: World, wait: float, is_found: bool
) -> None:
    queues = OrderlyQueues(world, "g")
    consume(queues, call("a", 0), call("a", 1))
    queues.committed(0, 2)
    world.run_for(wait)
    consume(queues, call("b", 1))
    assert ("2 was committed" in found(world)) is is_found


def test_a_store_that_restarted_may_have_lost_offsets(world: World) -> None:
    queues = OrderlyQueues(world, "g")
    consume(queues, call("a", 0))
    queues.committed(0, 1)
    queues.forget_committed()
    world.run_for(20)
    consume(queues, call("b", 0))
    assert world.violations == []


def test_two_messages_at_a_place_one_at_two_places_and_a_rolled_back_one_are_found(world: World) -> None:
    ledger = Ledger(world)
    ledger.stored("one", Place("T", 0, 7))
    ledger.delivered("g", "two", Place("T", 0, 7))
    assert "has one and two" in found(world)
    ledger.once["key"] = None
    ledger.delivered("g", "key", Place("T", 0, 8))
    ledger.delivered("g", "key", Place("%RETRY%g", 0, 0))
    assert "stored twice" not in found(world)
    ledger.stored("key", Place("T", 1, 0))
    assert "stored twice" in found(world)
    ledger.forbidden.add("back")
    ledger.delivered("g", "back", Place("T", 0, 9))
    assert "rolled back" in found(world)


def test_what_is_acknowledged_and_not_consumed_is_missing(world: World) -> None:
    ledger = Ledger(world)
    ledger.stored("one", Place("T", 0, 0))
    ledger.stored("two", Place("T", 0, 1))
    ledger.succeeded("g", "one", Place("%RETRY%g", 0, 0))
    assert ledger.missing("g", "T") == ["two"]
    assert ledger.redelivered == 1
