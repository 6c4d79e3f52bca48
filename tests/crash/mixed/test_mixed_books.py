"""The judge of mixed runs must be able to say no: each broken promise, told to it, is counted."""

from __future__ import annotations

import pytest

from .books import Books, Fate


def _books(fate: Fate = Fate.ONCE, due_ms: int = 100) -> Books:
    books = Books()
    item = books.attempt("a", "delay")
    item.is_acknowledged, item.fate, item.due_ms = True, fate, due_ms
    return books


def test_a_message_delivered_once_and_in_time_holds() -> None:
    books = _books()
    books.found("a", 100)
    assert books.count().holds


@pytest.mark.parametrize(
    ("found", "promise"),
    [
        ([], "lost"),
        ([("a", 100), ("a", 101)], "doubled"),
        ([("a", 99)], "early"),
        ([("a", 100), ("b", 100)], "foreign"),
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
    books.found("a", 100)
    assert books.count().forbidden == 1


def test_an_undecided_message_may_come_once_or_not_at_all() -> None:
    books = _books(Fate.OPEN)
    assert books.count().holds
    books.found("a", 100)
    assert books.count().holds
    books.found("a", 100)
    assert not books.count().holds


def test_a_message_given_again_after_its_ack_is_counted() -> None:
    books = _books(Fate.OPEN)
    books.received("a")
    books.acked("a")
    assert books.count().holds
    books.received("a")
    assert books.count().taken_again == 1
