"""A store of which another replica has every record: the sides of all readers, a way to damage records, and the replica that answers."""

import asyncio
import random
from enum import Enum

from leasing_side import LeasingSide
from sending_side import ScriptedPeer

from broker_store.groups.clients import Client
from broker_store.log.commit_log.first_read import FirstReadCheck
from broker_store.log.commit_log.met_damage import note_damage
from broker_store.log.errors import DamagedRecord
from broker_store.process.parts.transactions import build_transactions
from broker_store.reading.repaired_reads import RepairAwaited
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.retrying.send_back_handler import Retrying
from broker_store.transactions.producer_checks import DecisionRights, Relays
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

SIZE_AT, POSITION_AT, BODY_AT = 3, 35, 88
"""A byte of a record's size, of its position, of its body."""


class Other(Enum):
    """What the other replicas do."""

    HAS_IT = "has it"
    LACKS_IT = "lacks it"
    IS_AWAY = "is away"
    NONE = "there is none"


class RepairSide(LeasingSide):
    """Build it inside a running loop. `other`: what another replica does."""

    other = Other.HAS_IT

    def open_repairs(self):
        self.damaged = {}
        """Position of a record → its flipped byte and bits."""
        self.wants = []
        self.copies = {}
        """Position of a record → bytes of it that another replica has."""
        self.before_answer = lambda: None
        if self.other is Other.NONE:
            return None
        self._note_damage()
        return self._repair

    def build_rest(self):
        listeners = super().build_rest()
        rights = DecisionRights(lambda _peer, _topic: True, Relays())
        self.transactions = build_transactions(self.around, self.store, self.sending, self.consuming, rights)
        store, sending = self.store, self.sending
        self.retrying = Retrying(
            read_record=store.log.read_record, in_thread=sending.reads, topics=store.topics, targets=sending.targets,
            queues=store.queues, appends=sending.appends, delays=sending.delays, retries=sending.retries,
            deferred=DeferredReplies(self.classes["send"], self.clock.now_ms),
            consumer_of=lambda peer, _group: f"client@{peer.id}", broker_ip="127.0.0.1",
            on_sent_back=lambda _topic, _group: None, rng=random.Random(1),
        )  # fmt: skip
        return listeners

    def begin_records(self):
        super().begin_records()
        self.table.add_all({**self.transactions.commands(), **self.retrying.commands()})

    def _note_damage(self):
        """Let the log note damage, as that of a replica does."""
        for name in ("read", "read_nowait", "read_record"):
            setattr(self.log, name, noted(getattr(self.log, name)))

    async def _repair(self, position):
        self.wants.append(position)
        await asyncio.sleep(0)
        self.before_answer()
        if self.other is Other.IS_AWAY:
            raise RepairAwaited(position)
        if position in self.copies:
            segment = self.log.segment_at(position)
            segment.file.pwritev([self.copies.pop(position)], position - segment.start)
            return True
        if self.other is Other.LACKS_IT or position not in self.damaged:
            return False
        self._flip(position)
        del self.damaged[position]
        return True

    def _flip(self, position):
        segment = self.log.segment_at(position)
        at, bits = self.damaged[position]
        self.files.flip(segment.path, position - segment.start + at, bits)

    def reopened(self, other=None):
        """Open the disk again: what it holds is checked when it is first read."""
        kind = type("Reopened", (type(self),), {"other": other or self.other})
        self.threads.settle()
        side = kind(
            self.files,
            self.wall_s + 1,
            self.monotonic_s + 1,
            self.boot,
            segment_bytes=self.settings.segment_bytes,
        )
        side.log.first_read = FirstReadCheck(side.log.end)
        return side

    def damage(self, topic, queue_id=0, offset=0, *, at=BODY_AT):
        """Damage the record of a message. Returns its position."""
        queue = self.queues.find(topic, queue_id)
        position = CONSUME_QUEUE_UNIT.unpack(queue.read(offset, 1))[0]
        self.damaged[position] = (at, 0x40)
        self._flip(position)
        return position

    def repair_with(self, position, data):
        """Let the other replica have these bytes of a record."""
        self.copies[position] = data

    def connect_producer(self, group="pg"):
        peer = ScriptedPeer("10.0.0.9", 41_000)
        self.consuming.clients.register_producer(group, Client(peer, "client", "JAVA", 479, 0, 0))
        return peer

    async def wait(self):
        """Let the loop, the threads and the disk work for a moment."""
        await asyncio.sleep(0.002)
        self.flush()

    async def until(self, is_so):
        async with asyncio.timeout(20):
            while not is_so():
                await self.wait()

    async def sent(self, body, **more):
        """Send a message, and return the code of its answer, after what it has asked for."""
        peer = ScriptedPeer()
        self.send(peer, body=body, **more)
        await self.until(lambda: peer.answers)
        await self.wait()
        return peer.answers[0].code

    async def answer(self, code, header=None, body=b"", peer=None):
        """Send a request, and return its answer. Flushes while it waits."""
        peer = peer or ScriptedPeer()
        self.ask(peer, code, header, body)
        await self.until(lambda: peer.answers)
        return peer.answers[0]


def noted(read):
    def reading(*arguments):
        try:
            return read(*arguments)
        except DamagedRecord as damage:
            note_damage(damage.position)
            raise

    return reading
