"""What a delivery drops, and what follows from each answer of the store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.names import HALF_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleStatus
from scheduler.delivering.decisions import (
    RETRY_MS_MAX,
    RETRY_MS_MIN,
    ROLLED,
    Then,
    cancel,
    deliver,
    deliver_all,
    judge,
    move,
    park,
    retry_ms,
)
from scheduler.index.entries import PARKED, TIMER, Entry, key_of
from scheduler.index.settled_ranges import SettledRanges
from scheduler.system_names import PARKED_TOPIC


def entry(source, topic="orders", cancels=b""):
    return Entry(1000, key_of(source, 5), 77, topic, 3, b"U", b"", cancels)


def test_a_delivery_keeps_the_real_topic_and_drops_the_properties_of_the_wait():
    level, timer = deliver(entry(2)), deliver(entry(TIMER))
    assert (level.offset, level.position, level.force) == (5, 77, False)
    assert [(one.topic, one.queue_id, one.body) for one in level.outputs] == [("orders", 3, "item")]
    assert level.outputs[0].drop == ("__GANTRY_DELAY_MS",)
    assert {"TIMER_OUT_MS", "REAL_TOPIC", "REAL_QID"} <= set(timer.outputs[0].drop)
    assert "TIMER_DELIVER_MS" not in timer.outputs[0].drop
    assert deliver(entry(PARKED)).force


def test_half_messages_and_cancel_records_deliver_nothing():
    assert deliver(entry(2, HALF_TOPIC)).outputs == []
    assert deliver(entry(TIMER, cancels=b"t+u")).outputs == []
    assert cancel(entry(2)).outputs == []


def test_a_moved_level_message_becomes_an_instant():
    item = move(entry(2), 9000)
    assert (item.outputs[0].topic, item.outputs[0].set) == (TIMER_TOPIC, {"TIMER_OUT_MS": "9000"})
    assert "DELAY" in item.outputs[0].drop
    assert "DELAY" not in move(entry(2), 9000, ROLLED).outputs[0].drop
    assert item.force


def test_a_parked_message_carries_reason_and_source():
    output = park(entry(2), "unknown\x02Topic").outputs[0]
    assert output.topic == PARKED_TOPIC
    assert output.set["__GANTRY_PARKED_REASON"] == "unknownTopic"
    assert output.set["__GANTRY_PARKED_FROM"] == "SCHEDULE_TOPIC_XXXX:2:5"


@pytest.mark.parametrize(
    ("status", "late_ms", "then"),
    [
        (SettleStatus.SETTLED, 0, Then.DONE),
        (SettleStatus.ALREADY, 0, Then.DONE),
        (SettleStatus.EARLY, -5, Then.LATER),
        (SettleStatus.UNKNOWN_TOPIC, 10, Then.LATER),
        (SettleStatus.UNKNOWN_TOPIC, 1000, Then.PARK),
        (SettleStatus.NOT_WRITABLE, 1000, Then.PARK),
        (SettleStatus.BAD_ITEM, 1000, Then.PARK),
        (SettleStatus.NO_SPACE, 10**9, Then.LATER),
        (SettleStatus.REMOVED, 10, Then.GONE),
        ("aWordOfALaterVersion", 10, Then.LATER),
    ],
)
def test_every_status_has_a_verdict(status, late_ms, then):
    assert judge(status, "", late_ms, 1000).then is then


def test_an_early_message_waits_for_its_time_and_an_error_is_reported():
    assert judge(SettleStatus.EARLY, "", -40.0, 1000).wait_ms == 40
    assert judge(SettleStatus.NOT_WRITABLE, "perm 4", 1, 1000).error == "notWritable: perm 4"


@given(st.floats(0, 1e12))
def test_the_back_off_stays_within_its_bounds(late_ms):
    assert RETRY_MS_MIN <= retry_ms(late_ms) <= RETRY_MS_MAX


@given(st.sets(st.integers(0, 60)))
def test_settled_ranges_hold_exactly_their_offsets(offsets):
    ranges, ordered = [], sorted(offsets)
    for offset in ordered:
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    settled = SettledRanges(ranges)
    assert [n for n in range(62) if settled.holds(n)] == ordered


@pytest.mark.parametrize("source", [2, TIMER, PARKED])
def test_a_batch_delivery_equals_single_deliveries(source):
    entries = [
        entry(source),
        entry(source, "others"),
        entry(source, HALF_TOPIC),
        entry(source, cancels=b"t+u"),
    ]
    assert deliver_all(source, entries, 1000) == [deliver(one) for one in entries]


def test_a_message_sent_ahead_carries_its_due_time_in_store_time():
    one = entry(TIMER)
    assert deliver_all(TIMER, [one], 999.5) == [deliver(one, at_ms=1000)]
    assert deliver_all(TIMER, [one], 999.5, 3600_000.2) == [deliver(one, at_ms=3601_001)]
