"""Simulated groups whose disks fill, without other faults: a replica with room leads wherever there is one, and one without where there is none."""

from dataclasses import replace

import pytest
from group_node import Node
from group_world import World
from mutants import MUTANTS, planted

SEEDS = range(12)
NEVER_MS = 10_000_000
SETTLED_MS = 8000
MOVED_MS = 8000


class Calm(World):
    """Three replicas without faults, but those of the test."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, 3)
        self.profile = replace(
            self.profile, fault_ms=NEVER_MS, retain_ms=0, min_in_sync=2, down_ms=30, persist_ms=2, delay_ms=2, append_ms=100
        )  # fmt: skip
        self.lost = self.late = self.doubled = self.register_lost = self.stale = 0
        for node in self.nodes.values():
            self.at(self.drawn(50), node.start)
        self.at(self.drawn(100), self._send)
        self._run(SETTLED_MS)

    def pass_time(self, ms: int = MOVED_MS) -> None:
        self._run(self.now + ms)

    @property
    def leader(self) -> Node:
        (leader,) = [
            node for node in self.nodes.values() if node.role is not None and node.role.leading is not None
        ]
        return leader

    @property
    def others(self) -> list[Node]:
        return [node for node in self.nodes.values() if node is not self.leader]


def a_full_leader_hands_over_once_to_the_one_with_room(seed: int) -> None:
    world = Calm(seed)
    first, (full, free) = world.leader, world.others
    full.set_fitness(False)
    world.pass_time(500)
    first.set_fitness(False)
    world.pass_time()
    assert world.leader is free
    world.pass_time(4 * MOVED_MS)
    assert world.ledger.handovers == [(first.name, free.name)]
    acknowledged = world.ledger.acknowledged_at
    assert world.now - acknowledged < 1000


def a_full_replica_leads_only_when_no_other_one_does(seed: int) -> None:
    world = Calm(seed)
    full, free = world.others
    full.set_fitness(False)
    world.leader.crash(power=False)
    world.pass_time(4000)
    assert world.leader is free
    assert world.ledger.handovers == []


def test_a_full_leader_hands_over_once_to_the_one_with_room():
    for seed in SEEDS:
        a_full_leader_hands_over_once_to_the_one_with_room(seed)


def test_a_full_replica_leads_only_when_no_other_one_does():
    for seed in SEEDS:
        a_full_replica_leads_only_when_no_other_one_does(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_where_all_are_full_the_leader_stays_and_a_lost_one_is_replaced(seed: int):
    world = Calm(seed)
    first = world.leader
    for node in world.others:
        node.set_fitness(False)
    world.pass_time(500)
    first.set_fitness(False)
    world.pass_time()
    assert world.leader is first
    first.crash(power=False)
    world.pass_time()
    assert world.leader is not first
    assert world.ledger.handovers == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_full_leader_that_comes_back_lets_another_one_lead(seed: int):
    world = Calm(seed)
    first = world.leader
    first.set_fitness(False)
    first.crash(power=False)
    first.start()
    world.pass_time()
    assert world.leader is not first


def no_seed_breaks_the_rule() -> None:
    for seed in SEEDS:
        a_full_leader_hands_over_once_to_the_one_with_room(seed)
        a_full_replica_leads_only_when_no_other_one_does(seed)


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.rule == 13])
def test_a_planted_violation_is_found(name: str):
    with planted(name), pytest.raises((AssertionError, ValueError)):
        no_seed_breaks_the_rule()
