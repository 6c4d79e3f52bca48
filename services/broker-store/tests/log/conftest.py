"""A small store: log, queues, index and checkpoint assembled as in the broker, over any disk."""

import os

import pytest

from broker_store.log.checkpoint.checkpoint import Checkpoint
from broker_store.log.checkpoint.checkpoint_file import Times
from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.consume_queues.consume_queue import ConsumeQueue
from broker_store.log.files.file_pool import FilePool
from broker_store.log.files.files import make_durable_dirs
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.log.index.index import IndexFiles
from broker_store.log.recovery.recovery import Cut, Found, Hole, Recovered, Recovery
from broker_store.log.settings import LogSettings
from gantry_wire.records.message_record import build_record, decode_record, record_size
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\xf9"
SMALL = LogSettings(
    segment_bytes=4096,
    queue_file_units=16,
    index_slots=64,
    index_entries=32,
    prezero_bytes=0,
    free_bytes_min=64 * 1024,
    reserve_bytes=64 * 1024,
)
STORE = "/store"
QUEUE_SIZES = LogSettings(segment_bytes=4096, queue_file_units=16, prezero_bytes=0)
QUEUE_DIRECTORY = "/cq/T/0"


def build(topic, queue_id, queue_offset, position, body, properties=b"", store_ms=1_700_000_000_000, **other):
    return build_record(
        topic.encode(), queue_id, queue_offset, position, body, properties, 0, other.get("sys_flag", 0),
        store_ms, other.get("born_host", HOST), store_ms, HOST,
    )  # fmt: skip


class MiniStore:
    """One opening of the store. `events` holds the reports of recovery."""

    def __init__(self, files, settings=SMALL, rebuild=False, directory=STORE, preamble=True):
        self.files, self.settings, self.directory = files, settings, directory
        make_durable_dirs(files, f"{directory}/commitlog")
        self.checkpoint = Checkpoint(files, directory, os.urandom)
        self.last = self.checkpoint.last
        self.checkpoint.begin(process_id=1)
        self.log = CommitLog(
            files, f"{directory}/commitlog", settings,
            self.preamble if preamble else lambda _: [], self.on_preamble, self.checkpoint,
        )  # fmt: skip
        self.pool = FilePool(files, open_max=4)
        self.queues = {}
        self.next_offsets = {}
        self.index = IndexFiles(files, f"{directory}/index", settings)
        self.pending = []
        self.store_ms = 1_700_000_000_000
        self.recovery = Recovery(
            self.log, self.last, rebuild=rebuild, is_preamble=lambda record: record[7] == b"SYS"
        )
        self.events = []
        self.found = []

    def open(self):
        for event in self.steps():
            self.events.append(event)
        return self

    def steps(self):
        root = f"{self.directory}/consumequeue"
        for topic in self.files.listdir(root):
            for queue_id in self.files.listdir(f"{root}/{topic}"):
                self.recovery.load_queue(self.queue(topic, int(queue_id)))
        self.index.load()
        for event in self.recovery.run():
            if isinstance(event, Found):
                self.found += event.records
                for position, size, queue_id, offset, _, store_ms, _, topic, _ in event.records:
                    self.dispatch(topic.decode(errors="replace"), queue_id, offset, position, size, store_ms)
            elif isinstance(event, Hole) and event.suspect:
                _, _, queue_id, offset, _, _, _, topic, _ = event.suspect
                self.queue(topic.decode(errors="replace"), queue_id).leave_hole(offset, event.start)
            yield event
        self.next_offsets = {key: queue.max_offset for key, queue in self.queues.items()}

    @property
    def holes(self):
        return [event for event in self.events if isinstance(event, Hole)]

    @property
    def cuts(self):
        return [event for event in self.events if isinstance(event, Cut)]

    @property
    def recovered(self):
        (event,) = [event for event in self.events if isinstance(event, Recovered)]
        return event

    def queue(self, topic, queue_id):
        key = (topic, queue_id)
        if key not in self.queues:
            directory = f"{self.directory}/consumequeue/{topic}/{queue_id}"
            self.queues[key] = ConsumeQueue(self.pool, directory, self.settings)
        return self.queues[key]

    def preamble(self, position):
        return [
            build(
                "SYS", 0, self.next_offsets.get(("SYS", 0), 0), position, b"offsets", store_ms=self.store_ms
            )
        ]

    def on_preamble(self, position, record):
        self.pending.append(
            ("SYS", 0, self.next_offsets.get(("SYS", 0), 0), position, len(record), self.store_ms)
        )
        self.next_offsets["SYS", 0] = self.next_offsets.get(("SYS", 0), 0) + 1

    def put(self, body, topic="T", queue_id=0):
        """Place one record in the open batch; returns (position, queue offset)."""
        self.store_ms += 1000
        size = record_size(len(body), len(topic), 0)
        position = self.log.reserve(size)
        offset = self.next_offsets.get((topic, queue_id), 0)
        self.log.put(build(topic, queue_id, offset, position, body, store_ms=self.store_ms))
        self.next_offsets[topic, queue_id] = offset + 1
        self.pending.append((topic, queue_id, offset, position, size, self.store_ms))
        return position, offset

    def commit(self):
        """Write, sync, confirm, show, dispatch: everything put is then acknowledged."""
        self.log.write()
        end = self.log.sync()
        self.log.set_confirm(end)
        self.log.set_visible(end, end)
        for entry in self.pending:
            self.dispatch(*entry)
        self.pending.clear()
        return end

    def send(self, *bodies, topic="T", queue_id=0):
        places = [self.put(body, topic, queue_id) for body in bodies]
        self.commit()
        return places

    def dispatch(self, topic, queue_id, offset, position, size, store_ms):
        self.queue(topic, queue_id).append(offset, position, size, 7)
        self.index.put([(hash((topic, offset)) & 0x7FFFFFFF, position, store_ms)])

    def take_checkpoint(self):
        position = self.log.visible_end
        for queue in self.queues.values():
            queue.sync()
        for job in self.index.checkpoint():
            job()
        times = Times(self.store_ms, self.store_ms, self.store_ms)
        self.checkpoint.write(position, self.log.written_end, self.log.confirm, times)

    def close(self):
        self.take_checkpoint()
        self.checkpoint.close(self.log.written_end, Times(self.store_ms, self.store_ms, self.store_ms))
        self.log.close()

    def bodies(self, topic="T", queue_id=0):
        """Read a queue through its units: {offset: body}, without holes and damaged records."""
        from broker_store.log.errors import DamagedRecord

        queue = self.queue(topic, queue_id)
        units = queue.read(queue.min_offset, queue.max_offset - queue.min_offset)
        bodies = {}
        for place, (position, size, _) in enumerate(CONSUME_QUEUE_UNIT.iter_unpack(units)):
            if size == 0x7FFFFFFF:
                continue
            try:
                record = decode_record(self.log.read(position, size))
            except DamagedRecord:
                continue
            assert (record.queue_offset, record.topic) == (queue.min_offset + place, topic.encode())
            bodies[record.queue_offset] = record.body
        return bodies


@pytest.fixture
def disk():
    return SimulatedFiles()


@pytest.fixture
def mini():
    return MiniStore


@pytest.fixture
def build_at():
    return build


@pytest.fixture
def small():
    return SMALL


class Confirms:
    def __init__(self):
        self.noted = []
        self.deleted = []

    def write_confirm(self, position):
        self.noted.append(position)

    def note_deleted(self, position):
        self.deleted.append(position)


def open_log(files, small, directory="/log", preamble=lambda _: [], on_preamble=lambda *_: None):
    files.make_dirs(directory)
    log = CommitLog(files, directory, small, preamble, on_preamble, Confirms())
    log.start_at(log.min_position, 0)
    return log


def put(log, body, offset=0):
    size = 92 + len(body)
    position = log.reserve(size)
    record = build("T", 0, offset, position, body)
    assert len(record) == size
    log.put(record)
    return position


def commit(log):
    log.write()
    end = log.sync()
    log.set_confirm(end)
    log.set_visible(end, end)
    return end


def open_queue(disk, **load):
    queue = ConsumeQueue(FilePool(disk, open_max=2), QUEUE_DIRECTORY, QUEUE_SIZES)
    if load:
        queue.load(**load)
    return queue


def fill(queue, count, first=0):
    for offset in range(first, first + count):
        assert queue.append(offset, 100 * offset, 100, offset * 7) == 0


def units(queue, offset=None, count=10_000):
    return list(
        CONSUME_QUEUE_UNIT.iter_unpack(queue.read(queue.min_offset if offset is None else offset, count))
    )


@pytest.fixture(name="open_log")
def open_log_fixture():
    return open_log


@pytest.fixture(name="put")
def put_fixture():
    return put


@pytest.fixture(name="commit")
def commit_fixture():
    return commit


@pytest.fixture(name="open_queue")
def open_queue_fixture():
    return open_queue


@pytest.fixture(name="fill")
def fill_fixture():
    return fill


@pytest.fixture(name="units")
def units_fixture():
    return units
