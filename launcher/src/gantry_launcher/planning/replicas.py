"""The replicas of each broker: their names, their places among the ports, and what a data directory has of them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

NAMES = "abcdefghijklmnopqrstuvwxyz"
"""Names of replicas. One that was removed is never used again: the register of its broker may still count on what it had."""
REPLICAS_MIN, REPLICAS_MAX = 2, 5
STORES_MAX = 26
"""Stores of all brokers: more do not fit between the ports of --port-base."""
STORE_PORT = 10911
BROKER_STEP = 100
"""broker-b is 11011: 10921 and 10931 belong to other services."""
REPLICA_STEP = 30
"""Replicas of broker-a are 10911, 10941, 10971, 11001, 11031: beside those of broker-b, and beside scheduler and txn-checker."""
BASE_FIRST, BASE_STEP = 12, 10


class NoSuchReplica(Exception):
    """A broker cannot get or lose a replica; the text says why."""


@dataclass(frozen=True)
class Replication:
    """What a data directory has: the replicas of each broker, and the brokers whose register was made."""

    replicas: int
    """Of a broker that none were added to and none removed from."""
    with_register: frozenset[str] = frozenset()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The replicas of brokers that some were added to or removed from."""
    used: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Every name that a replica of these brokers ever had."""

    def names_of(self, broker: str) -> tuple[str, ...]:
        """Return the names of a broker's replicas; one empty name without replication."""
        first = tuple(NAMES[: self.replicas]) if self.replicas > 1 else ("",)
        return self.names.get(broker, first)

    def used_by(self, broker: str) -> tuple[str, ...]:
        """Return every name that a replica of this broker ever had."""
        return self.used.get(broker, self.names_of(broker))

    def with_added(self, broker: str) -> tuple["Replication", str]:
        """Return it with one more replica of a broker, and the new name. Raises NoSuchReplica."""
        names, used = self.names_of(broker), self.used_by(broker)
        if len(names) >= REPLICAS_MAX:
            raise NoSuchReplica(f"{broker} has {len(names)} replicas, and more are of no use")
        name = next((name for name in NAMES if name not in used), "")
        if not name:
            raise NoSuchReplica(f"every name of a replica of {broker} was used once")
        return self._changed(broker, (*names, name), (*used, name)), name

    def without(self, broker: str, name: str) -> "Replication":
        """Return it without a replica of a broker. Raises NoSuchReplica."""
        names = self.names_of(broker)
        if name not in names:
            raise NoSuchReplica(f"{broker} has no replica {name}; there are {', '.join(names)}")
        if len(names) <= REPLICAS_MIN:
            raise NoSuchReplica(
                f"{broker} has {len(names)} replicas, and needs so many: add one first, then remove {name}"
            )
        return self._changed(broker, tuple(one for one in names if one != name), self.used_by(broker))

    def _changed(self, broker: str, names: tuple[str, ...], used: tuple[str, ...]) -> "Replication":
        return replace(self, names={**self.names, broker: names}, used={**self.used, broker: used})


@dataclass(frozen=True)
class Seat:
    """One store: its broker by the name of its process or folder, and its name in the group, empty without replication."""

    broker: str
    replica: str
    broker_index: int
    index: int
    """Of all stores."""

    @property
    def process(self) -> str:
        """The name of its process."""
        return f"{self.broker}-{self.replica}" if self.replica else self.broker

    @property
    def folder(self) -> tuple[str, ...]:
        """Its folder in the data directory: replicas lie in that of their broker."""
        return (self.broker, self.replica) if self.replica else (self.broker,)

    @property
    def known_port(self) -> int:
        """Its well-known port."""
        replica = NAMES.index(self.replica) if self.replica else 0
        return STORE_PORT + self.broker_index * BROKER_STEP + replica * REPLICA_STEP

    @property
    def base_step(self) -> int:
        """Its distance from --port-base."""
        return base_step(self.index)


def base_step(index: int) -> int:
    """Return the distance from --port-base of the store with this place among all stores."""
    return BASE_FIRST + index * BASE_STEP


def seats(brokers: int, replication: Replication) -> list[Seat]:
    """Return all stores, those of one broker together."""
    names = [f"broker-{chr(ord('a') + index)}" for index in range(brokers)]
    places = [
        (index, name, replica) for index, name in enumerate(names) for replica in replication.names_of(name)
    ]
    return [Seat(name, replica, broker, index) for index, (broker, name, replica) in enumerate(places)]
