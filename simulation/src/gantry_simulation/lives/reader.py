"""Reads everything in the end, until nothing is awaited: all queues, and what became of each transaction."""

from __future__ import annotations

from gantry_chassis.process import Life
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.clients.store import StoreClient
from gantry_link.clients.transactions import TransactionStoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.clients.http_client import NoAnswer, Silence
from gantry_simulation.ledger.places import Place
from gantry_simulation.ledger.transactions import STATES
from gantry_simulation.lives.operations import http
from gantry_simulation.lives.operations.nameservers import NAMESPACE
from gantry_simulation.lives.operations.reading import note_records, pull_header
from gantry_simulation.lives.plan import Act, is_topic, topic_name
from gantry_simulation.lives.programs import QUEUES, TOPICS
from gantry_simulation.lives.system import System
from gantry_wire.codes import ResponseCode

RECOVERY_SECONDS = 90.0
"""Most time until everything is read: restarts, stalled threads, time-outs and delays included."""
PAUSE_SECONDS = 0.2
QUEUES_CREATED = 4
"""Queues of a topic that a first send creates."""
DRAIN_SECONDS = 10
DRAINED_AT_ONCE = 64
TIMEOUT_SECONDS = 5.0
SHOWN = 5


class Reader:
    """A new client that reads with short pauses. `found` holds what is readable."""

    def __init__(self, system: System, name: str) -> None:
        self.found: dict[Place, str] = {}
        self._system = system
        self._client = system.add_client(f"{name}'s client")
        self._process = system.make_process(name)
        shape = system.shape
        queues = QUEUES_CREATED if shape.gateways else shape.queues
        own = [(topic_name(topic), queues) for topic in range(shape.topics)]
        own += [(topic, QUEUES) for topic in TOPICS.values()] if shape.has_programs else []
        self._offsets = {
            (store, topic, queue): 0
            for store in system.stores
            for topic, queues in own
            for queue in range(queues)
        }

    def has_read_all(self) -> bool:
        """Run until everything is read. False, and a violation, when that takes too long."""
        system = self._system
        self._client.start()
        self._process.start(self._read)
        if system.world.run_until(lambda: not self._process.is_running, within=RECOVERY_SECONDS):
            return True
        down = [name for name, member in system.members().items() if not member.process.is_running]
        refused = [store.process.refusal for store in system.stores.values() if store.process.refusal]
        waits = [
            *self._awaited(),
            *self._due(),
            *(message for message, _ in system.ledger.transactions.open()),
        ]
        what = f"down {down}, refused starts {refused}, awaited {waits[:SHOWN]}"
        system.world.violate("system", f"does not recover: {what}")
        return False

    def _awaited(self) -> list[str]:
        return self._system.ledger.awaited(self.found, is_scheduled=self._system.shape.schedulers > 0)

    async def _read(self, life: Life) -> None:
        pool = ConnectionPool(rng=life.environment.rng)
        while not (
            await self._has_read_queues(pool)
            and await self._are_transactions_decided(pool)
            and await self._has_read_values(pool)
            and await self._has_read_offsets(pool)
            and not self._awaited()
            and await self._has_drained()
        ):
            await life.sleep(PAUSE_SECONDS)
        await pool.close()
        if self._system.gateways.address:
            self._client.http().close()

    async def _has_drained(self) -> bool:
        """Receive and acknowledge over HTTP until every message that is readable is acknowledged or dead."""
        system, client = self._system, self._client
        if not system.gateways.address:
            return True
        are_there = all(member.process.is_running for member in system.members().values())
        try:
            for topic in range(system.shape.topics):
                act = Act(at_ms=0, kind="drain", on="", topic=topic)
                handles = await http.receive(client, act, DRAIN_SECONDS, 0, DRAINED_AT_ONCE)
                if handles:
                    await http.acknowledge(client, act, handles)
            await http.note_dead_letters(client)
        except Silence:
            if are_there:
                system.world.violate("gateway", "a call hangs although everything runs")
            return False
        except NoAnswer:
            return False
        return not self._due()

    def _due(self) -> list[str]:
        """Return what no receive has delivered yet."""
        if not self._system.gateways.address:
            return []
        may_go = (
            self._system.ledger.losses.open_deletions
        )  # what a store answers about these binds it to nothing
        own = {
            place: message
            for place, message in self.found.items()
            if is_topic(place.topic) and place[:2] not in may_go
        }
        return [f"{message} at {place}" for place, message in self._system.ledger.leases.due(own)]

    async def _has_read_queues(self, pool: ConnectionPool) -> bool:
        """Read all queues from where the last reading ended. False to try again."""
        for where in self._offsets:
            calls = StoreClient(pool, self._system.stores[where[0]].address, TIMEOUT_SECONDS)
            if not await self._has_read(calls, where):
                return False
        return True

    async def _has_read(self, store: StoreClient, where: tuple[str, str, int]) -> bool:
        on, topic, queue = where
        since = self._client.ledger.since(on, topic)
        try:
            least, end = await store.min_offset(topic, queue), await store.max_offset(topic, queue)
            offset = max(self._offsets[where], least)
            while offset < end:
                pulled = await store.pull(pull_header(topic, queue, offset))
                self.found.update(note_records(self._client, pulled.records, on, topic, queue, since))
                if pulled.next_offset <= offset:
                    return False
                self._offsets[where] = offset = pulled.next_offset
        except BrokerRefused as refused:
            return refused.code == ResponseCode.TOPIC_NOT_EXIST
        except LinkError:
            return False
        return True

    async def _are_transactions_decided(self, pool: ConnectionPool) -> bool:
        """Ask the stores what became of the transactions whose outcome no client knows. Without checkers some stay open."""
        transactions = self._system.ledger.transactions
        for message, half in transactions.open():
            store = self._system.stores[half.store]
            if not store.settings.index_enable:
                continue  # it cannot find a transaction by its key
            calls = TransactionStoreClient(pool, store.address, TIMEOUT_SECONDS)
            try:
                state = (await calls.state(half.key)).state
            except (BrokerRefused, LinkError):
                return False
            if state in STATES:
                transactions.decided(message, STATES[state])
            elif self._system.shape.checkers:
                return False
        return True

    async def _has_read_values(self, pool: ConnectionPool) -> bool:
        """Read what nameservers acknowledged to have."""
        values = self._system.ledger.values
        try:
            for address, kept in values.kept.items():
                client = NameserverClient(pool, address, TIMEOUT_SECONDS)
                for key in kept:
                    values.read(address, key, await client.kv_get(NAMESPACE, key))
        except (BrokerRefused, LinkError):
            return False
        return True

    async def _has_read_offsets(self, pool: ConnectionPool) -> bool:
        """Read the offsets that clients committed."""
        offsets, began_ns = self._system.ledger.offsets, self._system.world.now_ns
        try:
            for cell in offsets.cells():
                calls = StoreClient(pool, self._system.stores[cell.store].address, TIMEOUT_SECONDS)
                offset = await calls.consumer_offset(cell.group, cell.topic, cell.queue)
                offsets.read(cell, offset, began_ns)
        except (BrokerRefused, LinkError):
            return False
        return True
