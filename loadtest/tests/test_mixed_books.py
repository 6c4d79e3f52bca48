"""The judge of mixed runs must be able to say no: each broken promise, told to it, is counted."""

from __future__ import annotations

import pytest

from gantry_loadtest.mixed.books import Books, Fate


def _books(fate: Fate = Fate.ONCE, due_ms: int = 100) -> Books:
    books = Books()
    item = books.attempt("s-1", "delay")
    item.is_acknowledged, item.fate, item.due_ms = True, fate, due_ms
    return books


def test_a_message_delivered_once_and_in_time_holds() -> None:
    books = _books()
    books.found("s-1", 100)
    assert books.count().holds


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
    books = _books()
    for name, at in found:
        books.found(name, at)
    assert len(books.broken()[promise]) == 1
    assert not books.count().holds


def test_what_was_cancelled_may_not_come() -> None:
    books = _books(Fate.NEVER)
    assert books.count().holds
    books.found("s-1", 100)
    assert books.count().forbidden == 1


def test_an_undecided_message_may_come_once_or_not_at_all() -> None:
    books = _books(Fate.OPEN)
    assert books.count().holds
    books.found("s-1", 100)
    assert books.count().holds
    books.found("s-1", 100)
    assert not books.count().holds


def test_a_message_given_again_after_its_ack_is_counted() -> None:
    books = _books(Fate.OPEN)
    books.received("s-1")
    books.acked("s-1")
    assert books.count().holds
    books.received("s-1")
    assert books.count().taken_again == 1


def test_what_is_done_is_forgotten_and_still_counted() -> None:
    books = _books()
    books.found("s-1", 103)
    assert books.forget_done() == 0
    assert books.count().holds
    assert books.counted() == (1, 1)
    assert books.take_late() == [(103, 3)]
    assert books.take_late() == []


def test_a_double_of_what_was_forgotten_is_counted() -> None:
    books = _books()
    books.found("s-1", 100)
    books.forget_done()
    books.found("s-1", 101)
    assert books.count().doubled == 1


@pytest.mark.parametrize("fate", [Fate.NEVER, Fate.OPEN])
def test_what_may_still_be_wrong_is_not_forgotten(fate: Fate) -> None:
    books = _books(fate)
    books.found("s-1", 100)
    assert books.forget_done() == 1


def test_what_has_to_be_consumed_is_forgotten_only_then_and_never_given_again() -> None:
    books = _books()
    books.items["s-1"].is_consumed = True
    books.found("s-1", 100)
    assert books.forget_done() == 1
    assert books.undone() == ["s-1"]
    books.acked("s-1")
    assert books.forget_done() == 0
    books.received("s-1")
    assert books.count().taken_again == 1


def test_what_came_early_or_twice_is_kept_to_be_counted() -> None:
    books = _books()
    books.found("s-1", 99)
    assert books.forget_done() == 1
    assert books.count().early == 1
