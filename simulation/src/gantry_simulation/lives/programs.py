"""The programs of a life that use the SDK: their topics, who of them consumes what, and what must hold in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from gantry_chassis.process import Life
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.clients.producer import SendingProgram
from gantry_simulation.clients.program import Program
from gantry_simulation.clients.pull_consumers import PollingProgram, PullingProgram
from gantry_simulation.clients.push_consumer import ConsumingProgram, Trouble
from gantry_simulation.clients.transactions import TransactionProgram
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.lives.brokers import Broker
from gantry_simulation.lives.plan import CONCURRENT, ORDERLY, PAYER, POLLING, PRODUCER, PULLING, Shape, names
from gantry_simulation.processes.process import Process
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.headers.admin import CreateTopicHeader

TOPICS = {CONCURRENT: "Plain", ORDERLY: "Orderly", POLLING: "Plain", PULLING: "Orderly"}
"""By the group that consumes it."""
QUEUES = 2
REQUEST_SECONDS = 1.0
AGAIN_SECONDS = 0.2
AUDIT_SECONDS = 2.0
APART_SECONDS = 1.5
"""Most time between the starts of two programs: members join while others consume."""
MEMBERS_MIN = 2
"""Of a group that one can leave."""
PAUSE_SECONDS = 0.15
TROUBLE = Trouble(stall_chance=0.5)

MakeProcess = Callable[[str], Process]


class Programs:
    """Starts the programs once their topics exist, and knows what each group must have."""

    def __init__(
        self, shape: Shape, ledger: Ledger, brokers: Mapping[str, Broker], nameservers: str, make: MakeProcess
    ) -> None:
        """`make` returns a process on a machine of its own."""
        self._ledger, self._brokers, self._nameservers = ledger, brokers, nameservers
        self.members: dict[str, Program] = {}
        self._groups: dict[str, list[ConsumingProgram | PollingProgram]] = {}
        """Members of groups that share queues."""
        for kind, count in shape.counts().items():
            for name in names(kind, count):
                program = self._program(kind, make, name)
                if program is not None:
                    self.members[name] = program
        if self.members:
            self._admin, self._auditor = make("admin"), make("auditor")

    def _program(self, kind: str, make: MakeProcess, name: str) -> Program | None:
        ledger, nameservers = self._ledger, self._nameservers
        if kind == PRODUCER:
            producer = SendingProgram(make(name), ledger, nameservers, TOPICS[CONCURRENT], TOPICS[ORDERLY])
            producer.pause_seconds = PAUSE_SECONDS
            return producer
        if kind == PAYER:
            payer = TransactionProgram(make(name), ledger, nameservers, TOPICS[CONCURRENT])
            payer.pause_seconds = PAUSE_SECONDS
            return payer
        if kind == PULLING:
            return PullingProgram(make(name), ledger, nameservers, kind, TOPICS[kind])
        if kind not in TOPICS:
            return None
        member = self._member(kind, make(name))
        self._groups.setdefault(kind, []).append(member)
        return member

    def _member(self, group: str, process: Process) -> ConsumingProgram | PollingProgram:
        ledger, nameservers, topic = self._ledger, self._nameservers, TOPICS[group]
        if group == POLLING:
            return PollingProgram(process, ledger, nameservers, group, topic)
        return ConsumingProgram(
            process, ledger, nameservers, group, topic, orderly=group == ORDERLY, trouble=TROUBLE
        )

    def start(self) -> None:
        """Create their topics, then start them."""
        if self.members:
            self._admin.start(self._prepare)

    async def _prepare(self, life: Life) -> None:
        pool = ConnectionPool(rng=life.environment.rng)
        for broker in self._brokers.values():
            calls = broker.client(pool, REQUEST_SECONDS)
            while not await self._has_prepared(calls):
                await life.sleep(AGAIN_SECONDS)
        for program in self.members.values():
            await life.sleep(life.environment.rng.uniform(0, APART_SECONDS))
            program.start()
        if ORDERLY in self._groups:
            self._auditor.start(self._audit)

    async def _has_prepared(self, calls: StoreClient) -> bool:
        """Create the topics, and the group whose failed messages are delivered again at once."""
        try:
            for topic in dict.fromkeys(TOPICS.values()):
                header = CreateTopicHeader(
                    topic=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6
                )
                await calls.create_topic(header)
            attributes = {"+gantry.retryPolicy": "list:0ms"}
            await calls.put_group(SubscriptionGroupConfig(group_name=CONCURRENT, attributes=attributes))
        except (LinkError, BrokerRefused):
            return False
        return True

    async def _audit(self, life: Life) -> None:
        """Ask the stores for the offsets that the orderly group has committed."""
        pool = ConnectionPool(rng=life.environment.rng)
        lives = dict.fromkeys(self._brokers, 0)
        while not await life.sleep(AUDIT_SECONDS):
            for name, broker in self._brokers.items():
                calls = broker.client(pool, REQUEST_SECONDS)
                for queue in range(QUEUES):
                    asked = broker.lives
                    with suppress(LinkError, BrokerRefused):
                        offset = await calls.consumer_offset(ORDERLY, TOPICS[ORDERLY], queue)
                        self._audited((name, queue), asked, broker.lives, lives, offset or 0)

    def _audited(
        self, queue: tuple[str, int], asked: int, now: int, lives: dict[str, int], offset: int
    ) -> None:
        if now != asked:
            return
        queues, store = self._ledger.groups.in_order(ORDERLY), queue[0]
        if asked != lives[store]:
            queues.forget_committed(store)
            lives[store] = asked
        queues.committed(queue, offset)

    def end_sending(self) -> None:
        """Send nothing further. Producers of transactions still answer checks."""
        for program in self.members.values():
            if isinstance(program, SendingProgram | TransactionProgram):
                program.is_sending = False

    @property
    def are_busy(self) -> bool:
        """Whether a send is under way."""
        return any(each.is_busy for each in self.members.values())

    def end_audit(self) -> None:
        """Ask for the offsets of the orderly group no longer."""
        if ORDERLY in self._groups and self._auditor.is_running:
            self._auditor.stop_once()

    def missing(self) -> list[str]:
        """Return programs that do not run, what groups must still consume, and queues that do not have one member each."""
        found = [f"{name} does not run" for name, each in self.members.items() if not each.process.is_running]
        if any(isinstance(each, PullingProgram) for each in self.members.values()):
            found += [f"{PULLING}: {each}" for each in self._ledger.groups.missing(PULLING, TOPICS[PULLING])]
        for group, members in self._groups.items():
            found += [f"{group}: {each}" for each in self._ledger.groups.missing(group, TOPICS[group])]
            have = sorted((queue.broker, queue.queue_id) for member in members for queue in member.queues)
            if have != [(store, queue) for store in sorted(self._brokers) for queue in range(QUEUES)]:
                found.append(f"{group}: queues {have} have members")
        return found

    def take_member(self) -> Program | None:
        """Return a member of the orderly group that is to leave, if others stay. It is no member from now on."""
        members = self._groups.get(ORDERLY, [])
        if len(members) < MEMBERS_MIN:
            return None
        leaving = members.pop()
        del self.members[leaving.process.name]
        return leaving
