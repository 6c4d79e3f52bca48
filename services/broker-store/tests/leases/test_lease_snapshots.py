"""A snapshot of the leases taken in parts, during any activity, and the rest of the log make the whole state."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker_store.leases import subscriptions
from broker_store.leases.note_bodies import (
    ACKS_TOPIC,
    GroupFilter,
    LeaseNote,
    QueueNote,
    decode_snapshot,
    encode_note,
)
from broker_store.leases.subscriptions import Subscriptions
from broker_store.settling.decided.mark import whole_mark
from gantry_wire.records.message_record import build_record

QUEUES = 2
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))

offsets = st.integers(0, 9)
queue_note = st.one_of(
    st.builds(
        lambda queue, at, count: QueueNote(queue, done=[at, count]),
        st.integers(0, QUEUES),
        offsets,
        st.integers(1, 9),
    ),
    st.builds(
        lambda queue, at, n: QueueNote(queue, failed=[at, 1, n]),
        st.integers(0, QUEUES),
        offsets,
        st.integers(1, 5),
    ),
    st.builds(QueueNote, st.integers(0, QUEUES), offsets),
)
note = st.one_of(
    st.builds(
        lambda group, parts: LeaseNote(group, "t", parts),
        st.sampled_from("gh"),
        st.lists(queue_note, min_size=1, max_size=3),
    ),
    st.builds(lambda group: LeaseNote(group, "", gone=True), st.sampled_from("gh")),
    st.builds(lambda tag: LeaseNote("g", "t", filter=GroupFilter("TAG", tag)), st.sampled_from("ab")),
)
note_without_failures = note.filter(lambda one: not any(part.failed for part in one.queues))
"""Notes that may concern a message whose outcome is placed: no lease of it expires then."""
FLUSH = "flush"
step = st.one_of(note, st.none())
"""A note that becomes visible, or the next part of the snapshot."""


def replay(state: Subscriptions, log: list[LeaseNote], begin: int) -> None:
    for position in range(begin, len(log)):
        body = encode_note(log[position])
        record = build_record(ACKS_TOPIC.encode(), 0, position, position, body, b"", 0, 0, 0, HOST, 0, HOST)
        scanned = (position, len(record), 0, 0, 0, 0, 0, ACKS_TOPIC.encode(), b"")
        state.take(scanned, lambda _position, _size, record=record: record)  # type: ignore[arg-type]


def content(state: Subscriptions) -> dict:
    """Return the state of each queue, without its source."""
    topics = decode_snapshot(b"".join(state.slices(0))).topics
    queues = {
        (one.group, one.topic, queue.queue): (queue.next, queue.undone, queue.failed)
        for one in topics
        for queue in one.queues
    }
    filters = {(one.group, one.topic): one.filter for one in topics}
    return {**queues, **filters}


def done(at: int, count: int) -> LeaseNote:
    return LeaseNote("g", "t", [QueueNote(0, done=[at, count])])


@settings(deadline=None, max_examples=200)
@example([done(0, 6)], [None, done(7, 3), LeaseNote("g", "t", [QueueNote(0, 5)])], 0)
@given(st.lists(note, max_size=12), st.lists(step, max_size=30), st.integers(0, 5))
def test_parts_of_different_moments_and_the_log_are_the_state_at_its_end(before, during, back):
    live, log = Subscriptions(), list[LeaseNote]()

    def appear(one: LeaseNote) -> None:
        live.applied_at(len(log))
        log.append(one)
        live.apply(one)

    for one in before:
        appear(one)
    covered = max(0, len(log) - back)
    parts, slices = [], live.slices(covered)
    for one in during:
        if one is None:
            parts += [part for part in [next(slices, None)] if part is not None]
        else:
            appear(one)
    parts += slices
    found = Subscriptions()
    assert found.load(b"".join(parts), covered)
    replay(found, log, covered)
    assert content(found) == content(live)
    again = Subscriptions()
    assert again.load(b"".join(found.slices(len(log))), len(log))
    replay(again, log, covered)
    assert content(again) == content(live)


@settings(deadline=None, max_examples=200)
@example([("g", 0), LeaseNote("g", "t", [QueueNote(0, 0)])])
@example([LeaseNote("g", "t", [QueueNote(0, 0)]), ("g", 0), FLUSH])
@example([("g", 0), LeaseNote("g", "", gone=True)])
@given(
    st.lists(
        st.one_of(note_without_failures, st.tuples(st.sampled_from("gh"), offsets), st.just(FLUSH)),
        max_size=20,
    )
)
def test_outcomes_that_are_visible_after_what_follows_them_leave_the_state_of_their_log(steps):
    """A note is visible at once, and an outcome with the next flush."""
    live, rebuilt, waiting = Subscriptions(), Subscriptions(), list[tuple[str, int, int]]()
    for position, one in enumerate([*steps, FLUSH]):
        if isinstance(one, LeaseNote):
            live.applied_at(position)
            live.apply(one)
            replay(rebuilt, [LeaseNote("", "")] * position + [one], position)
        elif one == FLUSH:
            for group, offset, at in waiting:
                live.decided(("t", 0, group), [offset], at)
            waiting.clear()
        else:
            group, offset = one
            waiting.append((group, offset, position))
            mark = whole_mark(("t", 0, group), offset, 1, 1)
            rebuilt.take((position, 100, 0, 0, 0, 0, 0, b"GANTRY_SYS_SETTLED", mark), lambda *_: b"")
    assert content(live) == content(rebuilt)


def test_many_queues_are_many_parts():
    state = Subscriptions()
    count = 3 * subscriptions.QUEUES_PER_SLICE + 1
    state.apply(LeaseNote("g", "t", [QueueNote(queue, done=[2, 3]) for queue in range(count)]))
    parts = list(state.slices(0))
    assert len(parts) == 6
    loaded = Subscriptions()
    assert loaded.load(b"".join(parts), 0)
    assert content(loaded) == content(state)
    assert len(content(loaded)) == count + 1
