"""A whole reading side on in-memory ports, and requests in the clients' form."""

import asyncio
from dataclasses import replace
from functools import partial

from memory_store import MemoryPeer, MemoryStore

from broker_store.commit.topics import COMMITTED_TOPIC
from broker_store.config.broker_config import BrokerConfig
from broker_store.config.config_files import ConfigFile, DataVersionCounter
from broker_store.groups.clients import ClientTable
from broker_store.groups.committed_offsets import CommittedOffsets
from broker_store.groups.offsets import OffsetTable
from broker_store.groups.replayed_offsets import ReplayedOffsets
from broker_store.log.files.real_files import RealFiles
from broker_store.metrics.runtime_info import RuntimeState
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.process.following.reading import FollowerConsuming
from broker_store.process.foundation import READER_THREADS, ReadingBase, kind_of, load_groups
from broker_store.process.parts.reading import Consuming
from broker_store.reading.read_settings import ReadSettings, bind_settings
from broker_store.requests.request_classes import request_classes
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import FLAG_ONEWAY, Command, decode_command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

SUSPEND, WITH_SUBSCRIPTION, COMMIT = 2, 4, 1


class MemoryRecords:
    """Records of a table that are durable at once, or refused."""

    def __init__(self):
        self.refusal = None
        self.asked = 0

    def when_saved(self, answer):
        self.asked += 1
        answer(self.refusal)


class ReadingSide:
    """The reading side, and a table of its commands that answers as the store's does."""

    def __init__(self, directory, *, after=None, leader=None, **settings):
        """`after`: a side whose log this one continues. `leader`: of a follower, whether its leader lives."""
        self.store = MemoryStore() if after is None else after.store
        self.committed = committed_offsets(self.store)
        self.directory = directory
        self.clock_ms = 1_700_000_000_000
        self.steady_ms = 0
        self.settings = ReadSettings(**settings)
        self.index_trouble = None
        self.metrics = Metrics()
        self.classes = request_classes()
        self.records = MemoryRecords()
        self.config = BrokerConfig({"brokerName": "broker-a"}, DataVersionCounter(self.now_ms))
        environment = replace(machine(), steady=lambda: self.steady_ms / 1000)
        kind, more = (Consuming, {}) if leader is None else (FollowerConsuming, {"has_leader": leader})
        self.slaves = []
        self.consuming = kind(
            log=self.store.log,
            queues=self.store,
            topics=self.store.topics,
            index=self.store.index,
            index_trouble=lambda: self.index_trouble,
            append_internal=self.store.append_internal,
            append_offsets=self.store.append_record,
            committed=self.committed,
            files=RealFiles(),
            config_dir=str(directory / "config"),
            own_dir=str(directory / "gantry"),
            now_ms=self.now_ms,
            environment=environment,
            classes=self.classes,
            base=self._base(environment, is_leader=leader is None),
            group_records=self.records,
            on_unregister=lambda group, client_id: self.unregistered.append((group, client_id)),
            before_commit=lambda *_commit: False,
            sync_log=lambda: None,
            state=self.state,
            broker_name="broker-a",
            address="127.0.0.1:10911",
            clients=ClientTable(),
            slaves=lambda: self.slaves,
            **more,
        )
        self.consuming.start(was_stopped=True)
        bind_settings(self.config, self.settings, self.groups)
        self.commands = self.consuming.commands()
        self.peer = MemoryPeer()
        self._opaque = 0

    def _base(self, environment, *, is_leader):
        self.unregistered = []
        thread = environment.workers(1, "groups")
        file = ConfigFile(RealFiles(), str(self.directory / "config" / "subscriptionGroup.json"))
        self.groups, found = load_groups(file, self.now_ms, auto_create=True, on_change=lambda _group: None)
        return ReadingBase(
            metrics=StoreMetrics(self.metrics, 0, lambda name: kind_of(self.store.topics, name)),
            groups=self.groups,
            groups_found=found,
            group_thread=thread,
            offsets=OffsetTable() if is_leader else ReplayedOffsets(self.committed),
            settings=self.settings,
            readers=environment.workers(READER_THREADS, "reader"),
            repaired=None,
        )

    def now_ms(self):
        return self.clock_ms

    def state(self):
        return RuntimeState(self.clock_ms, 0, 0, self.store.log.end, self.clock_ms, 100, 60, "/s", 0, 0)

    def send(self, code, fields=None, body=b"", *, peer=None, oneway=False):
        """Submit a request. Its answers, at once or later, go to the peer."""
        peer = peer or self.peer
        self._opaque += 1
        frame = encode_request(code, self._opaque, fields, body, oneway=oneway)
        command: Command = decode_command(FrameDecoder().receive(frame)[0])
        try:
            reply = self.commands[code][1](peer, command)
        except WireError as error:
            reply = encode_response(error.code, command.opaque, remark=str(error))
        if reply is not None and not command.flag & FLAG_ONEWAY:
            peer.send(reply)
        return self._opaque

    async def ask(self, code, fields=None, body=b"", *, peer=None):
        """Send a request and wait for its answer."""
        peer = peer or self.peer
        opaque = self.send(code, fields, body, peer=peer)
        answer = await self.answered(peer=peer)
        assert answer.opaque == opaque
        return answer

    async def answered(self, *, peer=None):
        """Wait for the next answer."""
        async with asyncio.timeout(60):
            while True:
                for answer in (peer or self.peer).answers():
                    if answer.is_response:
                        return answer
                await asyncio.sleep(0.005)

    def put(self, *args, topic="orders", queue_id=0, **kwargs):
        """Store a message and report it to the reading side, as the group commit does."""
        queue = self.store.find(topic, queue_id)
        first = 0 if queue is None else queue.max_offset
        code = self.store.put(*args, topic=topic, queue_id=queue_id, **kwargs)
        pulls = self.consuming.pulls
        if pulls.held_count:
            pulls.arrived(topic, queue_id, first, [code])
            pulls.answer_arrivals()


def committed_offsets(store):
    """Return what a log says of offsets."""
    state, queue = CommittedOffsets(), store.find(COMMITTED_TOPIC, 0)
    if queue is not None:
        for position, size, _ in CONSUME_QUEUE_UNIT.iter_unpack(queue.read(0, queue.max_offset)):
            scanned = (position, size, 0, 0, 0, 0, 0, COMMITTED_TOPIC.encode(), b"")
            state.take(scanned, store.log.read)
    return state


def pull_fields(offset=0, **changes):
    fields = {
        "consumerGroup": "readers",
        "topic": "orders",
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(WITH_SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "0",
    }
    return {**fields, **{name: str(value) for name, value in changes.items()}}


SUCCESS = ResponseCode.SUCCESS
pull_held = partial(pull_fields, sysFlag=SUSPEND | WITH_SUBSCRIPTION)
