"""A sending side over a simulated disk, moved by the test: turns end, flushes happen and time passes on demand."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from settled_threads import SettledThreads

from broker_store.clocks.clock_note import load_clock_note
from broker_store.clocks.opening import clock_file
from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.visible.store_events import Readers, StoreListeners
from broker_store.derived import lowest_pin
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.log.snapshot import Snapshots
from broker_store.opening.opening import Opening
from broker_store.process.foundation import Surroundings, build_foundation
from broker_store.process.halves_and_features import Roll
from broker_store.process.parts.sending import Sending
from broker_store.reading.repaired_reads import Repaired
from broker_store.requests.command_table import CommandTable
from broker_store.requests.request_classes import request_classes
from broker_store.settings import Settings
from gantry_chassis.machine.environment import Environment, machine
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_hints import Hints
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.codes import RequestCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.frames.frame_stream import FrameDecoder, RawFrame
from gantry_wire.frames.known_headers import KnownHeaders
from gantry_wire.headers.messages import SendHeaderV2
from gantry_wire.limits import PER_ITEM_BATCH_BYTES_MAX
from gantry_wire.messages.batch import BatchItem, encode_batch
from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import Record, decode_record

HOST = pack_host("127.0.0.1", 10911)
START_S = 1_700_000_000.0
DIRECTORY = "/store"
SMALL = {
    "segment_bytes": 4 * 1024 * 1024,
    "zero_ahead_bytes": 0,
    "queue_file_units": 1000,
    "index_slots": 64,
    "index_entries": 4096,
    "idempotency_keys_max": 10_000,  # a store allocates the memory of all its keys at once
}


class ScriptedPeer:
    """A connection whose answers are kept."""

    def __init__(self, ip: str = "127.0.0.1", port: int = 40000) -> None:
        self.id = port
        self.remote = (ip, port)
        self.attributes: dict[str, Any] = {}
        self.is_closing = False
        self._decoder = FrameDecoder()
        self.answers: list[Command] = []

    def send(self, data: bytes) -> None:
        self.answers += [decode_command(frame) for frame in self._decoder.receive(data)]

    def send_parts(self, parts: list[bytes]) -> None:
        self.send(b"".join(parts))

    def close(self) -> None:
        self.is_closing = True


class Wishes:
    """Counts requests for a sync, which the test makes."""

    holds_all = False
    accepts_sends = True
    may_answer_alone = None

    def __init__(self) -> None:
        self.count = 0

    def request(self) -> None:
        self.count += 1

    def start(self, _on_synced: object, _on_failed: object) -> None:
        pass

    async def stop(self) -> None:
        pass


class NoReaders:
    """Nobody waits for messages."""

    held_count = 0

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        raise AssertionError("nothing is held here")

    def answer_arrivals(self) -> None:
        raise AssertionError("nothing is held here")


class ChosenReaders:
    """The readers that a test has put into its side."""

    def __init__(self, side: "SendingSide") -> None:
        self._side = side

    @property
    def held_count(self) -> int:
        return self._side.readers.held_count

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        self._side.readers.arrived(topic, queue_id, first_offset, tags_codes)

    def answer_arrivals(self) -> None:
        self._side.readers.answer_arrivals()


class SendingSide:
    """An open store. Build it inside a running loop. Nothing happens by itself."""

    def __init__(
        self,
        files: SimulatedFiles | None = None,
        wall_s: float = START_S,
        monotonic_s: float | None = None,
        boot: str = "the first boot",
        *,
        fast_paths: bool = True,
        environment: Environment | None = None,
        **settings: Any,
    ) -> None:
        """`monotonic_s` equals the wall clock by default: no clock has stepped."""
        self.files = files or SimulatedFiles()
        self._own_environment = environment or machine()
        self.threads = SettledThreads(self._own_environment)
        self.environment = self.threads.environment
        self.wall_s = wall_s
        self.monotonic_s = wall_s - START_S if monotonic_s is None else monotonic_s
        self.boot = boot
        self.fast_paths = fast_paths
        for name, value in SMALL.items():
            settings.setdefault(name, value)
        self.settings = Settings(store_dir=Path(DIRECTORY), **settings)
        note = load_clock_note(clock_file(self.files, DIRECTORY))
        self.clock = StoreClock(lambda: self.wall_s, lambda: self.monotonic_s, boot, note)
        self.opening = Opening(self.settings, self.files, self.clock, HOST, self.environment)
        for _ in self.opening.run():
            pass
        self.store = self.opening.store
        self.log = self.store.log
        self.repaired = self.open_repairs()
        self.queues = self.store.queues
        self.topics = self.store.topics
        self.classes = request_classes()
        self._work: dict[Any, None] = {}
        self.thread = self.environment.workers(1, "disk")
        self.around = Surroundings(
            self.settings, self.files, self.classes, Metrics(), self.clock.now_ms,
            Hints("", "broker-store", random.Random(1)), ConnectionPool(), "127.0.0.1:10911", lambda: None,
            Snapshots(self.files, DIRECTORY, machine().secret_bytes), repaired=self.repaired,
        )  # fmt: skip
        self.foundation = build_foundation(self.around, self.store, self.thread)
        self.groups = self.foundation.reading.groups
        self.flusher = Wishes()
        self.sending = Sending(
            self.store, self.classes, self.foundation, self._at_turn_end, self.flusher, self.thread,
            fast_paths=fast_paths,
        )  # fmt: skip
        self.readers: Readers = NoReaders()
        self.rolls: list[Roll] = []
        """What retention calls for a segment that is due. None by default: tests roll by themselves."""
        self.store.events.connect(self.build_rest())
        self.appends = self.sending.appends
        self.table = CommandTable(self.classes, KnownHeaders() if fast_paths else None, door=None)
        self.table.add_all(self.sending.commands())
        self.table.add_quick(self.sending.plain.take, self.sending.send_one)
        self._opaque = 0
        self.begin_records()

    def open_repairs(self) -> Repaired | None:
        """Return what repairs damaged records. None: the store has no replicas."""
        return None

    def begin_records(self) -> None:
        """Let changes of configuration enter the log from now on, as the process does."""
        assert self.store.topics_origin is not None
        self.sending.topic_records.begin(self.store.topics_origin)

    async def save_topics(self) -> None:
        """Return once every change of a topic is in the log, and topics.json says what the log says."""
        task = asyncio.ensure_future(self.sending.topic_records.close())
        while not task.done():
            self.flush()
            await asyncio.sleep(0.001)
        await task

    @property
    def pin(self) -> int | None:
        """The lowest log position that anything but the configuration needs."""
        config = self.store.states.config
        return lowest_pin(state for state in self.store.states.all() if state is not config)

    async def roll(self) -> None:
        """Append the entries of topics and groups again, as the process does where retention waits for them."""
        task = asyncio.ensure_future(self.sending.config_log.roll(self.log.written_end))
        while not task.done():
            self.flush()
            await asyncio.sleep(0)
        await task

    def _at_turn_end(self, work: Any) -> None:
        self._work[work] = None

    @property
    def wishes(self) -> int:
        """How often a sync was requested."""
        return self.flusher.count

    def build_rest(self) -> StoreListeners:
        """Build what the side has beside the sending half. Returns the listeners to the store's events."""
        return StoreListeners(
            self.sending.appends.place_now,
            ChosenReaders(self),
            [self.sending.targets.forget, self.sending.topic_changed],
            [self.store.states.topic_deleted],
            [],
            self.rolls,
            self.sending.appends.work.set,
        )

    def pass_time(self, seconds: float) -> None:
        self.wall_s += seconds
        self.monotonic_s += seconds

    def end_turn(self) -> None:
        work, self._work = self._work, {}
        for callback in work:
            callback()

    def flush(self) -> None:
        """End the turn, then do what the sync thread does, also for what waited for the running flush."""
        self.end_turn()
        self.appends.synced(self.log.sync())
        while self._work:
            self.end_turn()
            self.appends.flush()  # time does not pass here: a batch that waits for more would wait for ever
            self.appends.synced(self.log.sync())

    def ask(
        self, peer: ScriptedPeer, code: int, header: Any = None, body: bytes = b"", *, oneway: bool = False
    ) -> int:
        """Submit a request to the table as the server would, with refusals answered. Returns its opaque."""
        self._opaque += 1
        frame = encode_request(code, self._opaque, header, body, oneway=oneway)
        raw = FrameDecoder().receive(frame)[0]
        self.receive(peer, raw)
        return self._opaque

    def receive(self, peer: ScriptedPeer, raw: RawFrame) -> None:
        try:
            self.table.receive(peer, raw)  # pyright: ignore[reportArgumentType]
        except WireError as error:
            command = decode_command(raw)
            if not command.is_oneway:
                fields = getattr(error, "fields", None)
                peer.send(encode_response(error.code, command.opaque, fields, remark=str(error)))

    def send(
        self, peer: ScriptedPeer, topic: str = "orders", body: bytes = b"hi", queue_id: int = 0, **more: Any
    ) -> int:
        properties = more.pop("properties", {"UNIQ_KEY": f"U{self._opaque:031d}"})
        oneway = more.pop("oneway", False)
        text = properties if isinstance(properties, str) else format_properties(properties).decode()
        header = send_header(topic, queue_id, properties=text, **more)
        return self.ask(peer, RequestCode.SEND_MESSAGE_V2, header, body, oneway=oneway)

    def send_batch(
        self,
        peer: ScriptedPeer,
        bodies: list[tuple[bytes, dict[str, str]]],
        topic: str = "orders",
        **more: Any,
    ) -> int:
        batch = encode_batch(
            [BatchItem(0, body, format_properties(properties)) for body, properties in bodies],
            PER_ITEM_BATCH_BYTES_MAX,
        )
        header = send_header(topic, more.pop("queue_id", 0), batch=True, **more)
        return self.ask(peer, RequestCode.SEND_BATCH_MESSAGE, header, batch)

    def records(self, topic: str = "orders", queue_id: int = 0) -> list[Record]:
        """Read back what readers can see of a queue, without holes."""
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return []
        units = queue.read(queue.min_offset, queue.max_offset - queue.min_offset)
        records: list[Record] = []
        for at in range(0, len(units), 20):
            position = int.from_bytes(units[at : at + 8], "big")
            size = int.from_bytes(units[at + 8 : at + 12], "big")
            if size != 0x7FFFFFFF:
                records.append(decode_record(self.log.read(position, size)))
        return records

    def reopen(self, **settings: Any) -> Self:
        """Open the same disk again as after a kill: nothing was closed, but what its threads do has ended."""
        self.threads.settle()
        chosen = {"segment_bytes": self.settings.segment_bytes, "flush": self.settings.flush, **settings}
        moment = (self.wall_s + 1, self.monotonic_s + 1, self.boot)
        return type(self)(
            self.files, *moment, fast_paths=self.fast_paths, environment=self._own_environment, **chosen
        )


def send_header(topic: str, queue_id: int = 0, **more: Any) -> SendHeaderV2:
    fields: dict[str, Any] = {
        "producer_group": "pg",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": queue_id,
        "sys_flag": 0,
        "born_timestamp": 1_699_999_999_000,
        "flag": 0,
        "reconsume_times": 0,
        **more,
    }
    return SendHeaderV2(**fields)
