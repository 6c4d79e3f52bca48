"""Our codecs decode the files of a RocketMQ 5.3.3 store to the same values as RocketMQ and rebuild them byte for byte.

The segments, queues, index and checkpoint of the capture belong together, so this test also computes the derived files from
the segments and compares them whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden_files import GOLDEN, assert_record, read_golden, under

from gantry_wire.bodies.cluster import (
    ConsumerOffsetTable,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
)
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.errors import MalformedRecord
from gantry_wire.messages.properties import KEYS, TAGS, UNIQ_KEY, find_property, index_key_hash, tags_code
from gantry_wire.names import SCHEDULE_TOPIC, TRACE_TOPIC
from gantry_wire.records.message_record import (
    MAGIC_BLANK,
    RECORD_BYTES_MIN,
    Record,
    build_blank,
    decode_record,
    peek_header,
    rebuild_record,
    scan_records,
)
from gantry_wire.records.units import CHECKPOINT, CONSUME_QUEUE_UNIT, INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT

STORE = GOLDEN / "store"
SEGMENTS = sorted(STORE.glob("segment-*.hex"))
RECORD_FILES = sorted(STORE.glob("record-*.hex"))
QUEUE_FILES = sorted(STORE.glob("consumequeue-*.hex"))
FIRST_DELAY_MS = 1000
"""The only delay level in the capture is level 1: one second."""


def whole_file(path: Path) -> bytes:
    """Put the sections of a file at their positions, with zeros around them."""
    fields, sections = read_golden(path)
    content = bytearray(int(str(fields["file.size"])))
    for at, data in sections.items():
        if at:
            content[int(at) : int(at) + len(data)] = data
    return bytes(content)


def all_records() -> Iterator[Record]:
    for path in SEGMENTS:
        yield from scan_records(whole_file(path), int(str(read_golden(path)[0]["file.name"])))


def stored_tags_code(record: Record) -> int:
    if record.topic == SCHEDULE_TOPIC.encode():
        return record.store_timestamp + FIRST_DELAY_MS
    return tags_code(find_property(record.properties, TAGS.encode()) or b"")


def index_keys(record: Record) -> list[str]:
    unique = find_property(record.properties, UNIQ_KEY.encode()) or b""
    keys = find_property(record.properties, KEYS.encode()) or b""
    return [key.decode() for key in [unique, *keys.split(b" ")] if key]


@pytest.fixture(params=RECORD_FILES, ids=lambda path: path.stem)
def record_file(request):
    return read_golden(request.param)


@pytest.fixture(params=SEGMENTS, ids=lambda path: path.stem)
def segment(request):
    return read_golden(request.param)[0], whole_file(request.param)


@pytest.fixture(params=QUEUE_FILES, ids=lambda path: path.stem)
def queue_file(request):
    return read_golden(request.param)[0], whole_file(request.param)


def test_the_capture_exists():
    assert (len(SEGMENTS), len(RECORD_FILES), len(QUEUE_FILES)) >= (4, 10, 12)


def test_records_decode_as_captured_and_are_rebuilt_byte_for_byte(record_file):
    fields, sections = record_file
    count = fields["records"]
    blocks = [sections[""]] if count == 1 else [sections[f"record.{number}"] for number in range(count)]
    for number, data in enumerate(blocks):
        record = decode_record(data)
        assert_record(record, under(fields, f"record.{number}"))
        assert rebuild_record(record) == data


def test_every_flipped_bit_of_a_body_is_detected(record_file):
    _, sections = record_file
    data = next(part for part in sections.values() if part)
    record = decode_record(data)
    start = data.index(
        record.body, record.size - len(record.body) - len(record.topic) - len(record.properties) - 4
    )
    for bit in range(len(record.body) * 8):
        damaged = bytearray(data)
        damaged[start + bit // 8] ^= 1 << bit % 8
        with pytest.raises(MalformedRecord):
            decode_record(bytes(damaged))


def test_segments_split_into_the_captured_records(segment):
    fields, content = segment
    base = int(fields["file.name"])
    records = list(scan_records(content, base))
    found = {
        str(record.position - base): [
            record.topic.decode(), record.queue_id, record.queue_offset, record.size, record.body_crc,
        ]
        for record in records
    }  # fmt: skip
    assert found == under(fields, "at")
    assert len(records) == fields["records"]
    assert b"".join(map(rebuild_record, records)) == content[: sum(record.size for record in records)]


def test_segments_end_with_a_blank_record_or_zeros(segment):
    fields, content = segment
    end = sum(record.size for record in scan_records(content))
    if "end.position" in fields:
        assert fields["end.position"] == end
        assert not any(content[end:])
        return
    head = peek_header(content, end)
    assert (fields["blank.position"], fields["blank.size"]) == (end, head.size)
    assert head.magic == MAGIC_BLANK == fields["blank.magicCode"] + 2**32
    assert content[end : end + 8] == build_blank(head.size)
    assert end + head.size == len(content)


def test_queues_hold_the_units_of_the_records(queue_file):
    fields, content = queue_file
    units = {int(number): tuple(unit) for number, unit in under(fields, "unit").items()}
    first = int(fields["file.name"]) // CONSUME_QUEUE_UNIT.size
    packed = b"".join(CONSUME_QUEUE_UNIT.pack(*unit) for _, unit in sorted(units.items()))
    assert content == packed.ljust(len(content), b"\0")
    assert sorted(units) == list(range(first, first + fields["units"]))
    expected = {
        record.queue_offset: (record.position, record.size, stored_tags_code(record))
        for record in all_records()
        if record.topic.decode() == fields["topic"] and record.queue_id == fields["queueId"]
    }
    assert units.items() <= expected.items()


def test_the_index_equals_the_one_built_from_the_records():
    fields, _ = read_golden(STORE / "index.hex")
    content = whole_file(STORE / "index.hex")
    slots, entries_max = int(str(fields["maxHashSlotNum"])), int(str(fields["maxIndexNum"]))
    records = list(all_records())
    table = [0] * slots
    entries = [bytes(INDEX_ENTRY.size)]
    begin_ms = records[0].store_timestamp
    for record in records:
        for key in index_keys(record):
            hashed = index_key_hash(record.topic.decode(), key)
            seconds = (record.store_timestamp - begin_ms) // 1000
            captured = fields[f"entry.{len(entries)}"]
            assert captured == [
                hashed,
                record.position,
                seconds,
                table[hashed % slots],
                f"{record.topic.decode()}#{key}",
            ]
            entries.append(INDEX_ENTRY.pack(*captured[:4]))
            table[hashed % slots] = len(entries) - 1
    header = INDEX_HEADER.pack(
        begin_ms, records[-1].store_timestamp, records[0].position, records[-1].position,
        sum(map(bool, table)), len(entries),
    )  # fmt: skip
    expected = header + b"".join(map(INDEX_SLOT.pack, table)) + b"".join(entries)
    assert content == expected.ljust(INDEX_HEADER.size + slots * 4 + entries_max * 20, b"\0")
    assert list(under(fields, "header").values()) == list(INDEX_HEADER.unpack_from(content))
    assert fields["slots"] == {str(slot): number for slot, number in enumerate(table) if number}


def test_the_checkpoint_is_rebuilt_byte_for_byte():
    fields, sections = read_golden(STORE / "checkpoint.hex")
    names = (
        "physicMsgTimestamp",
        "logicsMsgTimestamp",
        "indexMsgTimestamp",
        "masterFlushedOffset",
        "confirmPhyOffset",
    )
    values = [fields[name] for name in names]
    assert list(CHECKPOINT.unpack(sections["0"])) == values
    assert CHECKPOINT.pack(*values) == sections["0"]
    assert values[0] == max(record.store_timestamp for record in all_records())


def test_configuration_files_are_read():
    config = STORE / "config"
    topics = decode_body((config / "topics.json").read_bytes(), TopicConfigSerializeWrapper)
    assert topics.data_version.counter == 4
    assert (topics.topic_config_table["TBW102"].perm, TRACE_TOPIC in topics.topic_config_table) == (7, False)
    groups = decode_body((config / "subscriptionGroup.json").read_bytes(), SubscriptionGroupWrapper)
    assert groups.subscription_group_table["SELF_TEST_C_GROUP"].retry_max_times == 16
    offsets = decode_body((config / "consumerOffset.json").read_bytes(), ConsumerOffsetTable)
    assert offsets.offset_table["GoldenTopic@GoldenPush"] == {0: 6, 1: 3}


def test_a_truncated_segment_gives_a_prefix_of_its_records_or_the_documented_error():
    content = whole_file(SEGMENTS[0])
    whole = list(scan_records(content))
    for end in range(0, sum(record.size for record in whole), 97):
        found: list[Record] = []
        try:
            for record in scan_records(content[:end]):
                found.append(record)  # noqa: PERF402 - the records before the error count
        except MalformedRecord:
            pass
        assert found == whole[: len(found)]
        assert end - sum(record.size for record in found) < max(record.size for record in whole)


def test_the_smallest_possible_record_is_larger_than_a_blank_record():
    assert RECORD_BYTES_MIN > len(build_blank(8)) == struct.calcsize(">ii")
