"""Reads delayed messages from pull answers: due times, targets, ids. Anything but a record is refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedule_records import HOST, V6, record

from gantry_wire.errors import MalformedRecord
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.records.message_record import scan_records
from scheduler.index import entries
from scheduler.index.entries import (
    NEVER_MS,
    PARKED,
    TIMER,
    entry_of,
    key_of,
    queue_of,
    scan_items,
    source_of,
)
from scheduler.system_names import PARKED_TOPIC
from scheduler.terms.levels import DEFAULT_LEVELS, level_durations_ms

LEVELS = (1000, 5000)


def only(data, source):
    (item,) = scan_items(data)
    return entry_of(item, source, LEVELS)


def test_a_level_message_is_due_its_level_after_it_was_stored():
    data = record(
        SCHEDULE_TOPIC, 1, 7, 4096, store_ms=100, REAL_TOPIC="orders", REAL_QID="3", UNIQ_KEY="U", KEYS="a b"
    )
    entry = only(data, 1)
    assert msgspec.structs.astuple(entry)[:7] == (5100, key_of(1, 7), 4096, "orders", 3, b"U", b"a b")
    assert (entry.source, entry.offset) == (1, 7)


@pytest.mark.parametrize("more", [{}, {"KEYS": "a"}], ids=["fast path", "slow path"])
def test_a_message_with_its_own_delay_ignores_the_levels(more):
    named = {"UNIQ_KEY": "U", **more, "REAL_TOPIC": "orders", "REAL_QID": "3", "__GANTRY_DELAY_MS": "77"}
    entry = only(record(SCHEDULE_TOPIC, 1, 7, 4096, store_ms=100, **named), 1)
    assert (entry.due_ms, entry.topic, entry.queue_id) == (177, "orders", 3)


def test_an_instant_is_due_at_its_property():
    data = record(TIMER_TOPIC, 0, 7, store_ms=100, REAL_TOPIC="orders", REAL_QID="3", TIMER_OUT_MS="123456")
    assert only(data, TIMER).due_ms == 123456
    assert only(data, TIMER).is_absolute
    delay = record(TIMER_TOPIC, 0, 7, REAL_TOPIC="orders", TIMER_OUT_MS="123456", TIMER_DELAY_MS="5")
    assert not only(delay, TIMER).is_absolute
    assert only(record(PARKED_TOPIC, 0, 1, REAL_TOPIC="t"), PARKED).due_ms == NEVER_MS


def test_a_cancel_record_names_its_target():
    entry = only(
        record(TIMER_TOPIC, 0, 7, TIMER_OUT_MS="5", TIMER_DEL_UNIQKEY="orders+U", UNIQ_KEY="V"), TIMER
    )
    assert entry.cancels == b"orders+U"


@pytest.mark.parametrize("text", ["", "x", "-5", "9" * 30])
def test_an_unreadable_time_or_queue_means_due_at_once_in_queue_0(text):
    more = {"TIMER_OUT_MS": text, "REAL_QID": text} if text else {}
    entry = only(record(TIMER_TOPIC, 0, 7, REAL_TOPIC="t", **more), TIMER)
    assert (entry.due_ms, entry.queue_id) == (0, 0)


@given(st.lists(st.tuples(st.binary(max_size=50), st.booleans(), st.integers(0, 2**40)), max_size=8))
def test_entries_equal_those_of_whole_records(messages):
    data = b"".join(
        record(
            TIMER_TOPIC,
            0,
            n,
            position,
            store_ms=n * 3,
            body=body,
            born=V6 if is_v6 else HOST,
            UNIQ_KEY=f"K{n}",
        )
        for n, (body, is_v6, position) in enumerate(messages)
    )
    whole = [
        (one.queue_offset, one.position, one.store_timestamp, one.properties) for one in scan_records(data)
    ]
    assert [tuple(item) for item in scan_items(data)] == whole


@given(st.integers(1, 200))
def test_a_cut_record_is_malformed(cut):
    data = record(TIMER_TOPIC, 0, 1, UNIQ_KEY="U", body=b"x" * 200)
    with pytest.raises(MalformedRecord):
        list(scan_items(data[:-cut]))


def test_sources_and_queues_map_to_each_other():
    for source in (0, 17, TIMER, PARKED):
        assert source_of(*queue_of(source)) == source
    assert source_of("orders", 0) is None
    assert source_of(TIMER_TOPIC, 1) is None
    assert source_of(SCHEDULE_TOPIC, 1024) is None


def test_levels_parse_as_the_store_writes_them():
    assert level_durations_ms("1s 2m 3h 1d") == (1000, 120_000, 10_800_000, 86_400_000)
    assert len(level_durations_ms(DEFAULT_LEVELS)) == 18
    for text in ("", "1x", "s", "1s,2s"):
        with pytest.raises(ValueError, match="not a list of delay levels"):
            level_durations_ms(text)


@given(
    st.lists(
        st.sampled_from(
            [
                ("UNIQ_KEY", "a"), ("UNIQ_KEY", "b"), ("KEYS", "k"), ("x", "y"), ("REAL_TOPIC", "made up"), ("REAL_TOPIC", "orders"),
                ("REAL_QID", "3"), ("REAL_QID", "x"), ("TIMER_OUT_MS", "77"), ("TIMER_OUT_MS", "late"), ("TIMER_DELAY_MS", "5"),
                ("TIMER_DEL_UNIQKEY", "t+u"), ("UNIQ_KEY", "c\x01d"),
            ]
        ),
        max_size=7,
    ),
    st.sampled_from([0, 1, TIMER, PARKED]),
    st.booleans(),
)  # fmt: skip
def test_the_fast_path_reads_the_same_properties_as_the_slow_path(front, source, is_usual):
    front = (
        [*front, ("REAL_TOPIC", "orders"), ("REAL_QID", "12"), ("TIMER_OUT_MS", "99")] if is_usual else front
    )
    properties = "".join(f"{name}\x01{value}\x02" for name, value in front).encode()
    item = (7, 4096, 100, properties)
    short = entries._plain_entry(item, source, LEVELS)
    if short is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(entries, "_plain_entry", lambda *_: None)
            assert entry_of(item, source, LEVELS) == short


def test_properties_of_clients_and_stores_take_the_fast_path():
    ours = b"MSG_REGION\x01r\x02REAL_TOPIC\x01orders\x02REAL_QID\x013\x02"
    item = (
        7,
        4096,
        100,
        b"UNIQ_KEY\x01U\x02TAGS\x01t\x02TIMER_DELIVER_MS\x019\x02" + ours + b"TIMER_OUT_MS\x0177\x02",
    )
    assert entries._plain_entry(item, TIMER, LEVELS) == entry_of(item, TIMER, LEVELS)
    assert (
        entries._plain_entry((7, 4096, 100, b"UNIQ_KEY\x01U\x02DELAY\x012\x02" + ours), 1, LEVELS) is not None
    )
