"""The system of one life: its processes by name, and which of them run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.lives.client import Client
from gantry_simulation.lives.history import History
from gantry_simulation.lives.plan import Shape, client_name, store_name
from gantry_simulation.network.conditions import Conditions
from gantry_simulation.network.network import Network
from gantry_simulation.parts.nameserver import PORT, Nameserver
from gantry_simulation.parts.store import Store
from gantry_simulation.processes.process import Process
from gantry_simulation.processes.threads import Pace
from gantry_simulation.world.world import World

SLOW = Pace(stall_chance=0.05)
ROUGH = Conditions(slow_chance=0.05, loss_chance=0.002)
NAMESERVER = "nameserver"
Member = Store | Nameserver | Client


class System:
    """Stores, clients, and a nameserver if the shape has one."""

    def __init__(self, world: World, shape: Shape, directory: Path) -> None:
        self.world = world
        self.network = Network(world, ROUGH if shape.has_rough_network else None)
        self.history = History(world)
        self.ledger = Ledger(world)
        self.happened: Counter[str] = Counter()
        """Kinds of acts that had an effect."""
        self.has_failed_disk: set[str] = set()
        """Stores that must restart because their disk failed."""
        self.nameserver: Nameserver | None = None
        if shape.has_nameserver:
            process = Process(world, self.network, NAMESERVER, "10.0.0.1")
            self.nameserver = Nameserver(process, directory / NAMESERVER)
        self.stores: dict[str, Store] = {}
        for number, of_store in enumerate(shape.stores):
            name = store_name(number)
            pace = SLOW if of_store.has_slow_disk else None
            self.stores[name] = Store(
                Process(world, self.network, name, f"10.0.1.{number + 1}", pace),
                f"10.0.0.1:{PORT}" if self.nameserver else "", fast_paths=of_store.fast_paths, flush=of_store.flush,
                index_enable=of_store.index, checkpoint_seconds=of_store.checkpoint_seconds,
                zero_ahead_bytes=of_store.zero_ahead_bytes,
            )  # fmt: skip
            if of_store.flush == "async":
                self.ledger.losses.doubt(name)
        self.clients: dict[str, Client] = {}
        for number in range(shape.clients):
            self.add_client(client_name(number), f"10.0.2.{number + 1}")

    def add_client(self, name: str, address: str) -> Client:
        """Add a client."""
        addresses = {name: store.address for name, store in self.stores.items()}
        process = Process(self.world, self.network, name, address)
        client = self.clients[name] = Client(process, self.ledger, self.history, addresses, self.is_sync)
        return client

    def is_sync(self, store: str) -> bool:
        """Whether a store delivers only what is durable, in its present life."""
        return self.stores[store].flush == "sync"

    def members(self) -> dict[str, Member]:
        """Return everything that runs in a process, by name."""
        named = {NAMESERVER: self.nameserver} if self.nameserver else {}
        return {**named, **self.stores, **self.clients}

    def member(self, name: str) -> Member:
        """Return the member of this name."""
        return self.members()[name]

    def start(self) -> None:
        """Start everything that does not run."""
        for member in self.members().values():
            if not member.process.is_running:
                member.start()
