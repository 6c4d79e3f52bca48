import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_store.sending.idempotency import (
    ENTRY_BYTES,
    Remembered,
    Verdict,
    Window,
    content_crc,
    key_digest,
)


def entry(key: int, ms: int, position: int, crc: int = 1) -> Remembered:
    return Remembered(key_digest("t", str(key)), crc, ms, position, position // 10, 0)


def test_a_key_is_new_then_a_repeat_then_new_again_after_the_window():
    window = Window(1000, 16)
    assert window.judge(key_digest("t", "1"), 1, 100)[0] is Verdict.NEW
    window.remember(entry(1, 100, 10))
    assert window.judge(key_digest("t", "1"), 1, 1099) == (Verdict.REPEAT, entry(1, 100, 10))
    assert window.judge(key_digest("t", "1"), 2, 1099)[0] is Verdict.CONFLICT
    assert window.judge(key_digest("t", "1"), 1, 1100)[0] is Verdict.NEW


def test_topics_do_not_share_keys():
    assert key_digest("a", "1") != key_digest("b", "1")
    assert key_digest("ab", "c") != key_digest("a", "bc")


def test_when_the_window_is_full_the_oldest_key_is_forgotten():
    window = Window(1 << 40, 16)
    for key in range(20):
        window.remember(entry(key, key, key))
    assert len(window) == 16
    assert window.forgotten_early == 4
    assert window.find(key_digest("t", "3"), 20) is None
    assert window.find(key_digest("t", "4"), 20) is not None


def test_content_is_the_same_whatever_the_order_and_the_attempt():
    one = content_crc(5, {"a": "1", "TAGS": "x", "UNIQ_KEY": "A", "CLUSTER": "c", "traceparent": "p"})
    assert one == content_crc(5, {"TAGS": "x", "a": "1", "UNIQ_KEY": "B"})
    assert one != content_crc(6, {"TAGS": "x", "a": "1"})
    assert one != content_crc(5, {"TAGS": "y", "a": "1"})
    assert one != content_crc(5, {"TAGS": "x", "a": "1", "DELAY": "1"})


def test_a_remembered_key_costs_at_most_100_bytes():
    window = Window(1 << 40, 100_000)
    for key in range(100_000):
        window.remember(entry(key, key, key))
    size = sys.getsizeof(window._ring) + window._slots.nbytes
    assert size / 100_000 <= 100


def test_replay_of_what_is_known_changes_nothing():
    window = Window(1000, 16)
    window.remember(entry(1, 100, 10))
    window.remember(entry(1, 100, 10))
    assert len(window) == 1


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40), st.booleans()), max_size=200),
    st.integers(1, 20),
    st.integers(20, 200),
)
def test_the_window_agrees_with_a_plain_dictionary(steps, keys_max, window_ms):
    window = Window(window_ms, keys_max)
    order: list[Remembered] = []
    now = 1000
    for number, (key, passed, asks) in enumerate(steps):
        now += passed
        digest = key_digest("t", str(key))
        live = [old for old in order[-keys_max:] if old.store_ms > now - window_ms]
        known = [old for old in live if old.digest == digest]
        found = window.find(digest, now)
        # Replaced entries leave ghosts that occupy a place until their time is over: fewer keys may be
        # remembered, never others.
        assert found is None or found == known[-1]
        assert found is not None or not known or len(order) > keys_max
        if not asks:
            new = entry(key, now, 10 + number, crc=number)
            window.remember(new)
            order.append(new)
            assert window.find(digest, now) == new
        assert len(window) <= keys_max


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(0, 50))
def test_packed_entries_are_those_from_a_number_on_in_order(count, first):
    window = Window(1 << 40, 16)
    for key in range(count):
        window.remember(entry(key, key, key * 100))
    packed = window.packed(first)
    start = max(first, window.first)
    positions = [
        int.from_bytes(packed[at + 28 : at + 36], "big") for at in range(0, len(packed), ENTRY_BYTES)
    ]
    assert positions == [number * 100 for number in range(start, count)]


@pytest.mark.parametrize("cut", [0, 5, 10])
def test_a_cut_tail_is_forgotten(cut):
    window = Window(1 << 40, 16)
    for key in range(10):
        window.remember(entry(key, key, key))
    window.forget_from(cut)
    assert len(window) == cut
    assert [window.find(key_digest("t", str(key)), 10) is not None for key in range(10)] == [
        key < cut for key in range(10)
    ]
