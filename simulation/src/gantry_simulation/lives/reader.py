"""Reads everything in the end, until nothing is awaited: all queues, and what became of each transaction."""

from __future__ import annotations

from contextlib import suppress

from gantry_chassis.process import Life
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.clients.store import StoreClient
from gantry_link.clients.transactions import TransactionStoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.clients.http_client import NoAnswer, Silence
from gantry_simulation.ledger.places import Place
from gantry_simulation.ledger.transactions import COMMIT, STATES
from gantry_simulation.lives.operations.http import leases, tasks
from gantry_simulation.lives.operations.http import transactions as http_transactions
from gantry_simulation.lives.operations.http.calls import GROUP
from gantry_simulation.lives.operations.nameservers import NAMESPACE
from gantry_simulation.lives.operations.reading import note_records, pull_header
from gantry_simulation.lives.plan import Act, is_topic, topic_name
from gantry_simulation.lives.programs import QUEUES, TOPICS
from gantry_simulation.lives.system import System
from gantry_wire.codes import ResponseCode
from gantry_wire.names import retry_topic

RECOVERY_SECONDS = 90.0
"""Most time until everything is read: restarts, stalled threads, time-outs and delays included."""
PAUSE_SECONDS = 0.2
QUEUES_CREATED = 4
"""Queues of a topic that a first send creates."""
DRAIN_SECONDS = 10
DRAINED_AT_ONCE = 64
TIMEOUT_SECONDS = 5.0
SHOWN = 5
PARKED = "parked"


class Reader:
    """A new client that reads with short pauses. `found` holds what is readable."""

    def __init__(self, system: System, name: str) -> None:
        self.found: dict[Place, str] = {}
        self.delivered: set[Place] = set()
        """What had been delivered when the last pass over the queues began: it must be among what is found."""
        self._system = system
        self._client = system.add_client(f"{name}'s client")
        self._process = system.make_process(name)
        shape = system.shape
        queues = QUEUES_CREATED if shape.gateways else shape.queues
        own = [(topic_name(topic), queues) for topic in range(shape.topics)]
        own += [(retry_topic(GROUP), 1)] if shape.gateways and shape.schedulers else []
        own += [(topic, QUEUES) for topic in TOPICS.values()] if shape.has_programs else []
        self._offsets = {
            (store, topic, queue): 0
            for store in system.brokers
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
            *system.ledger.tasks.open(),
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
            and await self._have_tasks_ended()
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

    async def _have_tasks_ended(self) -> bool:
        """Whether all tasks that gateways accepted had ended before. What they did last must be read afterwards."""
        were_open = self._system.ledger.tasks.open()
        try:
            if were_open:
                await tasks.look(self._client, were_open)
        except NoAnswer:
            return False
        return not were_open

    async def _has_drained(self) -> bool:
        """Receive and acknowledge over HTTP until every message that is readable is acknowledged or dead.

        False as well after more letters were redriven: their copies may be behind what was read. A redrive whose request
        had no answer may be running, and nobody knows the id to ask for its end. A list of the letters that is not whole
        does not show that none was.
        """
        system, client = self._system, self._client
        if not system.gateways.address:
            return True
        were_redriven = system.ledger.tasks.shown_as_redriven()
        are_there = all(member.process.is_running for member in system.members().values())
        try:
            for topic in range(system.shape.topics):
                act = Act(at_ms=0, kind="drain", on="", topic=topic)
                handles = await leases.receive(client, act, DRAIN_SECONDS, 0, DRAINED_AT_ONCE)
                if handles:
                    await leases.acknowledge(client, act, handles)
            _, is_whole = await tasks.dead_letters(client)
        except Silence:
            if are_there:
                system.world.violate("gateway", "a call hangs although everything runs")
            return False
        except NoAnswer:
            return False
        return is_whole and not self._due() and system.ledger.tasks.shown_as_redriven() == were_redriven

    def _due(self) -> list[str]:
        """Return what no receive has delivered yet."""
        if not self._system.gateways.address:
            return []
        own = {place: message for place, message in self.found.items() if self._is_received(place, message)}
        return [f"{message} at {place}" for place, message in self._system.ledger.leases.due(own)]

    def _is_received(self, place: Place, message: str) -> bool:
        """Whether receives must deliver the message at a place: what a store answers about a topic that may go binds it to nothing.

        Redriven messages come with their first topic, if it exists. A receive may leave out a message whose unit is damaged.
        """
        if self._system.ledger.messages.may_be_left_out(message, place):
            return False
        losses = self._system.ledger.losses
        if place.topic == retry_topic(GROUP):
            return not losses.has_deleted(place.store)
        return is_topic(place.topic) and place[:2] not in losses.open_deletions

    async def _has_read_queues(self, pool: ConnectionPool) -> bool:
        """Read all queues from where the last reading ended. False to try again."""
        self.delivered = self._system.ledger.messages.delivered()
        for where in self._offsets:
            calls = self._system.brokers[where[0]].client(pool, TIMEOUT_SECONDS)
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
        is_checked_over_http = self._system.gateways.address and self._system.shape.checkers
        if is_checked_over_http and transactions.open() and not await self._has_answered_checks():
            return False
        for message, half in transactions.open():
            store = self._system.brokers[half.store]
            if not store.has_index:
                continue  # it cannot find a transaction by its key
            calls = TransactionStoreClient(pool, store.address, TIMEOUT_SECONDS)
            try:
                state = (await calls.state(half.key)).state
            except BrokerRefused as refused:
                if refused.code == ResponseCode.QUERY_NOT_FOUND and half.store in self._system.damaged_index:
                    continue  # the changed bit may have led to its key
                return False
            except LinkError:
                return False
            if state in STATES:
                transactions.decided(message, STATES[state])
            elif state == PARKED and is_checked_over_http:
                await self._decide(message)
                return False
            elif self._system.shape.checkers:
                return False
        return not is_checked_over_http or await self._has_listed_parked()

    async def _has_answered_checks(self) -> bool:
        """Answer the checks of producers that use HTTP. False without an answer."""
        try:
            await http_transactions.answer_checks(self._client)
        except NoAnswer:
            return False
        return True

    async def _has_listed_parked(self) -> bool:
        """List parked transactions: none that is decided is listed. False without an answer."""
        act = Act(at_ms=0, kind="list", on="", number=http_transactions.STATES_ASKED.index(PARKED))
        try:
            await http_transactions.list_transactions(self._client, act)
        except NoAnswer:
            return False
        return True

    async def _decide(self, message: str) -> None:
        """Commit a parked transaction, as an operator does."""
        with suppress(NoAnswer):
            await http_transactions.decide(self._client, message, COMMIT)

    async def _has_read_values(self, pool: ConnectionPool) -> bool:
        """Read what nameservers acknowledged to have."""
        values = self._system.ledger.values
        try:
            for address, kept in list(values.kept.items()):
                client = NameserverClient(pool, address, TIMEOUT_SECONDS)
                for key in kept:
                    values.read(address, key, await client.kv_get(NAMESPACE, key))
        except (BrokerRefused, LinkError):
            return False
        return True

    async def _has_read_offsets(self, pool: ConnectionPool) -> bool:
        """Read the offsets that clients committed."""
        ledger, began_ns = self._system.ledger, self._system.world.now_ns
        try:
            for cell in ledger.offsets.cells():
                since = ledger.since(cell.store, cell.topic)
                calls = self._system.brokers[cell.store].client(pool, TIMEOUT_SECONDS)
                offset = await calls.consumer_offset(cell.group, cell.topic, cell.queue)
                ledger.read_offset(cell, offset, since, began_ns)
        except (BrokerRefused, LinkError):
            return False
        return True
