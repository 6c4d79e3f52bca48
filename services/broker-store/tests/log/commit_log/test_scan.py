"""The loop over records: every intact record, and the reason of the stop, for any bytes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_store.log.commit_log.scan import RECORD_BYTES_LIMIT, Stop, record_size_at, scan_records
from gantry_wire.records.message_record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, build_blank, decode_record

V6 = b"\x20\x01" + bytes(14) + b"\x00\x00\x2a\xf9"


def scan(buffer, base=0, at=0):
    found = []
    end, stop, fault = scan_records(buffer, base, at, found)
    return found, end, stop, fault


def chain(build_at, bodies, base=0, **other):
    buffer = b""
    for number, body in enumerate(bodies):
        buffer += build_at(
            "Topic", 3, number, base + len(buffer), body, b"TAGS\x01a\x02", store_ms=5, **other
        )
    return buffer


def test_each_record_comes_with_what_queues_need(build_at):
    buffer = chain(build_at, [b"one", b""], base=1000)
    found, end, stop, _ = scan(buffer, base=1000)
    first = decode_record(buffer)
    assert found[0] == (1000, first.size, 3, 0, 0, 5, first.body_crc, b"Topic", b"TAGS\x01a\x02")
    assert [record[0] for record in found] == [1000, 1000 + first.size]
    assert (end, stop) == (len(buffer), Stop.MORE)


@pytest.mark.parametrize("topic", ["T", "%RETRY%" + "g" * 200])
@pytest.mark.parametrize("host", [b"\x7f\0\0\1\0\0\2\1", V6])
def test_long_topics_and_ipv6_hosts_are_accepted_too(build_at, topic, host):
    buffer = build_at(topic, 1, 2, 0, b"body", b"p", born_host=host)
    buffer += build_at(topic, 1, 3, len(buffer), b"", b"", born_host=host)
    found, end, stop, _ = scan(buffer)
    assert [record[7] for record in found] == [topic.encode()] * 2
    assert [record[3] for record in found] == [2, 3]
    assert (end, stop) == (len(buffer), Stop.MORE)


def test_the_walk_reports_why_it_ends(build_at):
    buffer = chain(build_at, [b"one"])
    end = len(buffer)
    assert scan(buffer + build_blank(500))[1:3] == (end, Stop.BLANK)
    assert scan(buffer + build_blank(500) + b"x" * 200)[1:3] == (end, Stop.BLANK)
    assert scan(buffer + bytes(200))[1:3] == (end, Stop.ZERO)
    assert scan(buffer + bytes(8))[1:3] == (end, Stop.ZERO)
    assert scan(buffer + bytes(7))[1:3] == (end, Stop.MORE)
    assert scan(buffer + b"x" * 200)[1:3] == (end, Stop.BAD)
    assert scan(buffer + buffer[:50])[1:3] == (end, Stop.MORE)


def damaged(build_at, at, value, **other):
    record = bytearray(build_at("Topic", 3, 0, 0, b"a body of some length" * 5, b"TAGS\x01a\x02", **other))
    record[at : at + len(value)] = value
    return bytes(record)


@pytest.mark.parametrize(
    ("at", "value", "fault"),
    [
        (4, b"\1\2\3\4", "magic"),
        (28, b"\0\0\0\0\0\0\0\1", "claims position 1"),
        (84, b"\xff\xff\xff\xff", "contradict"),
        (84, b"\x7f\0\0\0", "contradict"),
        (0, b"\x7f\0\0\0", "contradict"),
        (0, b"\0\0\0\1", "contradict"),
        (88 + 105, b"\xff", "do not fill"),
        (88 + 105, b"\4", "do not fill"),
        (90, b"\0", "CRC"),
        (8, b"\0\0\0\0", "CRC"),
    ],
)
def test_damage_is_named(build_at, at, value, fault):
    found, end, stop, said = scan(damaged(build_at, at, value))
    assert (found, end, stop) == ([], 0, Stop.BAD)
    assert fault in said


@pytest.mark.parametrize(
    ("at", "value", "fault"),
    [
        (0, b"\0\0\0\x10", "size is impossible"),
        (28, b"\0\0\0\0\0\0\0\1", "claims position 1"),
        (100, b"\0", "CRC"),
        (96, b"\x7f\0\0\0", "body of"),
    ],
)
def test_damage_of_uncommon_records_is_named(build_at, at, value, fault):
    found, _, stop, said = scan(damaged(build_at, at, value, born_host=V6))
    assert (found, stop) == ([], Stop.BAD)
    assert fault in said
    whole = damaged(build_at, 0, b"", born_host=V6)
    assert scan(whole[:150])[2] is Stop.MORE


def test_a_size_is_trusted_only_within_limits():
    def head(size, magic):
        return size.to_bytes(4, "big", signed=True) + magic.to_bytes(4, "big")

    assert record_size_at(head(91, MAGIC_V1)) == 91
    assert record_size_at(head(1000, MAGIC_V2)) == 1000
    assert [record_size_at(head(size, MAGIC_V1)) for size in (90, -5, RECORD_BYTES_LIMIT + 1)] == [0, 0, 0]
    assert record_size_at(head(1000, MAGIC_BLANK)) == 0


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_cut_and_any_flip_gives_a_prefix_and_never_an_error(build_at, data):
    bodies = data.draw(st.lists(st.binary(max_size=60), min_size=1, max_size=6))
    buffer = chain(build_at, bodies)
    whole, _, _, _ = scan(buffer)
    cut = data.draw(st.integers(0, len(buffer)))
    found, end, _, _ = scan(buffer[:cut])
    assert found == whole[: len(found)]
    assert end <= cut
    if cut:
        at, mask = data.draw(st.integers(0, len(buffer) - 1)), data.draw(st.integers(1, 255))
        flipped = bytearray(buffer)
        flipped[at] ^= mask
        found, end, stop, _ = scan(bytes(flipped))
        clean = sum(1 for record in whole if record[0] + record[1] <= at)
        assert found[:clean] == whole[:clean]
        assert stop in Stop


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_get_an_answer(junk):
    found, end, _, _ = scan(junk)
    assert end <= len(junk)
    assert isinstance(found, list)


@pytest.mark.parametrize("body", [b"body", b"", bytes(600), b"b" * 1500])
@pytest.mark.parametrize("start", [0, 1, 100, 300, 400, 440, 500, 511])
@pytest.mark.parametrize("properties", [b"", b"KEYS\x01k\x02", b"P\x01" + b"v" * 3000 + b"\x02"])
@pytest.mark.parametrize("topic", ["T", "Topic" * 20])
def test_a_record_whose_sectors_were_not_all_written_is_no_record(build_at, topic, properties, start, body):
    whole = bytes(start) + build_at(topic, 1, 2, start, body, properties)
    sectors = [whole[at : at + 512] for at in range(0, len(whole), 512)]
    for missing in range(1, 1 << min(len(sectors), 8)):
        torn = b"".join(
            bytes(len(sector)) if number < 8 and missing >> number & 1 else sector
            for number, sector in enumerate(sectors)
        )
        found = scan(torn, at=start)[0]
        assert not found or torn == whole, f"missing {missing:b}: {found}"
