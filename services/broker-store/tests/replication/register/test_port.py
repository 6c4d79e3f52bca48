"""What became of a write: final only when a record proves it."""

import pytest
from nats_nodes import record

from broker_store.replication.register import Outcome, Refused, Registered, Unknown, Written
from broker_store.replication.register.port import outcome_of

MINE, OTHER, NEWER = record(5, "mine"), record(5, "other"), record(7, "newer")
KEPT = 10


@pytest.mark.parametrize(
    ("newest", "at_its_place", "outcome"),
    [
        (MINE, MINE, Written(5)),
        (NEWER, MINE, Written(5)),
        (OTHER, OTHER, Refused(OTHER)),
        (NEWER, OTHER, Refused(NEWER)),
        (record(15, "far"), None, Refused(record(15, "far"))),
    ],
)
def test_a_record_in_the_place_decides(
    newest: Registered, at_its_place: Registered | None, outcome: Outcome
) -> None:
    assert outcome_of(MINE, newest, at_its_place, KEPT) == outcome


@pytest.mark.parametrize("newest", [None, record(4, "before"), NEWER, record(14, "last that shows it")])
def test_a_place_that_was_not_seen_decides_nothing(newest: Registered | None) -> None:
    """The newest record and the one in the place may come from two servers, one of them behind."""
    assert isinstance(outcome_of(MINE, newest, None, KEPT), Unknown)
