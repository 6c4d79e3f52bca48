"""The system of one life: its processes by name, and which of them run."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.ledger.places import Place
from gantry_simulation.lives.brokers import Broker
from gantry_simulation.lives.client import Client, Surroundings
from gantry_simulation.lives.gateways import Gateways
from gantry_simulation.lives.groups import Group
from gantry_simulation.lives.history import History
from gantry_simulation.lives.operations.delays import LEVELS
from gantry_simulation.lives.operations.transactions import CHECK_SECONDS
from gantry_simulation.lives.plan import (
    CHECKER,
    CLIENT,
    NAMESERVER,
    SCHEDULER,
    STORE,
    Shape,
    StoreShape,
    broker_of,
    names,
)
from gantry_simulation.lives.programs import Programs
from gantry_simulation.network.conditions import Conditions
from gantry_simulation.network.network import Network
from gantry_simulation.parts.nameserver import Nameserver
from gantry_simulation.parts.register import SimulatedRegister
from gantry_simulation.parts.replica import OnEnd, Replica
from gantry_simulation.parts.scheduler import Scheduler
from gantry_simulation.parts.store import Store
from gantry_simulation.parts.txn_checker import TxnChecker
from gantry_simulation.processes.part import Part
from gantry_simulation.processes.process import Process
from gantry_simulation.processes.threads import Pace
from gantry_simulation.world.world import World

SLOW = Pace(stall_chance=0.05)
ROUGH = Conditions(slow_chance=0.05, loss_chance=0.002)
WORKER = {"poll_seconds": 2.0, "claim_ttl_ms": 1500}
"""Shorter than the product's, so that short lives see takeovers."""
CHECKS = {
    "transaction_timeout_ms": int(CHECK_SECONDS * 1000),
    "check_interval_ms": 1500,
    "poll_ms": 500,
}


RETAINING = {
    "reserved_hours": 1,
    "delete_when": ";".join(map(str, range(24))),
    "free_bytes_min": 64 << 10,
    "ballast_bytes": 64 << 10,
}
"""Segments are deleted at any hour, and at any age below 320 KB of free space."""


def _stay_down(_replica: Replica, _reason: str) -> None:
    """Do nothing: without a supervisor it stays down."""


class System:
    """Everything that the shape of a life has."""

    def __init__(self, world: World, shape: Shape, directory: Path) -> None:
        self.world, self.shape = world, shape
        self.on_end: OnEnd = _stay_down
        """Called while the life of a replica ends by itself."""
        self.network = Network(world, ROUGH if shape.has_rough_network else None)
        self.history = History(world)
        self.ledger = Ledger(world)
        self.happened: Counter[str] = Counter()
        """Kinds of acts that had an effect."""
        self.is_harmed: bool = shape.has_rough_network or any(store.has_slow_disk for store in shape.stores)
        """Whether requests may fail: a fault has happened, or there always is one."""
        self.has_failed_disk: set[str] = set()
        """Stores that must restart because their disk failed."""
        self.damaged: dict[str, Place] = {}
        """The message of each store whose record changed on the device."""
        self.damaged_index: set[str] = set()
        """Stores whose index has a changed bit: keys that were put there may not be found until it is made again."""
        self.unconfirmed: set[str] = set()
        """Stores that lost their confirm offset once."""
        self.old_below: dict[str, int] = {}
        """Positions of stores below which all is older than they keep it."""
        self.must_restart: set[str] = set()
        """Stores whose log may have stopped until a restart, after an error that loses nothing."""
        self.groups: dict[str, Group] = {}
        """By their brokers."""
        self._directory, self._numbers = directory, count(1)
        self.gateways = Gateways(shape, self.make_process)
        hints = self.gateways.hints
        self.nameservers: dict[str, Nameserver] = {
            name: Nameserver(self.make_process(name), directory / name, **hints)
            for name in names(NAMESERVER, shape.nameservers)
        }
        known = self._nameservers = ";".join(each.address for each in self.nameservers.values())
        self.brokers: dict[str, Broker] = {
            name: self._broker(name, of_store)
            for name, of_store in zip(names(STORE, len(shape.stores)), shape.stores, strict=True)
        }
        self.stores: dict[str, Store] = {
            name: store for broker in self.brokers.values() for name, store in broker.stores.items()
        }
        self.workers: dict[str, Scheduler | TxnChecker] = {
            **{name: self._scheduler(name) for name in names(SCHEDULER, shape.schedulers)},
            **{
                name: TxnChecker(
                    self.make_process(name), known, check_max=shape.check_max, **WORKER, **CHECKS, **hints
                )
                for name in names(CHECKER, shape.checkers)
            },
        }
        self.gateways.add_workers(known, self._make_beside)
        self.programs = Programs(shape, self.ledger, self.brokers, known, self.make_process)
        self.clients: dict[str, Client] = {}
        for name in names(CLIENT, shape.clients):
            self.add_client(name)

    def make_process(self, name: str, pace: Pace | None = None) -> Process:
        """Return a process on a machine of its own."""
        return Process(self.world, self.network, name, f"10.0.0.{next(self._numbers)}", pace)

    def _make_beside(self, name: str, other: Process) -> Process:
        return Process(self.world, self.network, name, other.address, beside=other)

    def _broker(self, name: str, shape: StoreShape) -> Broker:
        """Make the store of a broker, or its replicas."""
        settings: dict[str, Any] = {
            "fast_paths": shape.fast_paths, "flush": shape.flush, "index_enable": shape.index,
            "checkpoint_seconds": shape.checkpoint_seconds, "zero_ahead_bytes": shape.zero_ahead_bytes,
            "segment_bytes": shape.segment_bytes, "delay_levels": LEVELS, **self.gateways.hints,
            **(RETAINING if self.shape.deletes_old else {}),
        }  # fmt: skip
        pace = SLOW if shape.has_slow_disk else None
        if self.shape.replicas:
            return self._group(name, pace, settings)
        if shape.flush == "async":
            self.ledger.losses.doubt(name)
        return Broker(
            name,
            {name: Store(self.make_process(name, pace), self._nameservers, **settings)},
            None,
            lambda: None,
            confirms_all=False,
        )

    def _group(self, name: str, pace: Pace | None, settings: dict[str, Any]) -> Broker:
        shape, register = self.shape, SimulatedRegister(name)
        processes = [self.make_process(replica, pace) for replica in shape.replica_names(name)]
        rates = random.Random(f"{self.world.seed}/clocks of {name}")
        for process in processes:
            process.clocks.run_at(1 + rates.uniform(-shape.clock_drift, shape.clock_drift))
        replication = "async" if shape.is_async else "sync"
        timing = {
            "lease_ms": shape.lease_ms, "grace_ms": shape.lease_ms * 3 // 2, "replication": replication,
        }  # fmt: skip
        replicas = {
            process.name: Replica(
                process, processes, register, self._ended, self._nameservers, **timing, **settings
            )
            for process in processes
        }

        def taken_over() -> None:
            self.brokers[name].takeovers += 1
            self.ledger.lost_undurable(name)

        group = self.groups[name] = Group(self.world, self.history, replicas, register, taken_over)
        return Broker(
            name, replicas, lambda: group.leader, lambda: group.leading, confirms_all=not shape.is_async
        )

    def _ended(self, replica: Replica, reason: str) -> None:
        self.history.add(replica.process.name, f"ends: {reason}")
        self.on_end(replica, reason)

    def lost_undurable(self, store: str) -> None:
        """Forget what a store may lose that was not durable. Of a group, a takeover may lose it, and nothing else."""
        if broker_of(store) not in self.groups:
            self.ledger.lost_undurable(store)

    def _scheduler(self, name: str) -> Scheduler:
        process = self.make_process(name)
        return Scheduler(
            self.world, process, self._directory / name, self._nameservers, **WORKER, **self.gateways.hints
        )

    def add_client(self, name: str) -> Client:
        """Add a client."""
        surroundings = Surroundings(
            brokers=self.brokers,
            is_harmed=lambda: self.is_harmed,
            nameservers=[nameserver.address for nameserver in self.nameservers.values()],
            now_ns=lambda: self.world.now_ns,
            gateways=self.gateways.address,
            answers_checks=self.shape.checkers > 0,
        )
        client = self.clients[name] = Client(self.make_process(name), self.ledger, self.history, surroundings)
        return client

    def is_sync(self, store: str) -> bool:
        """Whether a store delivers only what is durable, in its present life."""
        return self.brokers[store].is_sync

    def members(self) -> dict[str, Part]:
        """Return everything that runs in a process, by name."""
        return {
            **self.nameservers,
            **self.stores,
            **self.workers,
            **self.gateways.members,
            **self.programs.members,
            **self.clients,
        }

    def member(self, name: str) -> Part:
        """Return the member of this name."""
        return self.members()[name]

    def start(self) -> None:
        """Start everything. Programs that use the SDK start when their topics exist."""
        parts = (self.nameservers, self.stores, self.workers, self.gateways.members)
        for member in (each for members in parts for each in members.values()):
            member.start()
        for client in self.clients.values():
            client.start()
        self.programs.start()
