"""A group of three replicas under load keeps its promises through faults of its processes, connections and register.

Two faults always; any number on request: `./gantry test -m soak tests/faults/replicas --kill-cycles 200 --seed 7`, or the program
`.venv/bin/python -m tests.faults.replicas.nemesis --cycles 200`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from .catalogue import FAULTS, kinds_for
from .nemesis import Run, table
from .system import ReplicaSystem

pytestmark = [pytest.mark.crash, pytest.mark.cluster]
PLANTED = Path(__file__).parent / "planted"
QUICK = ("kill_leader", "leader_alone")


@pytest.mark.timeout(600)
def test_a_killed_leader_and_one_without_its_group_break_no_promise(tmp_path: Path, seed: int) -> None:
    run = Run(ReplicaSystem(tmp_path), seed)
    count = run.go(len(QUICK), QUICK)
    print(table(run))
    assert run.findings.holds, f"{run.findings} {count}"
    assert count.acknowledged > 20


@pytest.mark.soak
@pytest.mark.timeout(12 * 3600)
def test_many_faults_break_no_promise(tmp_path: Path, seed: int, request: pytest.FixtureRequest) -> None:
    cycles = int(request.config.getoption("--kill-cycles"))
    has_disks = os.geteuid() == 0
    run = Run(ReplicaSystem(tmp_path, has_disks=has_disks), seed)
    count = run.go(cycles, kinds_for(FAULTS, has_disks=has_disks))
    print(table(run))
    assert run.findings.holds, f"{run.findings} {count}"
    assert count.acknowledged > 20 * cycles


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("planted", "promises"),
    [
        ("own_sync_only", {"lost"}),
        ("lease_without_followers", {"two leases"}),
        ("tails_are_kept", {"logs differ", "lost", "ends differ", "stuck"}),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, planted: str, promises: set[str]) -> None:
    system = ReplicaSystem(tmp_path, python_path=PLANTED / planted)
    run = Run(system, random.SystemRandom().randrange(1 << 31))
    run.go(2, ("leader_alone",))
    assert promises & {promise for promise, words in run.findings.wrong.items() if words}
