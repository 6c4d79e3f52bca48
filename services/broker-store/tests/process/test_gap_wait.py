"""A leader whose log has holes serves nothing while another replica can lead, or can fill them."""

from types import SimpleNamespace

import pytest

from broker_store.process.group.gap_wait import WAIT_MS, GapWait


class Side:
    """A wait with what it calls."""

    def __init__(self, *, has_gaps: bool = True) -> None:
        self.refilling = SimpleNamespace(has_gaps=has_gaps, lost_bytes=1000)
        self.called: list[str] = []
        self.wait = GapWait(self.refilling, lambda: self.called.append("serves"), self.called.append)

    def look(self, now_ms: int, successor: str = "") -> bool:
        return self.wait.look(SimpleNamespace(fit_successor=lambda _now: successor), now_ms)


def test_a_replica_without_holes_may_serve():
    side = Side(has_gaps=False)
    assert side.wait.may_serve
    assert not side.look(0, "b")
    assert side.called == []


def test_a_fit_member_that_is_heard_leads_in_its_place():
    side = Side()
    assert not side.wait.may_serve
    assert side.look(0, "b")
    assert (side.called, side.wait.may_serve) == (["b"], False)


def test_a_replica_that_does_not_lead_waits():
    side = Side()
    for now_ms in range(0, 3 * WAIT_MS, 1000):
        assert not side.wait.look(None, now_ms)
    assert (side.called, side.wait.may_serve) == ([], False)


@pytest.mark.parametrize("filled_every_ms", [1000, WAIT_MS])
def test_it_waits_as_long_as_its_log_is_being_filled(filled_every_ms):
    side = Side()
    for now_ms in range(0, 10 * WAIT_MS, 1000):
        side.refilling.lost_bytes -= now_ms % filled_every_ms == 0
        side.look(now_ms)
    assert (side.called, side.wait.may_serve) == ([], False)


def test_it_serves_what_it_has_where_nobody_fills_the_holes():
    side = Side()
    for now_ms in range(0, WAIT_MS, 1000):
        assert not side.look(now_ms)
    assert not side.wait.may_serve
    assert not side.look(WAIT_MS)
    assert (side.called, side.wait.may_serve) == (["serves"], True)
    assert not side.look(WAIT_MS + 1000, "b")  # from now on GroupFitness hands over
