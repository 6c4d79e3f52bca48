"""Whether all replicas of a broker are in sync, from what each says."""

from typing import Any

import pytest

from gantry_launcher.planning.groups import Member, leader_of, obstacles, progress_of, read_member


def leader(epoch: int = 3, *, accepts: bool = True, **in_sync: bool) -> dict[str, Any]:
    others = [
        {"name": name, "isInSync": is_in_sync, "behindBytes": None if is_in_sync else 1500}
        for name, is_in_sync in in_sync.items()
    ]
    return {
        "role": "leader", "epoch": epoch, "endOffset": 9000, "members": ["a"], "minInSync": 1, "acceptsSends": accepts, "replicas": others,
    }  # fmt: skip


def follower(role: str = "follower", end: int = 9000) -> dict[str, Any]:
    return {"role": role, "epoch": 3, "endOffset": end, "members": ["a"], "minInSync": 1, "replicas": []}


def said(**bodies: dict[str, Any]) -> dict[str, Member | None]:
    return {name: read_member(body) for name, body in bodies.items()}


def test_nothing_is_missing_when_the_leader_and_each_replica_say_so() -> None:
    assert obstacles(said(a=leader(b=True), b=follower()), with_unknown=True) == {}


@pytest.mark.parametrize(
    ("bodies", "missing"),
    [
        ({"a": follower(), "b": follower()}, {"": "no replica leads"}),
        ({"a": leader(b=True), "b": {}}, {"b": "it is not ready"}),
        ({"a": leader(b=False), "b": follower("learner")}, {"b": "not in sync: learner, behind by 1,500 bytes"}),
        ({"a": leader(b=True), "b": follower("learner")}, {"b": "in sync, and about to learn it (learner)"}),
        ({"a": leader(b=True, accepts=False), "b": follower()}, {"": "a leads and accepts no sends yet"}),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_in_words(bodies: dict[str, Any], missing: dict[str, str]) -> None:
    assert obstacles(said(**bodies), with_unknown=False) == missing


def test_a_replica_that_the_leader_does_not_know_is_missing_only_when_it_is_asked_for() -> None:
    found = said(a=leader(b=True), b=follower(), c=follower("learner"))
    assert obstacles(found, with_unknown=False) == {}
    assert obstacles(found, with_unknown=True) == {"c": "the leader does not know it yet"}


def test_of_two_leaders_the_later_epoch_leads() -> None:
    assert leader_of(said(a=leader(3), b=leader(4))) == "b"


def test_a_copy_that_grows_is_progress_and_the_growing_log_of_others_is_none() -> None:
    before = progress_of(said(a=leader(b=False), b=follower("learner", 10)), {"b"})
    assert progress_of(said(a=leader(b=False), b=follower("learner", 20)), {"b"}) != before
    assert (
        progress_of(said(a=leader(b=False) | {"endOffset": 10_000}, b=follower("learner", 10)), {"b"})
        == before
    )


@pytest.mark.parametrize(
    "body", [{}, {"role": 3, "replicas": [], "members": []}, {"role": "leader", "replicas": {}}]
)
def test_an_answer_that_is_none_says_nothing(body: dict[str, Any]) -> None:
    assert read_member(body) is None
