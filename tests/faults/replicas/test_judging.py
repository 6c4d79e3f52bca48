"""The checker finds each broken promise in events that show it, and nothing in those of a group that keeps them."""

from __future__ import annotations

import pytest

from .judging import Fault, Findings, Found, judge_probes, silences
from .probes import Acknowledged, Commit, Look, Query, Seen

FAULT = Fault("kill_leader", 20.0, 20.5, 24.0)


def acknowledged(replica, name, sent, offset):
    return Acknowledged(replica, name, sent, sent + 0.1, offset, 100 * offset)


def look(replica, began, epoch, *, role="leader", lease=True):
    return Look(replica, began, began + 0.1, {"role": role, "epoch": epoch, "hasLease": lease})


def seen_of_a_takeover() -> Seen:
    """Build what a leader and its successor do."""
    seen = Seen(wall_offset_s=1000.0)
    seen.attempted |= {"one", "two", "unknown"}
    seen.acknowledged += [acknowledged("a", "one", 10.0, 0), acknowledged("b", "two", 22.0, 1)]
    seen.looks += [look("a", 10.0, 1), look("a", 19.0, 1), look("b", 22.0, 2), look("b", 23.0, 2)]
    seen.looks.append(look("a", 23.5, 2, role="follower", lease=False))
    seen.commits += [Commit(5, 12.0), Commit(9, 19.5)]
    seen.queries += [Query("a", 5, 13.0), Query("b", 5, 22.0)]
    return seen


FOUND = {0: Found("one", 1010_050), 1: Found("two", 1022_050)}


def judged(seen, found):
    findings = Findings()
    judge_probes(seen, found, [FAULT], findings)
    return {promise for promise, words in findings.wrong.items() if words}


def test_a_takeover_that_keeps_all_promises():
    assert judged(seen_of_a_takeover(), FOUND) == set()
    assert judged(seen_of_a_takeover(), {**FOUND, 2: Found("unknown", 1022_100)}) == set()


def lose(seen, found):
    del found[1]


def move(seen, found):
    seen.attempted.add("three")
    seen.acknowledged.append(acknowledged("a", "three", 11.0, 1))


def add_foreign(seen, found):
    found[7] = Found("from elsewhere", 1023_000)


def go_back(seen, found):
    seen.queries.append(Query("b", 4, 23.0))


def go_back_without_a_fault(seen, found):
    seen.queries.append(Query("a", 4, 14.0))


def lead_twice(seen, found):
    seen.looks.append(look("a", 22.5, 2, lease=False))


def grant_twice(seen, found):
    seen.looks.append(look("a", 22.9, 1))


def jump_ahead(seen, found):
    found[1] = Found("two", 1322_050)


def jump_back(seen, found):
    found[1] = Found("two", 1022_050 - 300_000)


def go_back_in_time(seen, found):
    found[2] = Found("unknown", 1022_000)


def acknowledge_behind(seen, found):
    seen.acknowledged[1] = seen.acknowledged[1]._replace(sent=9.0, at=9.5)


@pytest.mark.parametrize(
    ("harm", "promise"),
    [
        (lose, "lost"), (move, "moved"), (add_foreign, "foreign"), (go_back, "offset back"),
        (go_back_without_a_fault, "offset back"), (lead_twice, "two leaders"), (grant_twice, "two leases"),
        (acknowledge_behind, "order"), (jump_ahead, "store time"), (jump_back, "store time"),
        (go_back_in_time, "store time back"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_found(harm, promise):
    seen, found = seen_of_a_takeover(), dict(FOUND)
    harm(seen, found)
    assert promise in judged(seen, found)


def test_a_silence_is_the_longest_time_without_an_acknowledgement():
    assert silences([19.0, 20.2, 21.5, 23.9], [FAULT])["kill_leader"] == [pytest.approx(2.4)]
    assert silences([], [FAULT])["kill_leader"] == [pytest.approx(4.0)]
