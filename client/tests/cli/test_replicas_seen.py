"""What doctor says of replicas: behind, silent, without a leader, with a register that is away."""

from __future__ import annotations

from typing import Any

import pytest

from gantrymq.cli.examining import Finding
from gantrymq.cli.replicas_seen import replica_findings


def broker(*roles: str, leader: str | None = "a", fault: str = "", behind: int | None = 0) -> dict[str, Any]:
    """As `./gantry status --json` lists one."""
    replicas = [
        {"name": name, "address": f"host:{number}", "role": role, "epoch": 1, "behindBytes": behind}
        for number, (name, role) in enumerate(zip("abc", roles, strict=True), 1)
    ]
    return {"name": "broker-a", "leader": leader, "registerFault": fault, "replicas": replicas}


def wrong(*brokers: dict[str, Any]) -> list[Finding]:
    return [one for one in replica_findings(brokers) if not one.is_well]


def test_brokers_without_replicas_have_no_findings() -> None:
    assert replica_findings([{"name": "broker-a", "address": "host:1"}]) == []


def test_a_whole_group_is_well_however_far_its_followers_are_behind() -> None:
    """A follower in sync has what was acknowledged; bytes on their way are no fault."""
    found = replica_findings([broker("leader", "follower", "follower", behind=4096)])
    assert [(one.part, one.address, one.is_well) for one in found] == [
        ("broker-a a", "host:1", True),
        ("broker-a b", "host:2", True),
        ("broker-a c", "host:3", True),
    ]


@pytest.mark.parametrize(
    ("role", "behind", "words"),
    [
        ("learner", 1120, "it is not in sync (learner, behind by 1120 bytes)"),
        ("learner", None, "it is not in sync (learner)"),
        ("deposed", None, "it is not in sync (deposed)"),
        ("unknown", None, "it does not answer who leads"),
    ],
)
def test_a_replica_that_is_not_in_sync_is_named(role: str, behind: int | None, words: str) -> None:
    (one,) = wrong(broker("leader", "follower", role, behind=behind))
    assert (one.part, one.address, one.words) == ("broker-a c", "host:3", words)
    assert one.remedy


@pytest.mark.parametrize(
    ("lost", "words", "remedy"),
    [
        (0, "its disk is full, or its log has lost records", "free space"),
        (4096, "its log has lost 4096 bytes", "it fills them"),
    ],
)
def test_a_replica_in_sync_that_is_not_fit_to_lead_is_named(lost: int, words: str, remedy: str) -> None:
    group = broker("leader", "follower", "follower")
    group["replicas"][1] |= {"isFit": False, "lostBytes": lost}
    (one,) = wrong(group)
    assert (one.part, one.words) == ("broker-a b", f"it is not fit to lead: {words}")
    assert one.remedy.startswith(remedy)


def test_replicas_that_are_fit_or_do_not_say_it_are_well() -> None:
    group = broker("leader", "follower", "follower")
    group["replicas"][0] |= {"isFit": True, "lostBytes": 0}
    group["replicas"][1] |= {"isFit": None, "lostBytes": None}
    assert wrong(group) == []


def test_a_broker_without_a_leader_is_named_with_all_its_addresses() -> None:
    one = wrong(broker("promised", "follower", "unknown", leader=None))[-1]
    assert (one.part, one.address) == ("broker-a leader", "host:1, host:2, host:3")
    assert "no replica leads" in one.words


def test_a_register_that_is_away_is_named_with_its_fault() -> None:
    (one,) = wrong(broker("leader", "follower", "follower", fault="no NATS server was reached in time"))
    assert one.part == "broker-a register"
    assert "no NATS server was reached in time" in one.words
    assert "two of the three NATS servers" in one.remedy
    assert one.remedy.endswith("./gantry replicas rebuild-register broker-a")
