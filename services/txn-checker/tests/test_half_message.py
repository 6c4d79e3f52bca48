"""Reads a half from its record."""

from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import build_record, decode_record
from txn_checker.half_message import read_half

HOST = pack_host("127.0.0.1", 10911)


def half(born_ms=1_000, stored_ms=2_000, **properties):
    named = {"PGROUP": "pg", "UNIQ_KEY": "U1", "REAL_TOPIC": "orders", "REAL_QID": "3", **properties}
    raw = build_record(
        b"RMQ_SYS_TRANS_HALF_TOPIC",
        0,
        5,
        700,
        b"x",
        format_properties(named),
        0,
        0,
        born_ms,
        HOST,
        stored_ms,
        HOST,
    )
    return read_half(decode_record(raw))


def test_a_half_has_names_place_and_times():
    read = half()
    assert (read.key, read.group, read.topic, read.queue_id) == ("U1", "pg", "orders", 3)
    assert (read.offset, read.position, read.begun_ms, read.stored_ms, read.checks) == (
        5,
        700,
        2_000,
        2_000,
        0,
    )
    assert read.message_id == "7F00000100002A9F00000000000002BC"


def test_our_copy_carries_the_store_time_of_the_first():
    read = half(stored_ms=90_000, TRANSACTION_CHECK_TIMES="3", __GANTRY_BEGUN="2000")
    assert (read.begun_ms, read.stored_ms, read.checks) == (2_000, 90_000, 3)


def test_a_copy_by_another_broker_began_at_the_birth_of_its_message():
    assert half(stored_ms=90_000, TRANSACTION_CHECK_TIMES="3").begun_ms == 1_000


def test_immunity_is_in_seconds_and_garbage_means_none():
    assert half(CHECK_IMMUNITY_TIME_IN_SECONDS="40").immunity_ms == 40_000
    assert half(CHECK_IMMUNITY_TIME_IN_SECONDS="soon").immunity_ms == 0
    assert half(CHECK_IMMUNITY_TIME_IN_SECONDS="-3").immunity_ms == 0
    assert half(TRANSACTION_CHECK_TIMES="9" * 40).checks == 0


def test_without_a_unique_key_the_offset_id_is_the_key():
    read = half(UNIQ_KEY="")
    assert read.key == read.message_id
