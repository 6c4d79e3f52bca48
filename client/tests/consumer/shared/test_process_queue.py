"""The commit offset is that of the first unfinished message, whatever the order in which messages finish."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st
from received import received

from gantrymq.consumer.shared.flow import FlowLimits, too_much
from gantrymq.consumer.shared.process_queue import LOCK_LIVES_SECONDS, ProcessQueue
from gantrymq.message import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 0)


def queue_from(offset: int = 0) -> ProcessQueue:
    return ProcessQueue(QUEUE, offset, 0.0)


@given(
    st.integers(0, 100),
    st.lists(st.lists(st.integers(1, 4), max_size=5), max_size=5),
    st.randoms(use_true_random=False),
)
def test_the_commit_offset_is_the_first_unfinished_offset(
    start: int, pulls: list[list[int]], rng: random.Random
) -> None:
    held, undone, next_offset = queue_from(start), [], start
    for gaps in pulls:
        offsets = [next_offset + gap for gap in itertools.accumulate(gaps)]
        next_offset = (offsets[-1] if offsets else next_offset) + 2
        messages = [received(offset) for offset in offsets]
        held.put(messages, next_offset)
        undone += messages
        rng.shuffle(undone)
        done, undone = undone[: len(undone) // 2], undone[len(undone) // 2 :]
        committed = held.remove(done)
        assert committed == min([message.queue_offset for message in undone], default=next_offset)
        assert len(held) == len(undone)
        assert held.bytes == sum(message.record.size for message in undone)
    assert held.remove(undone) == next_offset
    assert (len(held), held.bytes, held.span) == (0, 0, 0)


def test_a_message_that_is_done_twice_counts_once() -> None:
    held = queue_from()
    messages = [received(n) for n in range(4)]
    held.put(messages, 4)
    for _ in range(2):
        assert held.remove(messages[2:3]) == 0
        assert len(held) == 3
    assert held.remove(messages[:2]) == 3
    assert held.remove(messages[:3]) == 3
    assert len(held) == 1


def test_skipped_messages_are_committed_once_nothing_waits() -> None:
    held = queue_from(10)
    held.put((), 25)
    assert held.commit_offset == 25
    message = received(25)
    held.put([message], 40)
    assert held.commit_offset == 25
    assert held.remove([message]) == 40


def test_a_serial_consumer_takes_from_the_front_until_it_commits() -> None:
    held = queue_from()
    held.put([received(n) for n in range(3)], 3)
    assert [message.queue_offset for message in held.take(2)] == [0, 1]
    held.give_back()
    assert [message.queue_offset for message in held.take(2)] == [0, 1]
    assert held.commit() == 2
    assert [message.queue_offset for message in held.take(9)] == [2]
    assert held.commit() == 3


def test_a_lock_is_trusted_for_half_of_its_time_at_the_broker() -> None:
    held = queue_from()
    assert not held.has_valid_lock(1.0)
    held.is_locked, held.last_locked = True, 100.0
    assert held.has_valid_lock(100.0 + LOCK_LIVES_SECONDS - 1)
    assert not held.has_valid_lock(100.0 + LOCK_LIVES_SECONDS)


def test_each_limit_stops_the_pull_and_is_named() -> None:
    held = queue_from()
    messages = [received(n, b"x" * 100) for n in range(10)]
    held.put(messages, 10)
    wide = FlowLimits(10, 10**6, 9)
    assert too_much(held, wide, orderly=False) is None
    assert "messages" in (too_much(held, FlowLimits(9, 10**6, 100), orderly=False) or "")
    assert "bytes" in (too_much(held, FlowLimits(100, 500, 100), orderly=False) or "")
    assert "behind" in (too_much(held, FlowLimits(100, 10**6, 8), orderly=False) or "")
    assert too_much(held, FlowLimits(100, 10**6, 8), orderly=True) is None
    held.remove(messages[1:])
    assert too_much(held, FlowLimits(1, 10**6, 8), orderly=False) is not None, (
        "one slow message holds the span"
    )
