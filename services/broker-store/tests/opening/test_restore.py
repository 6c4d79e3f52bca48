import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.commit.queues import QueueTable
from broker_store.config.delay_levels import DEFAULT
from broker_store.log.consume_queues.consume_queue import ConsumeQueue
from broker_store.log.files.file_pool import FilePool
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.log.settings import LogSettings
from broker_store.opening.restore import Restore
from broker_store.sending.idempotency import Window, content_crc, key_digest
from gantry_wire.messages.properties import (
    GANTRY_KEY,
    find_property,
    format_properties,
    index_key_hash,
    tags_code,
)


class Parts:
    def __init__(self) -> None:
        pool = FilePool(SimulatedFiles())
        self.queues = QueueTable(
            lambda topic, number: ConsumeQueue(pool, f"/q/{topic}/{number}", LogSettings())
        )
        self.index: list[tuple[int, int, int]] = []
        self.window = Window(1 << 40, 16)
        self.restore = Restore(
            self.queues, self, self.window, lambda _position, _size: None, lambda _topic, _time: None
        )

    def put(self, entries) -> None:
        self.index += entries

    def unit(self, topic: str, offset: int = 0) -> tuple[int, int, int]:
        unit = self.queues.find(topic, 0).read(offset, 1)
        return (
            int.from_bytes(unit[:8], "big"),
            int.from_bytes(unit[8:12], "big"),
            int.from_bytes(unit[12:], "big", signed=True),
        )


def record(position: int, offset: int = 0, sys_flag: int = 0, topic: bytes = b"orders", **properties: str):
    raw = format_properties(properties)
    return (position, 100, 0, offset, sys_flag, 5000 + position, 77, topic, raw)


@pytest.fixture
def parts():
    return Parts()


def test_a_record_becomes_a_unit_with_its_tag_and_index_entries(parts):
    parts.restore.take([record(0, TAGS="a", UNIQ_KEY="U1", KEYS="k1 k2")])
    assert parts.unit("orders") == (0, 100, tags_code("a"))
    assert [entry[0] for entry in parts.index] == [
        index_key_hash("orders", key) for key in ("U1", "k1", "k2")
    ]
    assert parts.restore.newest_store_ms == 5000


def test_a_unique_key_that_does_not_come_first_or_is_not_closed_is_found(parts):
    parts.restore.take(
        [record(0, a="b", UNIQ_KEY="U1"), (100, 100, 0, 1, 0, 6000, 7, b"orders", b"UNIQ_KEY\x01U2")]
    )
    assert [entry[0] for entry in parts.index] == [
        index_key_hash("orders", "U1"),
        index_key_hash("orders", "U2"),
    ]


def test_taking_the_same_twice_changes_nothing(parts):
    records = [record(0), record(100, 1)]
    parts.restore.take(records)
    parts.restore.take(records)
    assert parts.queues.find("orders", 0).max_offset == 2


@pytest.mark.parametrize(
    ("sys_flag", "is_dispatched", "is_indexed"), [(0x4, False, True), (0xC, False, False), (0x8, True, True)]
)
def test_halves_and_rollbacks_of_an_imported_log_are_in_no_queue(parts, sys_flag, is_dispatched, is_indexed):
    parts.restore.take([record(0, sys_flag=sys_flag, UNIQ_KEY="U")])
    assert parts.queues.find("orders", 0).max_offset == is_dispatched
    assert bool(parts.index) == is_indexed


def test_a_delayed_record_of_an_imported_log_is_due_at_its_time(parts):
    parts.restore.take([record(0, topic=b"SCHEDULE_TOPIC_XXXX", DELAY="3", TAGS="x")])
    assert parts.unit("SCHEDULE_TOPIC_XXXX")[2] == 5000 + 10_000
    assert DEFAULT.deliver_ms(b"DELAY\x0199\x02", 0) == 7_200_000
    assert DEFAULT.deliver_ms(b"", 0) == 1000


def test_an_idempotency_key_is_remembered(parts):
    properties = {"__GANTRY_KEY": "k", "UNIQ_KEY": "U"}
    parts.restore.take([record(200, 4, **properties)])
    found = parts.window.find(key_digest("orders", "k"), 6000)
    assert (found.position, found.queue_offset, found.content_crc) == (200, 4, content_crc(77, properties))


def test_the_offset_of_a_damaged_record_is_not_used_again(parts):
    parts.restore.take([record(0)])
    parts.restore.leave_hole(record(100, 1))
    assert parts.queues.find("orders", 0).max_offset == 2
    parts.restore.leave_hole(record(200, 1 << 40))
    assert parts.queues.find("orders", 0).max_offset == 2


def test_properties_that_are_not_utf8_do_not_stop_a_recovery(parts):
    parts.restore.take(
        [(0, 100, 0, 0, 0, 1, 0, b"orders", b"UNIQ_KEY\x01\xff\x02KEYS\x01\xfe\x02TAGS\x01\xfd\x02")]
    )
    assert parts.queues.find("orders", 0).max_offset == 1


def test_a_keyed_record_whose_properties_are_no_utf_8_stops_no_rebuild(parts):
    raw = b"__GANTRY_KEY\x01k\x02x\x01\xff\xfe\x02"
    parts.restore.take([(0, 100, 0, 0, 0, 6000, 77, b"orders", raw)])
    assert parts.window.find(key_digest("orders", "k"), 6000) is not None


def test_outputs_of_an_item_are_not_in_the_window_of_keys(parts):
    raw = b"__GANTRY_KEY\x01k\x02__GANTRY_SETTLED\x01SCHEDULE_TOPIC_XXXX:0:0::1/1\x02"
    parts.restore.take([(0, 100, 0, 0, 0, 6000, 77, b"orders", raw)])
    assert parts.window.find(key_digest("orders", "k"), 6000) is None


KINDS = st.sampled_from(
    [
        {"UNIQ_KEY": "K1"},
        {"UNIQ_KEY": "K2", "KEYS": "a b"},
        {"a": "b", "UNIQ_KEY": "K3", "TAGS": "t"},
        {"UNIQ_KEY": "K4", GANTRY_KEY: "mine"},
        {},
    ]
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"orders", b"others", b"SCHEDULE_TOPIC_XXXX"]),
            st.integers(0, 1),
            KINDS,
            st.sampled_from([0, 0, 0, 0x4, 0x8, 0xC]),
            st.sampled_from([0, 0, 0, 0, 0, 1, -1]),
        ),
        max_size=14,
    ),
    st.integers(1, 5),
)
def test_records_taken_together_are_those_taken_one_by_one(steps, slice_size):
    offsets: dict[tuple[bytes, int], int] = {}
    records = []
    for number, (topic, queue_id, properties, sys_flag, shift) in enumerate(steps):
        offset = max(0, offsets.get((topic, queue_id), 0) + shift)
        offsets[topic, queue_id] = offset + 1
        raw = format_properties(properties)
        records.append((200 * number, 200, queue_id, offset, sys_flag, 5000 + number, 77, topic, raw))
    together, single = Parts(), Parts()
    for first in range(0, len(records), slice_size):
        together.restore.take(records[first : first + slice_size])
    for one in records:
        single.restore.take([one])
    assert together.index == single.index
    assert together.restore.holes == single.restore.holes
    assert together.window.packed(0) == single.window.packed(0)
    assert [(q.topic, q.queue_id, q.read(0, 50)) for q in together.queues.all()] == [
        (q.topic, q.queue_id, q.read(0, 50)) for q in single.queues.all()
    ]


PARTS_OF_PROPERTIES = st.sampled_from([
    b"UNIQ_KEY\x010A0B0C0D0001", b"UNIQ_KEY\x010A0B0C0D0002", b"UNIQ_KEY\x01\xff", b"UNIQ_KEY\x01a", b"TAGS\x01red", b"TAGS\x01blue",
    b"KEYS\x01k1 k2", b"WAIT\x01true", b"XTAGS\x01no", b"__GANTRY_X\x01y", b"TAGS\x01", b"",
])  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(PARTS_OF_PROPERTIES, max_size=4), st.booleans())))
def test_records_taken_together_give_what_each_by_itself_gives(messages):
    records, offsets = [], [0, 0, 0]
    for number, (queue_id, properties, closed) in enumerate(messages):
        raw = b"\x02".join(properties) + (b"\x02" if closed else b"")
        fields = record(number * 100, offsets[queue_id])
        records.append((*fields[:2], queue_id, *fields[3:8], raw))
        offsets[queue_id] += 1
    together, singly = Parts(), Parts()
    together.restore.take(records)
    for one in records:
        singly.restore.take([one])
    assert together.index == singly.index
    for queue in singly.queues.all():
        other = together.queues.find(queue.topic, queue.queue_id)
        assert other.read(0, queue.max_offset) == queue.read(0, queue.max_offset)
    expected: list[int] = []
    for one in records:
        unique, keys = find_property(one[8], b"UNIQ_KEY"), find_property(one[8], b"KEYS")
        names = ([unique] if unique else []) + (keys.split() if keys else [])
        expected += [index_key_hash("orders", name.decode(errors="replace")) for name in names]
    assert [hashed for hashed, _, _ in together.index] == expected


def marked(position: int, of: bytes) -> tuple:
    raw = b"__GANTRY_SETTLED\x01" + of + b":g:1/1\x02"
    return (position, 100, 0, position // 100, 0, 6000, 77, b"letters", raw)


def test_behind_damage_an_offset_that_only_a_decision_names_is_not_used_again(parts):
    parts.restore.take([record(0), marked(100, b"orders:0:7")])
    assert parts.queues.find("orders", 0).max_offset == 1
    parts.restore.leave_hole(None)
    parts.restore.take([marked(200, b"orders:0:1"), marked(300, b"gone:0:4"), marked(400, b"orders:0:99999")])
    queue = parts.queues.find("orders", 0)
    assert (queue.max_offset, queue.next_offset, parts.restore.holes) == (2, 2, 1 + 5)
    assert parts.queues.find("gone", 0) is None  # a deleted topic has no queue
    assert parts.queues.open("gone", 0).next_offset == 5
    parts.restore.take([record(500, 1)])  # one that an earlier version stored there is read
    assert parts.unit("orders", 1)[:2] == (500, 100)
