"""What is done to processes and connections of a group. Each fault returns when it has lasted long enough; `Nemesis.heal` ends it.

`machine_faults.py` has those of clocks, disks and whole machines.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from .disks import Disk
from .group import NAMES, NODES, Group
from .system import ReplicaSystem


class Nemesis:
    """Does faults to a system."""

    def __init__(self, system: Group, dice: random.Random, pace: float = 1.0) -> None:
        """`pace` shortens what lasts: 1 for up to the longest time of a fault, 0 for its least."""
        self.system, self.dice, self._pace = system, dice, pace

    def others(self, name: str) -> list[str]:
        return [one for one in NAMES if one != name]

    def follower(self, leader: str) -> str:
        return self.dice.choice(self.others(leader))

    def wait(self, least: float, most: float) -> None:
        """Let a fault last."""
        time.sleep(self.dice.uniform(least, least + (most - least) * self._pace))

    def cut(self, names: list[str], others: list[str], *, both: bool = True) -> None:
        """Cut what `names` say to `others`, and the answers."""
        pairs = [(one, other) for one in names for other in others]
        self.system.cables.cut([*pairs, *((other, one) for one, other in pairs)] if both else pairs)

    def node_of(self, name: str) -> str:
        """Return the NATS server on the machine of a replica."""
        return NODES[NAMES.index(name)]

    def disk(self, name: str) -> Disk:
        assert isinstance(self.system, ReplicaSystem)
        return self.system.disks[name]

    def move_clock(self, name: str, seconds: float) -> None:
        assert isinstance(self.system, ReplicaSystem)
        self.system.clocks.move(name, seconds)

    def heal(self) -> None:
        """End every fault."""
        self.system.heal()


Do = Callable[[Nemesis, str], None]
"""A fault, which takes the name of the leader."""


def process_of(name: str) -> str:
    """Return the name of the process of a replica."""
    return f"broker-a-{name}"


def kill_leader(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.kill(process_of(leader))


def kill_leader_down(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.pause("launcher")
    nemesis.system.kill(process_of(leader))
    nemesis.wait(3, 8)


def kill_follower(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.kill(process_of(nemesis.follower(leader)))


def kill_follower_down(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.pause("launcher")
    nemesis.system.kill(process_of(nemesis.follower(leader)))
    nemesis.wait(3, 8)


def kill_both_followers(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.kill(*(process_of(name) for name in nemesis.others(leader)))


def kill_all(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.kill(*(process_of(name) for name in NAMES))


def kill_twice(nemesis: Nemesis, leader: str) -> None:
    """Kill the leader, and its successor as soon as it serves."""
    nemesis.system.kill(process_of(leader))
    time.sleep(0.3)
    nemesis.system.kill(process_of(nemesis.system.leader()))


def drain_leader(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.terminate(process_of(leader))


def drain_follower(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.terminate(process_of(nemesis.follower(leader)))


def pause_leader(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.pause(process_of(leader))
    nemesis.wait(3, 20)


def pause_leader_shortly(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.pause(process_of(leader))
    nemesis.wait(0.5, 2.5)


def pause_follower(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.pause(process_of(nemesis.follower(leader)))
    nemesis.wait(3, 15)


def pause_all_stores(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.pause(*(process_of(name) for name in NAMES))
    nemesis.wait(2, 6)


def leader_alone(nemesis: Nemesis, leader: str) -> None:
    nemesis.cut([leader], [*nemesis.others(leader), *NODES])
    nemesis.wait(3, 12)


def leader_without_peers(nemesis: Nemesis, leader: str) -> None:
    """Everybody reaches the register."""
    nemesis.cut([leader], nemesis.others(leader))
    nemesis.wait(3, 12)


def leader_without_register(nemesis: Nemesis, leader: str) -> None:
    nemesis.cut([leader], list(NODES))
    nemesis.wait(3, 12)


def leader_with_a_minority(nemesis: Nemesis, leader: str) -> None:
    nemesis.cut([leader], [*nemesis.others(leader), *NODES[1:]])
    nemesis.system.pause(NODES[0])
    nemesis.wait(3, 12)


def follower_alone(nemesis: Nemesis, leader: str) -> None:
    nemesis.cut([nemesis.follower(leader)], [*NODES, *NAMES])
    nemesis.wait(3, 12)


def followers_apart(nemesis: Nemesis, leader: str) -> None:
    """Followers reach the leader, not each other."""
    one, other = nemesis.others(leader)
    nemesis.cut([one], [other])
    nemesis.wait(2, 8)


def leader_unheard(nemesis: Nemesis, leader: str) -> None:
    """What the leader says arrives nowhere."""
    nemesis.cut([leader], nemesis.others(leader), both=False)
    nemesis.wait(3, 12)


def leader_deaf(nemesis: Nemesis, leader: str) -> None:
    """The leader hears nobody."""
    nemesis.cut(nemesis.others(leader), [leader], both=False)
    nemesis.wait(3, 12)


def follower_unheard(nemesis: Nemesis, leader: str) -> None:
    nemesis.cut([nemesis.follower(leader)], [leader], both=False)
    nemesis.wait(3, 12)


def follower_deaf(nemesis: Nemesis, leader: str) -> None:
    nemesis.cut([leader], [nemesis.follower(leader)], both=False)
    nemesis.wait(3, 12)


def nats_node_killed(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.kill(nemesis.dice.choice(NODES))
    nemesis.wait(1, 4)


def nats_node_paused(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.pause(nemesis.dice.choice(NODES))
    nemesis.wait(3, 15)


def nats_away(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.pause(*NODES)
    nemesis.wait(10, 20)


def nats_killed(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.kill(*NODES)
    nemesis.wait(2, 5)


def leader_and_nats_node(nemesis: Nemesis, leader: str) -> None:
    nemesis.system.kill(process_of(leader), nemesis.dice.choice(NODES))


def older_directory(nemesis: Nemesis, leader: str) -> None:
    """A follower comes back with its directory of some seconds ago, as from a backup."""
    system, name = nemesis.system, nemesis.follower(leader)
    system.pause("launcher")
    system.kill(process_of(name))
    copy = system.copy_directory(name)
    system.resume()
    system.wait_whole()
    nemesis.wait(1, 3)
    if system.leader() == name:
        return  # it would have promised what it forgets
    system.pause("launcher")
    system.kill(process_of(name))
    system.replace_directory(name, copy)


def empty_directory(nemesis: Nemesis, leader: str) -> None:
    """A follower that is out of the set comes back without its directory."""
    system, name = nemesis.system, nemesis.follower(leader)
    system.pause("launcher")
    system.kill(process_of(name))
    system.wait(
        lambda: "out" if name not in system.view(leader).get("members", [name]) else "", "smaller set", 30
    )
    system.replace_directory(name, None)


def everything(nemesis: Nemesis, leader: str) -> None:
    """A power cut, as far as processes feel one."""
    nemesis.system.kill(*(process_of(name) for name in NAMES), *NODES)


PROCESSES_AND_CONNECTIONS: tuple[Do, ...] = (
    kill_leader, kill_leader_down, kill_follower, kill_follower_down, kill_both_followers, kill_all, kill_twice,
    drain_leader, drain_follower, pause_leader, pause_leader_shortly, pause_follower, pause_all_stores,
    leader_alone, leader_without_peers, leader_without_register, leader_with_a_minority, follower_alone, followers_apart,
    leader_unheard, leader_deaf, follower_unheard, follower_deaf,
    nats_node_killed, nats_node_paused, nats_away, nats_killed, leader_and_nats_node, everything,
    older_directory, empty_directory,
)  # fmt: skip
