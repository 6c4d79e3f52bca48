"""Shipments in parts: only whole ones come out, in the order of one connection."""

from itertools import pairwise

import pytest

from broker_store.replication.arriving import SENDERS_MAX, Arriving, Shipment
from broker_store.replication.frames import Part
from broker_store.replication.messages import Beat, Session

HEAD = Beat(Session("b-1", 4), 2, 3, 100, 5_000, 0)
LATER = Beat(Session("b-1", 4), 2, 3, 100, 5_001, 0)
DATA = b"abcdefghij"


def parts(*cuts, head=HEAD, position=100):
    edges = (0, *cuts, len(DATA))
    return [
        Part(head, position, position + len(DATA), len(DATA), at, DATA[at:end]) for at, end in pairwise(edges)
    ]


@pytest.mark.parametrize("cuts", [(), (3,), (1, 2, 9)])
def test_the_last_part_completes_a_shipment(cuts):
    arriving = Arriving()
    *first, last = parts(*cuts)
    assert [arriving.take("a", part) for part in first] == [None] * len(cuts)
    assert arriving.take("a", last) == Shipment(HEAD, 100, 110, DATA)
    assert arriving.take("a", last) is None or not cuts


def test_a_missing_or_repeated_part_drops_what_has_arrived():
    one, two, three = parts(3, 6)
    for sequence in ((one, three), (one, two, two, three), (two, three), (one, two, one, three)):
        arriving = Arriving()
        assert [arriving.take("a", part) for part in sequence] == [None] * len(sequence)


def test_parts_of_two_shipments_are_not_mixed():
    for other in (parts(3, 6, head=LATER), parts(3, 6, position=200)):
        arriving = Arriving()
        sequence = (parts(3, 6)[0], other[1], other[2])
        assert [arriving.take("a", part) for part in sequence] == [None] * 3


def test_a_new_shipment_begins_after_a_broken_one():
    arriving = Arriving()
    arriving.take("a", parts(3)[0])
    arriving.take("a", parts(3, head=LATER)[0])
    assert arriving.take("a", parts(3, head=LATER)[1]) == Shipment(LATER, 100, 110, DATA)


def test_senders_do_not_disturb_each_other_and_are_few():
    arriving = Arriving()
    first, last = parts(5)
    for number in range(2):
        arriving.take(f"s{number}", first)
    assert arriving.take("s0", last) is not None
    assert arriving.take("s1", last) is not None
    for number in range(5 * SENDERS_MAX):
        arriving.take(f"s{number}", first)
    assert len(arriving._begun) <= SENDERS_MAX


def test_what_a_lost_connection_began_is_forgotten():
    arriving = Arriving()
    first, last = parts(5)
    arriving.take("a", first)
    arriving.forget("a")
    assert arriving.take("a", last) is None
