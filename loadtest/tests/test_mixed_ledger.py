"""The checker of mixed runs counts each broken guarantee that it is given."""

from __future__ import annotations

import pytest

from gantry_loadtest.mixed.ledger import Fate, Ledger


def _ledger(fate: Fate = Fate.ONCE, due_ms: int = 100) -> Ledger:
    ledger = Ledger()
    item = ledger.attempt("s-1", "delay")
    item.is_acknowledged, item.fate, item.due_ms = True, fate, due_ms
    return ledger


def test_a_message_delivered_once_and_in_time_holds() -> None:
    ledger = _ledger()
    ledger.found("s-1", 100)
    assert ledger.count().holds


@pytest.mark.parametrize(
    ("found", "promise"),
    [
        ([], "lost"),
        ([("s-1", 100), ("s-1", 101)], "doubled"),
        ([("s-1", 99)], "early"),
        ([("s-1", 100), ("s-2", 100)], "foreign"),
    ],
)
def test_each_broken_promise_is_counted(found: list[tuple[str, int]], promise: str) -> None:
    ledger = _ledger()
    for name, at in found:
        ledger.found(name, at)
    assert len(ledger.broken()[promise]) == 1
    assert not ledger.count().holds


def test_a_cancelled_message_must_not_arrive() -> None:
    ledger = _ledger(Fate.NEVER)
    assert ledger.count().holds
    ledger.found("s-1", 100)
    assert ledger.count().forbidden == 1


def test_an_undecided_message_may_arrive_at_most_once() -> None:
    ledger = _ledger(Fate.OPEN)
    assert ledger.count().holds
    ledger.found("s-1", 100)
    assert ledger.count().holds
    ledger.found("s-1", 100)
    assert not ledger.count().holds


def test_a_redelivery_after_its_ack_is_counted() -> None:
    ledger = _ledger(Fate.OPEN)
    ledger.received("s-1")
    ledger.acked("s-1")
    assert ledger.count().holds
    ledger.received("s-1")
    assert ledger.count().taken_again == 1


def test_finished_messages_are_dropped_and_still_counted() -> None:
    ledger = _ledger()
    ledger.found("s-1", 103)
    assert ledger.forget_done() == 0
    assert ledger.count().holds
    assert ledger.counted() == (1, 1)
    assert ledger.take_late() == [(103, 3)]
    assert ledger.take_late() == []


def test_a_duplicate_of_a_dropped_message_is_counted() -> None:
    ledger = _ledger()
    ledger.found("s-1", 100)
    ledger.forget_done()
    ledger.found("s-1", 101)
    assert ledger.count().doubled == 1


@pytest.mark.parametrize("fate", [Fate.NEVER, Fate.OPEN])
def test_a_message_that_may_still_fail_is_kept(fate: Fate) -> None:
    ledger = _ledger(fate)
    ledger.found("s-1", 100)
    assert ledger.forget_done() == 1


def test_a_message_to_consume_is_dropped_only_then_and_never_delivered_again() -> None:
    ledger = _ledger()
    ledger.items["s-1"].is_consumed = True
    ledger.found("s-1", 100)
    assert ledger.forget_done() == 1
    assert ledger.undone() == ["s-1"]
    ledger.acked("s-1")
    assert ledger.forget_done() == 0
    ledger.received("s-1")
    assert ledger.count().taken_again == 1


def test_early_and_duplicate_messages_are_kept_for_the_count() -> None:
    ledger = _ledger()
    ledger.found("s-1", 99)
    assert ledger.forget_done() == 1
    assert ledger.count().early == 1
