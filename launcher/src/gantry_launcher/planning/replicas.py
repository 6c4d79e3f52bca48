"""The replicas of each broker: their names, their places among the ports, and what a data directory has of them. Pure."""

from dataclasses import dataclass

NAMES = "abcde"
STORES_MAX = 26
"""Stores of all brokers: more do not fit between the ports of --port-base."""
STORE_PORT = 10911
BROKER_STEP = 100
"""broker-b is 11011: 10921 and 10931 belong to other services."""
REPLICA_STEP = 30
"""Replicas of broker-a are 10911, 10941, 10971, 11001, 11031: beside those of broker-b, and beside scheduler and txn-checker."""
BASE_FIRST, BASE_STEP = 12, 10


@dataclass(frozen=True)
class Replication:
    """What a data directory has: the number of replicas of each broker, and the brokers whose register was made."""

    replicas: int
    with_register: frozenset[str] = frozenset()


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
        return BASE_FIRST + self.index * BASE_STEP


def seats(brokers: int, replicas: int) -> list[Seat]:
    """Return all stores, those of one broker together."""
    names = NAMES[:replicas] if replicas > 1 else [""]
    places = [(index, name) for index in range(brokers) for name in names]
    return [
        Seat(f"broker-{chr(ord('a') + broker)}", name, broker, index)
        for index, (broker, name) in enumerate(places)
    ]
