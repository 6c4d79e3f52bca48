"""A life as data: the shape of the system, and a list of acts with their times. Whatever is in a plan can be replayed and shrunk."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

STORE, CLIENT, NAMESERVER = "store", "client", "nameserver"
SCHEDULER, CHECKER = "scheduler", "txn-checker"
GATEWAY, NATS, VALKEY = "gateway", "nats", "valkey"
PRODUCER, PAYER, CONCURRENT, ORDERLY = "producer", "payer", "concurrent", "orderly"
POLLING, PULLING = "polling", "pulling"
"""Programs that use the SDK. Consumers are named by their group."""


def names(kind: str, count: int) -> list[str]:
    """Return the names of the processes of a kind."""
    return [f"{kind}-{number}" for number in range(count)]


def topic_name(number: int) -> str:
    """Return the name of a topic of the plan."""
    return f"Topic{number}"


def broker_of(store: str) -> str:
    """Return the brokerName of a store, which may be a replica."""
    return store.partition(".")[0]


def is_topic(name: str) -> bool:
    """Whether a topic is one of a plan, not one of the product's own."""
    return name.startswith("Topic")


class StoreShape(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one store for its first start."""

    flush: Literal["sync", "async"] = "sync"
    index: bool = True
    fast_paths: bool = True
    checkpoint_seconds: float = 5.0
    zero_ahead_bytes: int = 128 << 10
    """With 0, a full disk is met by the write of a message, not only by that of the next segment."""
    segment_bytes: int = 1 << 20
    has_slow_disk: bool = False
    """Syncs and other calls in threads stall often."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What the system consists of."""

    stores: tuple[StoreShape, ...]
    replicas: int = 0
    """Of each store, which is a broker group then. 0: stores have no replicas."""
    is_async: bool = False
    """Leaders of groups answer plain sends once their own disk has them."""
    lease_ms: int = 1000
    """Of groups. Their grace is half as long again."""
    clock_drift: float = 0.0
    """Most difference between the rates of the replicas' steady clocks and the true one, as a ratio."""
    last_takeovers: int = 0
    """So often the leader of a group is killed in the end, and another one shows what it has."""
    clients: int = 1
    topics: int = 1
    queues: int = 1
    nameservers: int = 0
    """All else below needs one."""
    schedulers: int = 0
    checkers: int = 0
    check_max: int = 10_000
    """Checks after which a transaction is parked."""
    gateways: int = 0
    """Workers of one machine."""
    nats: bool = False
    valkey: bool = False
    producers: int = 0
    """These and all below use the SDK."""
    payers: int = 0
    concurrent: int = 0
    orderly: int = 0
    polling: int = 0
    pulling: int = 0
    has_rough_network: bool = False
    """Connections break by themselves."""
    ends_with_power_cut: bool = False
    """All stores lose their power before the last reading: what is not durable by then was not durable."""

    deletes_old: bool = False
    """Stores keep messages for an hour, and delete segments when their disk fills: `retention.py`."""
    counts_memory: bool = False
    """Caches are small, and what the processes keep in memory is counted: `memory/`."""

    epilogue: Literal["", "rebuild", "hours"] = ""
    """What happens to the stores in the end: `epilogues.py`."""

    def counts(self) -> dict[str, int]:
        """Return how many processes there are, by kind."""
        return {
            NAMESERVER: self.nameservers,
            STORE: len(self.stores),
            CLIENT: self.clients,
            SCHEDULER: self.schedulers,
            CHECKER: self.checkers,
            GATEWAY: self.gateways,
            PRODUCER: self.producers,
            PAYER: self.payers,
            CONCURRENT: self.concurrent,
            ORDERLY: self.orderly,
            POLLING: self.polling,
            PULLING: self.pulling,
        }

    def members(self) -> list[str]:
        """Return the names of all processes."""
        servers = [name for name, is_there in ((NATS, self.nats), (VALKEY, self.valkey)) if is_there]
        own = {kind: names(kind, count) for kind, count in self.counts().items()}
        own[STORE] = self.store_names()
        return [name for of_kind in own.values() for name in of_kind] + servers

    def store_names(self) -> list[str]:
        """Return the names of all stores: those of replicas begin with that of their broker."""
        return [name for broker in names(STORE, len(self.stores)) for name in self.replica_names(broker)]

    def replica_names(self, broker: str) -> list[str]:
        """Return the names of a broker's replicas; its own if it has none."""
        return [f"{broker}.{chr(ord('a') + number)}" for number in range(self.replicas)] or [broker]

    @property
    def has_programs(self) -> bool:
        """Whether programs use the SDK."""
        programs = (self.producers, self.payers, self.concurrent, self.orderly, self.polling, self.pulling)
        return any(programs)


class Act(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation of a client, or one fault. `kind` is a name in OPERATIONS or FAULTS; the fields mean what the kind says."""

    at_ms: int
    kind: str
    on: str
    """The process that it happens to: a store for operations. For a fault of a group: the replica that leads then."""
    by: str = ""
    """The client of an operation; the other host of a network fault."""
    number: int = 0
    """Of a message: unique in the plan. Of a fault: a seed."""
    topic: int = 0
    queue: int = 0
    size: int = 0
    span_ms: int = 0
    """How long a fault lasts."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One life. The seed decides what the acts leave open: latencies, the order of events, what a power cut leaves."""

    seed: int
    seconds: float
    """Virtual time until all faults end."""
    shape: Shape
    acts: tuple[Act, ...]

    def with_acts(self, acts: list[Act]) -> Plan:
        """Return this plan with other acts."""
        return msgspec.structs.replace(self, acts=tuple(acts))


def save(plan: Plan, path: Path) -> None:
    """Write a plan as JSON. Raises OSError."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")


def load(path: Path) -> Plan:
    """Read a plan. Raises OSError, or msgspec.ValidationError with the field that is wrong."""
    return msgspec.json.decode(path.read_bytes(), type=Plan)
