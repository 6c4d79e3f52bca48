"""The checker counts each broken guarantee that it is given."""

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


def test_an_acknowledged_message_at_its_position_passes() -> None:
    history = _told()
    history.read("a", PLACE)
    assert history.verdict().holds


def test_a_missing_acknowledged_message_is_lost() -> None:
    verdict = _told().verdict()
    assert verdict.lost == 1
    assert not verdict.holds


def test_an_acknowledged_message_at_another_position_is_lost() -> None:
    history = _told()
    history.read("a", ("t", 0, 8))
    assert history.verdict().lost == 1


def test_another_message_at_its_position_counts_as_moved_and_lost() -> None:
    history = _told()
    history.attempt("b", keyed=False)
    history.read("b", PLACE)
    verdict = history.verdict()
    assert (verdict.lost, verdict.moved) == (1, 1)


def test_a_message_that_was_never_sent_is_foreign() -> None:
    history = _told()
    history.read("a", PLACE)
    history.read("ghost", ("t", 0, 8))
    assert history.verdict().foreign == 1


@pytest.mark.parametrize(("keyed", "counts"), [(True, (1, 0)), (False, (0, 1))])
def test_duplicates_count_separately_with_and_without_a_key(keyed: bool, counts: tuple[int, int]) -> None:
    history = _told(keyed=keyed)
    history.read("a", PLACE)
    history.read("a", ("t", 0, 8))
    verdict = history.verdict()
    assert (verdict.doubled_keyed, verdict.doubled_unkeyed) == counts
    assert verdict.holds is not keyed


def test_a_stored_message_without_acknowledgement_is_recovered() -> None:
    history = _told()
    history.attempt("b", keyed=True)
    history.read("a", PLACE)
    history.read("b", ("t", 0, 8))
    verdict = history.verdict()
    assert verdict.recovered == 1
    assert verdict.holds
