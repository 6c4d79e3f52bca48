"""The judge must be able to say no: each broken promise, told to it, is counted."""

from __future__ import annotations

import pytest

from .history import History

PLACE = ("t", 0, 7)


def _told(*, keyed: bool = False) -> History:
    history = History()
    history.attempt("a", keyed=keyed)
    history.acknowledge("a", PLACE)
    history.begin_reading()
    return history


def test_an_acknowledged_message_at_its_place_holds() -> None:
    history = _told()
    history.read("a", PLACE)
    assert history.verdict().holds


def test_an_acknowledged_message_that_is_gone_is_lost() -> None:
    verdict = _told().verdict()
    assert verdict.lost == 1
    assert not verdict.holds


def test_an_acknowledged_message_elsewhere_is_lost_at_its_place() -> None:
    history = _told()
    history.read("a", ("t", 0, 8))
    assert history.verdict().lost == 1


def test_another_message_at_its_place_is_moved_and_lost() -> None:
    history = _told()
    history.attempt("b", keyed=False)
    history.read("b", PLACE)
    verdict = history.verdict()
    assert (verdict.lost, verdict.moved) == (1, 1)


def test_a_message_nobody_sent_is_foreign() -> None:
    history = _told()
    history.read("a", PLACE)
    history.read("ghost", ("t", 0, 8))
    assert history.verdict().foreign == 1


@pytest.mark.parametrize(("keyed", "counts"), [(True, (1, 0)), (False, (0, 1))])
def test_a_double_counts_by_whether_it_had_a_key(keyed: bool, counts: tuple[int, int]) -> None:
    history = _told(keyed=keyed)
    history.read("a", PLACE)
    history.read("a", ("t", 0, 8))
    verdict = history.verdict()
    assert (verdict.doubled_keyed, verdict.doubled_unkeyed) == counts
    assert verdict.holds is not keyed


def test_an_unanswered_message_that_is_there_is_recovered() -> None:
    history = _told()
    history.attempt("b", keyed=True)
    history.read("a", PLACE)
    history.read("b", ("t", 0, 8))
    verdict = history.verdict()
    assert verdict.recovered == 1
    assert verdict.holds
