import pytest

from broker_store.delays.levels import DEFAULT
from broker_store.idempotency import Window, content_crc, key_digest
from broker_store.log.consume_queue import ConsumeQueue
from broker_store.log.file_pool import FilePool
from broker_store.log.settings import LogSettings
from broker_store.log.simulated_files import SimulatedFiles
from broker_store.queues import QueueTable
from broker_store.restore import Restore
from gantry_wire.properties import format_properties, index_key_hash, tags_code


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
    assert DEFAULT.deliver_ms(b"99", 0) == 7_200_000
    assert DEFAULT.deliver_ms(None, 0) == 1000


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


def test_what_an_item_results_in_passes_by_the_window_of_keys(parts):
    raw = b"__GANTRY_KEY\x01k\x02__GANTRY_SETTLED\x01SCHEDULE_TOPIC_XXXX:0:0::1/1\x02"
    parts.restore.take([(0, 100, 0, 0, 0, 6000, 77, b"orders", raw)])
    assert parts.window.find(key_digest("orders", "k"), 6000) is None
