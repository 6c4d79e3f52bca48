"""The state that the records of offsets make: replayed, snapshot and dumped."""

import random

import pytest
from structlog.testing import capture_logs

from broker_store.commit.topics import COMMITTED_TOPIC
from broker_store.groups.committed_offsets import OFFSETS_PER_SLICE, CommittedOffsets
from broker_store.groups.offset_rows import DumpPart, OffsetRows, Origin, encode_rows
from broker_store.log.errors import PositionRemoved
from gantry_wire.records.message_record import build_record

HOST = bytes(8)
FILES = Origin("file", "")


class Log:
    """Records at growing positions."""

    def __init__(self):
        self.records = []

    def put(self, state, number, rows, dump=None, origin=None):
        """Store a record, and apply it. Returns its position."""
        position = 1000 * (len(self.records) + 1)
        content = OffsetRows(number, rows, dump, origin)
        self.records.append((position, encode_rows(content)))
        state.apply(content, position)
        return position

    def replay(self, state, first=0):
        for position, body in self.records:
            if position >= first:
                state.take(*scanned(position, body))
        return state


def scanned(position, body, topic=COMMITTED_TOPIC):
    record = build_record(topic.encode(), 0, 0, position, body, b"", 0, 0, 0, HOST, 0, HOST)
    return (position, len(record), 0, 0, 0, 0, 0, topic.encode(), b""), lambda _position, _size: record


def content(state):
    return {
        (topic, group, queue_id): offset
        for topic, group, of_queues in state.all()
        for queue_id, offset in of_queues.items()
    }


def whole(state):
    return content(state), state.number, state.origin, state.pin()


def saved(state, position=0):
    return b"".join(state.slices(position))


def test_a_record_sets_moves_and_forgets_offsets():
    state, log = CommittedOffsets(), Log()
    assert (state.number, state.pin(), content(state)) == (0, None, {})
    first = log.put(state, 1, [("t", "g", {0: 5, 1: 6}), ("t", "h", {0: 1})])
    log.put(state, 2, [("t", "g", {0: 2, 1: None}), ("t", "h", {0: None, 3: None})])
    assert content(state) == {("t", "g", 0): 2}
    assert (state.find("g", "t", 0), state.find("g", "t", 1), state.find("x", "t", 0)) == (2, None, None)
    assert (state.number, state.pin()) == (2, first)
    assert whole(log.replay(CommittedOffsets())) == whole(state)


def test_a_complete_dump_releases_the_log_before_it_and_one_that_lacks_a_part_does_not():
    state, log = CommittedOffsets(), Log()
    begin = log.put(state, 1, [("t", "g", {0: 1})])
    log.put(state, 2, [("t", "g", {0: 2})], DumpPart(2, 1, is_last=False))
    log.put(state, 4, [("t", "i", {0: 2})], DumpPart(2, 3, is_last=True), FILES)
    assert (state.pin(), state.origin) == (begin, ("", ""))
    dump = log.put(state, 5, [("t", "g", {0: 2})], DumpPart(5, 1, is_last=False))
    assert state.pin() == begin
    log.put(state, 6, [("t", "g", {0: 9})])
    log.put(state, 7, [("t", "i", {0: 2})], DumpPart(5, 2, is_last=True), FILES)
    assert (state.pin(), state.origin) == (dump, FILES)
    again = log.replay(CommittedOffsets(), first=dump)
    assert whole(again) == whole(state)


def test_a_later_dump_without_files_keeps_what_the_log_has_taken_over():
    state, log = CommittedOffsets(), Log()
    log.put(state, 1, [], DumpPart(1, 1, is_last=True), FILES)
    last = log.put(state, 2, [], DumpPart(2, 1, is_last=True))
    assert (state.pin(), state.origin) == (last, FILES)


def test_a_dump_of_files_that_lacks_its_end_is_known_until_a_dump_follows():
    state, log = CommittedOffsets(), Log()
    log.put(state, 1, [("t", "g", {0: 1})])
    assert state.taking is None
    log.put(state, 2, [("t", "g", {0: 2})], DumpPart(2, 1, is_last=False), FILES)
    log.put(state, 3, [("t", "h", {0: 2})], DumpPart(2, 2, is_last=False), FILES)
    again = CommittedOffsets()
    assert again.load(saved(state), 3000)
    assert (state.taking, again.taking, state.origin) == (FILES, FILES, ("", ""))
    assert log.replay(CommittedOffsets()).taking == FILES
    log.put(again, 4, [("t", "i", {0: 2})], DumpPart(2, 3, is_last=True), FILES)
    assert (again.taking, again.origin) == (None, FILES)
    log.put(state, 5, [], DumpPart(5, 1, is_last=False))
    assert (state.taking, state.origin) == (None, ("", ""))


def test_a_snapshot_and_the_log_above_any_place_give_the_whole_state():
    """A snapshot may have some of what lies above the place that it covers."""
    dice, state, log = random.Random(1), CommittedOffsets(), Log()
    snapshots = []
    dump, part = 0, 0
    for number in range(1, 120):
        rows = [
            (topic, group, {queue_id: dice.choice((None, number))})
            for topic in "tu"
            for group in "gh"
            for queue_id in range(2)
            if dice.random() < 0.5
        ]
        place = None
        if dice.random() < 0.4:
            dump, part = (dump, part + 1) if dump and dice.random() < 0.9 else (number, 1)
            place = DumpPart(dump, part, is_last=dice.random() < 0.3)
        covered = 1000 * (len(log.records) + 1 - dice.randrange(4))
        log.put(state, number, rows, place, FILES if place and place.is_last else None)
        dump = 0 if place and place.is_last else dump
        snapshots.append((covered, saved(state)))
    for covered, data in snapshots:
        again = CommittedOffsets()
        assert again.load(data, covered)
        assert whole(log.replay(again, covered)) == whole(state)


def test_a_large_state_is_saved_in_parts_while_it_changes():
    state, log = CommittedOffsets(), Log()
    log.put(state, 1, [(f"t{n}", "g", dict.fromkeys(range(8), n)) for n in range(OFFSETS_PER_SLICE)])
    parts = state.slices(2000)
    data = [next(parts), next(parts)]
    log.put(
        state,
        2,
        [
            ("t0", "g", dict.fromkeys(range(8))),
            (f"t{OFFSETS_PER_SLICE - 1}", "g", {0: 7}),
            ("u", "g", {0: 7}),
        ],
    )
    log.put(state, 3, [(f"t{OFFSETS_PER_SLICE - 2}", "g", dict.fromkeys(range(8)))])
    data += parts
    assert len(data) > 5
    again = CommittedOffsets()
    assert again.load(b"".join(data), 2000)
    assert content(log.replay(again, 2000)) == content(state)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"\n", b'{"number":1,"origin":["",""],"begin":null,"dump":null}\n[1]']
)
def test_a_snapshot_of_another_format_is_refused(data):
    state = CommittedOffsets()
    assert not state.load(data, 0)
    assert whole(state) == whole(CommittedOffsets())


def test_an_adopted_snapshot_gives_what_another_program_took_from_the_log_and_keeps_the_log_until_it_is_written_again():
    state, log = CommittedOffsets(), Log()
    log.put(state, 1, [("t", "lost", {0: 5}), ("t", "g", {0: 1})])
    log.put(state, 2, [("t", "g", {0: 2})])
    again = CommittedOffsets()
    again.adopt(saved(state))
    log.replay(again, first=2000)
    assert content(again) == {("t", "lost", 0): 5, ("t", "g", 0): 2}
    assert again.pin() == 0
    with capture_logs() as logs:
        CommittedOffsets().adopt(b"x")
    assert [line["event"] for line in logs] == ["a snapshot of committed offsets cannot be read"]


def test_a_record_that_cannot_be_read_is_reported_and_changes_nothing():
    state = CommittedOffsets()
    bad, read = scanned(1000, b"not JSON")

    def removed(_position, _size):
        raise PositionRemoved(1000)

    with capture_logs() as logs:
        state.take(bad, read)
        state.take(bad, removed)
    assert (state.unreadable, whole(state)) == (2, whole(CommittedOffsets()))
    assert len(logs) == 2


def test_only_records_of_its_topic_count():
    state = CommittedOffsets()
    assert state.wants(COMMITTED_TOPIC, b"")
    assert not state.wants("orders", b"")
    state.take(*scanned(1000, encode_rows(OffsetRows(1, [("t", "g", {0: 1})])), topic="orders"))
    assert (state.number, content(state)) == (0, {})
