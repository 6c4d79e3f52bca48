"""Faults of machines: their clocks, their disks, their power, and all that runs on them together. As in `faults.py`."""

from __future__ import annotations

import time

from .faults import Do, Nemesis, process_of
from .group import NAMES, NODES

JUMP_SECONDS = 60.0, 850.0
"""Least and most. A store trusts a step of its wall clock after 15 minutes; none of these lasts so long."""


# --- clocks ------------------------------------------------------------------------------------------------


def leader_clock_jumps(nemesis: Nemesis, leader: str) -> None:
    """The wall clock of the leader steps, and steps back."""
    _jump(nemesis, leader)
    nemesis.wait(3, 8)


def follower_clocks_jump(nemesis: Nemesis, leader: str) -> None:
    """The next leader has a wrong wall clock, the last one does not."""
    for name in nemesis.others(leader):
        _jump(nemesis, name)
    nemesis.wait(0, 1)
    nemesis.system.kill(process_of(leader))
    nemesis.wait(4, 8)


def all_clocks_jump(nemesis: Nemesis, leader: str) -> None:
    """Each replica has another time, and the lead changes."""
    for name in NAMES:
        _jump(nemesis, name)
    nemesis.wait(1, 3)
    nemesis.system.terminate(process_of(leader))
    nemesis.wait(3, 6)


def clock_jumps_while_down(nemesis: Nemesis, leader: str) -> None:
    """A leader comes back with another wall clock, which is put right while it runs."""
    nemesis.system.pause("launcher")
    nemesis.system.kill(process_of(leader))
    _jump(nemesis, leader)
    nemesis.system.resume()
    nemesis.wait(4, 8)


def _jump(nemesis: Nemesis, name: str) -> None:
    seconds = nemesis.dice.uniform(*JUMP_SECONDS) * nemesis.dice.choice((-1, 1))
    nemesis.move_clock(name, seconds)


CLOCKS: tuple[Do, ...] = (
    leader_clock_jumps, follower_clocks_jump, all_clocks_jump, clock_jumps_while_down,
)  # fmt: skip


# --- machines and NATS servers apart -----------------------------------------------------------------------


def leader_machine_alone(nemesis: Nemesis, leader: str) -> None:
    """The leader reaches the NATS server of its machine, which is a minority, and nothing else."""
    _machine_alone(nemesis, leader)
    nemesis.wait(3, 12)


def follower_machine_alone(nemesis: Nemesis, leader: str) -> None:
    """A follower reaches the NATS server of its machine, and nothing else."""
    _machine_alone(nemesis, nemesis.follower(leader))
    nemesis.wait(3, 12)


def nats_node_alone(nemesis: Nemesis, leader: str) -> None:
    """One NATS server is cut off from the others; every replica reaches all three."""
    _node_alone(nemesis, nemesis.dice.choice(NODES), both=True)
    nemesis.wait(5, 15)


def nats_node_unheard(nemesis: Nemesis, leader: str) -> None:
    """What one NATS server says reaches no other one."""
    _node_alone(nemesis, nemesis.dice.choice(NODES), both=False)
    nemesis.wait(5, 15)


def nats_apart(nemesis: Nemesis, leader: str) -> None:
    """No NATS server reaches another one: the register answers nobody."""
    _all_nodes_apart(nemesis)
    nemesis.wait(5, 15)


def nats_apart_and_leader_killed(nemesis: Nemesis, leader: str) -> None:
    """Nobody can take over until the NATS servers reach each other."""
    _all_nodes_apart(nemesis)
    nemesis.wait(2, 4)
    nemesis.system.kill(process_of(leader))
    nemesis.wait(3, 8)


def _machine_alone(nemesis: Nemesis, name: str) -> None:
    others = nemesis.others(name)
    nemesis.cut([name, nemesis.node_of(name)], [*others, *map(nemesis.node_of, others)])


def _node_alone(nemesis: Nemesis, node: str, *, both: bool) -> None:
    nemesis.cut([node], [one for one in NODES if one != node], both=both)


def _all_nodes_apart(nemesis: Nemesis) -> None:
    for node in NODES:
        _node_alone(nemesis, node, both=True)


APART: tuple[Do, ...] = (
    leader_machine_alone, follower_machine_alone, nats_node_alone, nats_node_unheard, nats_apart, nats_apart_and_leader_killed,
)  # fmt: skip


# --- disks and power ---------------------------------------------------------------------------------------


def disk_full(nemesis: Nemesis, leader: str) -> None:
    """The disk of one replica is full, whether it leads or follows."""
    nemesis.disk(nemesis.dice.choice(NAMES)).fill()
    nemesis.wait(2, 8)


def leader_disk_fails(nemesis: Nemesis, leader: str) -> None:
    """Every write of the leader fails with EIO, and so do those of its restarts."""
    nemesis.disk(leader).kill()
    nemesis.wait(3, 8)


def follower_disk_fails(nemesis: Nemesis, leader: str) -> None:
    """Every write of a follower fails with EIO, and so do those of its restarts."""
    nemesis.disk(nemesis.follower(leader)).kill()
    nemesis.wait(3, 8)


def leader_disk_hangs(nemesis: Nemesis, leader: str) -> None:
    """No write of the leader ends; its connections answer."""
    nemesis.disk(leader).freeze()
    nemesis.wait(2, 10)


def follower_disk_hangs(nemesis: Nemesis, leader: str) -> None:
    """No write of a follower ends; its connections answer."""
    nemesis.disk(nemesis.follower(leader)).freeze()
    nemesis.wait(2, 10)


def disk_slow(nemesis: Nemesis, leader: str) -> None:
    """The writes of one replica take up to 0.6 s each, now and then longer than the lease."""
    disk, dice = nemesis.disk(nemesis.dice.choice(NAMES)), nemesis.dice
    until = time.monotonic() + dice.uniform(4, 10)
    while time.monotonic() < until:
        disk.freeze()
        time.sleep(dice.uniform(0.1, 0.6) if dice.random() < 0.9 else dice.uniform(0.9, 1.8))
        disk.thaw()
        time.sleep(dice.uniform(0.01, 0.1))


def power_cut_leader(nemesis: Nemesis, leader: str) -> None:
    """The machine of the leader loses its power."""
    _cut_power(nemesis, [leader])
    nemesis.wait(2, 6)


def power_cut_two(nemesis: Nemesis, leader: str) -> None:
    """Two machines lose their power at once, the leader's or not."""
    _cut_power(nemesis, nemesis.dice.sample(NAMES, 2))
    nemesis.wait(1, 4)


def power_cut_all(nemesis: Nemesis, leader: str) -> None:
    """All stores lose their power at once. The NATS servers are killed with them."""
    _cut_power(nemesis, list(NAMES))
    nemesis.system.kill(*NODES)
    nemesis.wait(0, 2)


def _cut_power(nemesis: Nemesis, names: list[str]) -> None:
    """Nothing that was not synced is there when the power is back, with `heal`."""
    nemesis.system.pause("launcher")
    for name in names:
        nemesis.disk(name).kill()
    nemesis.system.kill(*map(process_of, names))


DISKS: tuple[Do, ...] = (
    disk_full, leader_disk_fails, follower_disk_fails, leader_disk_hangs, follower_disk_hangs, disk_slow,
    power_cut_leader, power_cut_two, power_cut_all,
)  # fmt: skip
