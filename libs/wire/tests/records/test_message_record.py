"""Records match the layout byte for byte, and damaged records are refused."""

import struct
from contextlib import suppress
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedRecord
from gantry_wire.messages.ids import pack_host
from gantry_wire.records.message_record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
    Record,
    build_blank,
    build_record,
    decode_record,
    peek_header,
    rebuild_record,
    record_size,
    scan_records,
)

V4 = pack_host("127.0.0.1", 10911)
V6 = pack_host("2001:db8::1", 10911)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
FIELDS = {
    "topic": st.binary(max_size=300), "queue_id": INT32, "queue_offset": INT64, "position": INT64,
    "body": st.binary(max_size=60), "properties": st.binary(max_size=60), "flag": INT32, "sys_flag": INT32,
    "born_timestamp": INT64, "born_host": st.sampled_from([V4, V6]), "store_timestamp": INT64,
    "store_host": st.sampled_from([V4, V6]), "reconsume_times": INT32, "prepared_position": INT64,
}  # fmt: skip
RECORDS = st.fixed_dictionaries(FIELDS)


def plain(position: int = 0, body: bytes = b"hello", topic: bytes = b"T", **more: object) -> bytes:
    values = {
        "queue_id": 1, "queue_offset": 2, "properties": b"TAGS\x01a\x02", "flag": 0, "sys_flag": 0,
        "born_timestamp": 3, "born_host": V4, "store_timestamp": 4, "store_host": V4, **more,
    }  # fmt: skip
    return build_record(topic=topic, position=position, body=body, **values)


def test_the_layout_equals_the_one_on_disk():
    record = build_record(b"T", 1, 2, 3, b"body", b"k\x01v\x02", 5, 0, 6, V4, 7, V4, 8, 9)
    expected = struct.pack(">iIiiiqqiq", 100, MAGIC_V1, crc32(b"body") & 0x7FFFFFFF, 1, 5, 2, 3, 0, 6)
    expected += V4 + struct.pack(">q", 7) + V4 + struct.pack(">iqi", 8, 9, 4) + b"body\x01T\x00\x04k\x01v\x02"
    assert record == expected


@given(RECORDS)
def test_a_record_round_trips(values):
    data = build_record(**values)
    sizes = [len(values[name]) for name in ("body", "topic", "properties", "born_host", "store_host")]
    assert len(data) == record_size(*sizes)
    for at, buffer in ((0, data), (3, memoryview(b"xyz" + data + b"tail"))):
        record = decode_record(buffer, at)
        assert {name: getattr(record, name) for name in values if name != "sys_flag"} == {
            name: value for name, value in values.items() if name != "sys_flag"
        }
        assert record.size == len(data)
        assert record.magic == (MAGIC_V2 if len(values["topic"]) > 127 else MAGIC_V1)
    assert rebuild_record(record) == data
    assert peek_header(data) == record[:8]


@given(RECORDS)
def test_the_ipv6_bits_come_from_the_hosts_not_from_the_client(values):
    record = decode_record(build_record(**values))
    wanted = SYS_BORN_HOST_V6 * (values["born_host"] == V6) | SYS_STORE_HOST_V6 * (values["store_host"] == V6)
    assert record.sys_flag & 0x30 == wanted
    assert record.sys_flag & ~0x30 == values["sys_flag"] & ~0x30


@given(RECORDS, st.data())
def test_a_flipped_bit_or_a_cut_gives_a_record_or_the_documented_error(values, data):
    whole = build_record(**values)
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << bit % 8
    with suppress(MalformedRecord):
        assert decode_record(bytes(flipped)) != decode_record(whole)
    with pytest.raises(MalformedRecord):
        decode_record(whole[: bit // 8])


def test_a_flipped_bit_in_the_body_is_found_unless_the_check_is_off():
    data = plain()
    for bit in range(5 * 8):
        damaged = bytearray(data)
        damaged[88 + bit // 8] ^= 1 << bit % 8
        with pytest.raises(MalformedRecord, match="CRC"):
            decode_record(bytes(damaged))
        assert decode_record(bytes(damaged), check_crc=False).topic == b"T"


@given(st.binary(max_size=150))
def test_any_bytes_give_a_record_or_the_documented_error(data):
    with pytest.raises(MalformedRecord):
        decode_record(data)


def patched(at: int, layout: str, value: int, **more: object) -> bytes:
    data = bytearray(plain(**more))
    struct.pack_into(layout, data, at, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "too few"),
        (bytes(RECORD_BYTES_MIN), "magic 0x0"),
        (patched(4, ">I", MAGIC_BLANK), "magic 0xcbd43194"),
        (patched(0, ">i", 10**6), "is outside"),
        (patched(0, ">i", 90), "is outside"),
        (patched(0, ">i", -1), "is outside"),
        (patched(36, ">i", 0x30, body=b"", properties=b""), "is outside"),
        (patched(84, ">i", -1), "body of -1"),
        (patched(84, ">i", 2**31 - 1), "body of 2147483647"),
        (patched(84, ">i", 12), "do not fill"),
        (patched(93, ">B", 255), "do not fill"),
        (patched(93, ">B", 0), "do not fill"),
        (patched(95, ">h", -1), "do not fill"),
        (patched(95, ">h", 6), "do not fill"),
        (patched(93, ">h", -200, topic=b"t" * 200), "do not fill"),
    ],
)
def test_wrong_sizes_are_refused(data, message):
    with pytest.raises(MalformedRecord, match=message):
        decode_record(data)


def test_a_v1_topic_is_at_most_as_long_as_java_can_read():
    data = patched(93, ">B", 128, topic=b"t" * 127, properties=b"")
    moved = bytearray(data + b"\0")
    struct.pack_into(">i", moved, 0, len(moved))
    with pytest.raises(MalformedRecord, match="do not fill"):
        decode_record(bytes(moved))


def test_consecutive_records_are_scanned_until_a_blank_zeros_or_the_end():
    first = plain(position=1000)
    second = plain(position=1000 + len(first), body=b"")
    records = first + second
    for tail in (b"", build_blank(500) + b"undefined", bytes(64), build_blank(8), bytes(8)):
        found = list(scan_records(records + tail, 1000))
        assert [record.body for record in found] == [b"hello", b""]
    assert len(list(scan_records(memoryview(records)))) == 2


def test_scanning_reports_a_record_at_the_wrong_position():
    data = plain(position=1000)
    with pytest.raises(MalformedRecord, match="position 1001 contains the position 1000"):
        list(scan_records(data, 1001))
    with pytest.raises(MalformedRecord, match="3 bytes are too few"):
        list(scan_records(data + b"abc"))


def test_a_blank_contains_the_number_of_unused_bytes():
    head = peek_header(build_blank(4096))
    assert (head.size, head.magic, head.position) == (4096, MAGIC_BLANK, 0)
    assert build_blank(4096) == struct.pack(">ii", 4096, -875286124)
    with pytest.raises(MalformedRecord):
        peek_header(b"1234567")


def test_a_record_contains_its_sender_and_message_id():
    record = decode_record(plain(position=0x1234, born_host=V6))
    assert isinstance(record, Record)
    assert record.born_address == ("2001:db8::1", 10911)
    assert record.store_address == ("127.0.0.1", 10911)
    assert record.message_id == "7F00000100002A9F0000000000001234"
    assert record.property_map() == {"TAGS": "a"}
