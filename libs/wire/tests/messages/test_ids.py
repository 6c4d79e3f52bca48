"""Offset message ids contain a position; unique keys are unique."""

import ipaddress
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedMessageId
from gantry_wire.messages.ids import (
    UniqueIds,
    offset_message_id,
    offset_message_ids,
    pack_host,
    parse_offset_message_id,
    unpack_host,
)

ADDRESSES = st.ip_addresses().filter(lambda ip: ip.version == 4 or ip.ipv4_mapped is None).map(str)
PORTS = st.integers(0, 65535)


@given(ADDRESSES, PORTS, st.integers(0, 2**63 - 1))
def test_an_offset_id_round_trips(ip, port, position):
    host = pack_host(ip, port)
    assert unpack_host(host) == (ip, port)
    text = offset_message_id(host, position)
    assert len(text) == (32 if ipaddress.ip_address(ip).version == 4 else 56)
    assert text == text.upper()
    assert parse_offset_message_id(text) == parse_offset_message_id(text.lower()) == (ip, port, position)


def test_the_documented_id_is_parsed():
    assert offset_message_id(pack_host("10.0.0.1", 10911), 0) == "0A00000100002A9F0000000000000000"


def test_an_ipv4_mapped_address_is_stored_as_ipv4():
    assert pack_host("::ffff:10.0.0.1", 1) == pack_host("10.0.0.1", 1)


@pytest.mark.parametrize(
    "text", ["", "AB", "G" * 32, " " * 32, "A" * 31, "A" * 33, "0A " * 10 + "00", "é" * 32]
)
def test_an_invalid_offset_id_is_refused(text):
    with pytest.raises(MalformedMessageId):
        parse_offset_message_id(text)


@given(st.text(max_size=60))
def test_any_text_is_an_id_or_the_documented_error(text):
    with suppress(MalformedMessageId):
        assert len(parse_offset_message_id(text)) == 3


JULY_MS = 1_783_000_000_000  # 2 July 2026


@pytest.mark.parametrize(("ip", "size"), [("10.0.0.1", 32), ("2001:db8::1", 56)])
def test_unique_ids_have_rocketmqs_format(ip, size):
    text = UniqueIds(ipaddress.ip_address(ip).packed, 0x12345, 0x0A0B0C0D).next(JULY_MS)
    assert len(text) == size
    assert text.startswith(ipaddress.ip_address(ip).packed.hex().upper() + "23450A0B0C0D")
    assert text.endswith("0000")


def test_unique_ids_of_one_millisecond_differ():
    ids = UniqueIds(bytes(4), 1, 1)
    assert len({ids.next(JULY_MS) for _ in range(65536)}) == 65536


@pytest.mark.parametrize(
    ("now_ms", "expected"),
    [
        (1_782_864_000_000, 0),
        (1_782_864_000_001, 1),
        (1_782_863_999_999, 30 * 86_400_000 - 1),
        (1_767_225_600_000, 0),
    ],
)
def test_time_counts_from_the_start_of_the_month(now_ms, expected):
    ids = UniqueIds(bytes(4), 1, 1)
    ids.next(1_785_542_400_000)  # another month first: the month can change in both directions
    assert int(ids.next(now_ms)[20:28], 16) == expected


@given(ADDRESSES, st.lists(st.integers(-1, 2**63 - 1), min_size=1, max_size=6))
def test_batch_ids_equal_single_ids(ip, positions):
    host = pack_host(ip, 10911)
    each = [offset_message_id(host, position) if position >= 0 else "" for position in positions]
    assert offset_message_ids(host, positions) == ",".join(each)
