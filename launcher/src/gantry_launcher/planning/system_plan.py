"""What a plan says: the processes, with their commands and checks, and the addresses of the system."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gantry_launcher.access.exposure import AccessControl
from gantry_launcher.planning.health import Check
from gantry_launcher.planning.nats_nodes import NatsNode, urls_of


@dataclass(frozen=True)
class ProcessPlan:
    """One process. Stages stop one after the other, the lowest first: callers stop before the processes they call.

    `check` shows whether the system can use the process, `watched` whether this process itself runs; both are equal when it has its own port.
    Lines that contain one of `silent` are not shown; they are kept in case the process cannot start.
    """

    name: str
    role: str
    command: tuple[str, ...]
    folder: str
    check: Check
    stage: int
    stop_seconds: float
    log: str
    silent: tuple[str, ...] = ()
    own_check: Check | None = None
    rolls_log: bool = True
    """Whether the process rotates its log itself."""
    dump_signal: int | None = signal.SIGUSR1
    """The signal that makes it log the stacks of its threads, even while it spins."""
    until_ready: tuple[str, ...] = ()
    """Words that its command has only until it was ready for the first time."""

    @property
    def watched(self) -> Check:
        """The address where this process itself answers."""
        return self.own_check or self.check


@dataclass(frozen=True)
class StorePlan:
    """Addresses of one broker-store."""

    name: str
    address: str
    http: str
    directory: str
    process: str
    check: Check
    replica: str = ""
    """Its name among the replicas of its broker; empty without replication."""

    @property
    def broker(self) -> str:
        """Its broker as the launcher names it, whatever `broker_name` is."""
        return self.process.removesuffix(f"-{self.replica}") if self.replica else self.process

    def shown(self, pid: int | None) -> dict[str, Any]:
        """Return what `up --json` prints about where it is."""
        return {"address": self.address, "http": self.http, "pid": pid, "store": self.directory}


@dataclass(frozen=True)
class SystemPlan:
    """All processes and the public addresses."""

    processes: tuple[ProcessPlan, ...]
    http: str
    nameserver: str
    nats: tuple[NatsNode, ...]
    redis: str
    stores: tuple[StorePlan, ...]
    listen: str
    access: AccessControl
    ports: Mapping[str, int]
    """The ports that were chosen, by what they are for: a later plan of the same system has the same ones."""
    grpc: str
    """The gateways' gRPC port, as "host:port"; empty if it is off."""

    def addresses(self, pids: Mapping[str, int | None]) -> dict[str, Any]:
        """Return the fixed part of the object that `up --json` prints, with the pids of the processes by name.

        A broker with replicas lists them, and has itself the place of the first: who leads is known by asking them.
        """
        brokers: list[dict[str, Any]] = []
        for _, group in groupby(self.stores, lambda store: store.broker):
            stores = list(group)
            broker = {"name": stores[0].name, **stores[0].shown(pids[stores[0].process])}
            if stores[0].replica:
                broker["replicas"] = [
                    {"name": one.replica, "process": one.process, **one.shown(pids[one.process])}
                    for one in stores
                ]
            brokers.append(broker)
        return {
            "http": self.http,
            "grpc": self.grpc,
            "nameserver": self.nameserver,
            "brokers": brokers,
            "nats": urls_of(self.nats),
            "redis": self.redis,
            "listen": self.listen,
            "accessControl": self.access.value,
        }
