"""In-memory log, queues and peers for tests of the reading side."""

import asyncio

from broker_store.log.errors import DamagedRecord, PositionNotVisible, PositionRemoved
from gantry_wire.bodies.cluster import TopicConfig
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.messages.properties import format_properties, index_key_hash, parse_properties, tags_code
from gantry_wire.records.message_record import behind_body, build_record
from gantry_wire.records.units import CONSUME_QUEUE_BLANK, CONSUME_QUEUE_UNIT

HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
UNIT = CONSUME_QUEUE_UNIT.size


class MemoryLog:
    """A log that is one buffer. With `cold`, nowait reads fail. `damaged` holds positions of bad records."""

    def __init__(self):
        self.data = bytearray()
        self.min_position = 0
        self.cold = False
        self.damaged = set()
        self.reads = []

    @property
    def end(self):
        return len(self.data)

    @property
    def visible_end(self):
        return len(self.data)

    def read(self, position, size):
        self.reads.append((position, size))
        if position < self.min_position:
            raise PositionRemoved(position)
        if position + size > self.visible_end:
            raise PositionNotVisible(position)
        for bad in self.damaged:
            if position <= bad < position + size:
                raise DamagedRecord(bad, "flipped")
        return bytes(self.data[position : position + size])

    def read_nowait(self, position, size):
        return None if self.cold else self.read(position, size)

    def read_record(self, position):
        if position + 4 > len(self.data):
            raise PositionNotVisible(position)
        size = int.from_bytes(self.data[position : position + 4], "big")
        if size < 91:
            raise DamagedRecord(position, "no record begins there")
        return self.read(position, size)

    def read_unchecked(self, position, size):
        if position < self.min_position:
            raise PositionRemoved(position)
        return bytes(self.data[position : position + size])


class MemoryQueue:
    """A queue that is one buffer of units."""

    def __init__(self, topic="orders", queue_id=0):
        self.topic, self.queue_id = topic, queue_id
        self.units = bytearray()
        self.magic, self.behind_body = behind_body(topic.encode())
        self.min_offset = self.old_end = 0

    @property
    def max_offset(self):
        return len(self.units) // UNIT

    def read(self, offset, count):
        if not self.min_offset <= offset < self.max_offset:
            return b""
        return bytes(self.units[offset * UNIT : (offset + count) * UNIT])

    def put_hole(self):
        self.units += CONSUME_QUEUE_BLANK


class MemoryStore:
    """A log with its queues, topics and index. `put` does what a send would do."""

    def __init__(self):
        self.log = MemoryLog()
        self.queues = {}
        self.topics = MemoryTopics()
        self.index = MemoryIndex()
        self.internal = []
        self.record_topic = "GANTRY_SYS_COMMITTED"
        self.refusal = None

    def find(self, topic, queue_id):
        return self.queues.get((topic, queue_id))

    def of_topic(self, topic):
        return [queue for (name, _), queue in self.queues.items() if name == topic]

    def put(
        self,
        body=b"hello",
        *,
        topic="orders",
        queue_id=0,
        tags="",
        keys="",
        uniq="",
        store_ms=1_000,
        properties=None,
    ):
        queue = self.queues.setdefault((topic, queue_id), MemoryQueue(topic, queue_id))
        named = {"TAGS": tags, "KEYS": keys, "UNIQ_KEY": uniq}
        named |= properties or {}
        raw_properties = format_properties({name: value for name, value in named.items() if value})
        record = build_record(
            topic.encode(),
            queue_id,
            queue.max_offset,
            self.log.end,
            body,
            raw_properties,
            0,
            0,
            5,
            HOST,
            store_ms,
            HOST,
        )
        code = tags_code(tags) if tags else 0
        queue.units += CONSUME_QUEUE_UNIT.pack(self.log.end, len(record), code)
        for key in filter(None, [uniq, *keys.split()]):
            self.index.entries.append((index_key_hash(topic, key), self.log.end, store_ms))
        self.log.data += record
        return code

    def append_record(self, build, on_visible, on_answer):
        """Store a record of the store's own at the end of this turn, as the group commit does."""

        def store():
            if self.refusal is not None:
                on_answer(self.refusal)
                return
            position = self.log.end
            self.put(build(), topic=self.record_topic)
            on_visible(position)
            on_answer(None)

        asyncio.get_running_loop().call_soon(store)

    def append_internal(self, topic, queue_id, body, *, tags="", keys=""):
        self.internal.append((topic, queue_id, body, tags, keys))


class MemoryTopics:
    def __init__(self):
        self.configs = {"orders": TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4)}

    def find(self, name):
        return self.configs.get(name)

    def names(self):
        return list(self.configs)

    def ensure(self, name, queues, perm):
        return self.configs.setdefault(
            name, TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
        )

    def system_names(self):
        return ["TBW102"]

    def is_internal(self, name):
        return name.startswith("GANTRY_SYS_")


class MemoryIndex:
    def __init__(self):
        self.entries = []

    @property
    def end_position(self):
        return self.entries[-1][1] if self.entries else -1

    def lookup(self, key_hash, begin_ms, end_ms, count_max):
        found = [p for h, p, ms in reversed(self.entries) if h == key_hash and begin_ms <= ms <= end_ms]
        return found[:count_max]


class MemoryPeer:
    """Collects frames, which `answers` decodes. Requests to it wait in `asked` until the test completes them."""

    next_id = 1

    def __init__(self, port=50_000):
        self.id = MemoryPeer.next_id
        MemoryPeer.next_id += 1
        self.remote = ("127.0.0.1", port)
        self.is_closing = False
        self._sent = []
        self.attributes = {}
        self.asked = []

    def request(self, code, header, body, timeout):
        answer = asyncio.get_running_loop().create_future()
        self.asked.append((code, header, body, answer))
        return answer

    def send(self, data):
        self._sent.append(data)

    def send_parts(self, parts):
        self._sent.extend(parts)

    def close(self):
        self.is_closing = True

    def answers(self):
        """Decoded frames since the last call."""
        sent, self._sent = self._sent, []
        return [decode_command(raw) for raw in FrameDecoder().receive(b"".join(sent))]

    def answer(self):
        """The only frame since the last call."""
        (only,) = self.answers()
        return only


def bodies_of(data):
    """Bodies of concatenated records."""
    from gantry_wire.records.message_record import scan_records

    return [record.body for record in scan_records(data)]


def properties_of(record):
    return parse_properties(record.properties)
