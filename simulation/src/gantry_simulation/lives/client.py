"""A client of the simulated system: it performs the operations of the plan that name it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from gantry_chassis.process import Life
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, ConnectionLost, LinkError, RequestTimedOut
from gantry_simulation.clients.http_client import HttpClient, NoAnswer
from gantry_simulation.clients.program import Program
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.lives.brokers import Broker
from gantry_simulation.lives.history import History
from gantry_simulation.lives.operations.doing import ANSWER_SECONDS
from gantry_simulation.lives.operations.table import OPERATIONS
from gantry_simulation.lives.operations.transactions import GROUP, answer_check
from gantry_simulation.lives.plan import Act
from gantry_simulation.processes.process import Process
from gantry_wire.bodies.clients import HeartbeatData, ProducerData
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode

HEARTBEAT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What clients know of their system."""

    brokers: Mapping[str, Broker]
    """By name."""
    nameservers: list[str]
    """Addresses."""
    now_ns: Callable[[], int]
    gateways: str
    """Address of the gateways, empty if there are none."""
    is_harmed: Callable[[], bool]
    """Whether something happened that requests may fail for."""
    answers_checks: bool
    """Whether each client is a producer that txn-checkers ask."""


class Client(Program):
    """One process with a connection to each store. Operations run beside each other."""

    def __init__(
        self, process: Process, ledger: Ledger, history: History, surroundings: Surroundings
    ) -> None:
        super().__init__(process, ledger)
        self.history = history
        self.name: str = process.name
        self.now_ns, self.is_harmed = surroundings.now_ns, surroundings.is_harmed
        self._surroundings = surroundings
        self._stores: dict[str, StoreClient] = {}
        self._open = 0
        self._life: Life | None = None
        self._pool: ConnectionPool | None = None
        self._http: HttpClient | None = None

    def perform(self, act: Act) -> None:
        """Begin an operation. It does not happen when the process does not run."""
        self.process.deliver(self._begin, act)

    def violate(self, what: str) -> None:
        """Record a broken promise."""
        self.process.violate(what)

    def store(self, name: str) -> StoreClient:
        """Return the client of a store."""
        return self._stores[name]

    @asynccontextmanager
    async def fast_port(self, name: str) -> AsyncGenerator[StoreClient]:
        """Connect to the fast port of a store for a while."""
        assert self._life is not None
        pool = ConnectionPool(rng=self._life.environment.rng)
        try:
            yield self._surroundings.brokers[name].fast_client(pool, ANSWER_SECONDS)
        finally:
            await pool.close()

    def stores(self) -> Sequence[str]:
        """Return the names of all stores."""
        return list(self._surroundings.brokers)

    def is_sync(self, store: str) -> bool:
        """Whether a store delivers only what is durable."""
        return self._surroundings.brokers[store].is_sync

    def lives_of(self, store: str) -> int:
        """How often what a store keeps in memory was lost, at most."""
        return self._surroundings.brokers[store].lives

    def replicas(self, store: str) -> Sequence[StoreClient]:
        """Return a client of each replica of a store."""
        assert self._pool is not None
        return self._surroundings.brokers[store].clients(self._pool, ANSWER_SECONDS)

    def is_group(self, store: str) -> bool:
        """Whether a store has replicas."""
        return self._surroundings.brokers[store].is_group

    def confirms_all(self, store: str) -> bool:
        """Whether the replicas of a store have everything that it acknowledges."""
        return self._surroundings.brokers[store].confirms_all

    def http(self) -> HttpClient:
        """Return the client of the gateways."""
        assert self._http is not None, "the plan has gateways"
        return self._http

    def nameservers(self, address: str = "") -> NameserverClient:
        """Return a client of the nameserver with this address, or of all."""
        assert self._pool is not None
        return NameserverClient(
            self._pool, address or ";".join(self._surroundings.nameservers), ANSWER_SECONDS
        )

    def wall_ms(self) -> int:
        """Return the wall clock of the machine, ms since 1970."""
        assert self._life is not None
        return self._life.environment.wall_ms()

    async def _main(self, life: Life) -> None:
        self._life, self._open = life, 0
        self._pool = pool = ConnectionPool(on_push=partial(answer_check, self), rng=life.environment.rng)
        self._stores = {
            name: broker.client(pool, ANSWER_SECONDS) for name, broker in self._surroundings.brokers.items()
        }
        self._http = HttpClient(self._surroundings.gateways) if self._surroundings.gateways else None
        if self._surroundings.answers_checks:
            await self._beat(life)
        await life.stopping.wait()
        await pool.close()
        if self._http is not None:
            self._http.close()

    async def _beat(self, life: Life) -> None:
        """Send heartbeats of a producer to all stores, which may then ask it, until the process stops."""
        data = HeartbeatData(client_id=self.name, producer_data_set=[ProducerData(group_name=GROUP)])
        while not await life.sleep(HEARTBEAT_SECONDS):
            for store in self._stores.values():
                with suppress(LinkError, BrokerRefused):
                    await store.tell(RequestCode.HEART_BEAT, None, encode_body(data))

    @property
    def is_busy(self) -> bool:
        """Whether an operation is still under way."""
        return self.process.is_running and self._open > 0

    def _begin(self, act: Act) -> None:
        if self._stores:
            self._open += 1
            asyncio.get_running_loop().create_task(self._run(act), name=act.kind)

    async def _run(self, act: Act) -> None:
        try:
            await OPERATIONS[act.kind](self, act)
        except (BrokerRefused, LinkError, NoAnswer) as error:
            self.history.add(self.name, f"{act.kind} {act.number} on {act.on}: {error}")
            if isinstance(error, ConnectionLost | RequestTimedOut) and not self._surroundings.is_harmed():
                self.violate(f"{act.kind} failed before the first fault: {error}")
        finally:
            self._open -= 1
