"""The record writer: any mix of placements equals records placed one by one; taking back restores everything."""

import errno
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.commit.gathered_rows import GatheredRows
from broker_store.commit.message import Mode
from broker_store.commit.queues import QueueTable
from broker_store.commit.record_writer import Columns, Placed, RecordWriter, Row, whole_row
from broker_store.commit.system_records import PlacedRecord
from broker_store.commit.visible.visible_records import show
from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.errors import DiskFull, LogStopped, RecordTooLarge
from broker_store.log.files.files import make_durable_dirs
from broker_store.log.files.simulated_files import Fault, SimulatedFiles
from broker_store.log.settings import BLANK_BYTES, LogSettings
from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import index_key_hash
from gantry_wire.records.message_record import MAGIC_BLANK, build_record, decode_record, peek_header

HOSTS = (pack_host("127.0.0.1", 4000), pack_host("::1", 4001))
TOPICS = ("orders", "t" * 127, "long" * 40)
"""The last one needs two bytes for its length."""
PREAMBLE_TOPIC = "preamble"
SEGMENT_BYTES = 8 * 1024
"""Most placements of two lie in several segments."""


class Units:
    """The units of one queue, in memory."""

    min_offset = max_offset = 0

    def __init__(self) -> None:
        self.all: list[tuple[int, int, int, int]] = []

    def start_at(self, offset: int) -> None:
        assert offset == 0

    def append(self, offset: int, position: int, size: int, code: int) -> int:
        self.all.append((offset, position, size, code))
        return 0


class NoConfirm:
    def write_confirm(self, position: int) -> None:
        """Nothing is confirmed here."""

    def note_deleted(self, position: int) -> None:
        """Nothing is deleted here."""


class Side:
    """A writer over a log of small segments, whose preamble is one record of its own queue."""

    def __init__(self, store_host: bytes, segment_bytes: int = 64 * 1024) -> None:
        self.files = SimulatedFiles()
        make_durable_dirs(self.files, "/log")
        self.queues = QueueTable(lambda _topic, _id: Units())
        own = self.queues.open(PREAMBLE_TOPIC, 0)
        self.preambles: list[PlacedRecord] = []

        def preamble(position: int) -> list[bytes]:
            text = repr(sorted(self.queues.next_offsets().items())).encode()
            return [
                build_record(
                    b"preamble", 0, own.next_offset, position, text, b"", 0, 0, 1, HOSTS[0], 1, HOSTS[0]
                )
            ]

        def on_preamble(position: int, record: bytes) -> None:
            placed = PlacedRecord(own, position, len(record), Mode.SYNC)
            placed.place(self.writer)
            self.preambles.append(placed)

        settings = LogSettings(segment_bytes=segment_bytes, prezero_bytes=0)
        self.log = CommitLog(self.files, "/log", settings, preamble, on_preamble, NoConfirm())
        self.log.start_at(0, 0)
        self.writer = RecordWriter(self.log, store_host)
        self.writer.begin(1_700_000_000_000)

    def counters(self) -> dict[tuple[str, int], tuple[int, int]]:
        return {(q.topic, q.queue_id): (q.next_offset, q.put_bytes) for q in self.queues.all()}

    def content(self) -> bytes:
        self.writer.write()
        self.log.set_visible(self.log.written_end, self.log.written_end)
        parts, at = [], self.log.min_position
        for segment in self.log.segments:
            parts.append(segment.file.pread(min(self.log.written_end, segment.end) - segment.start, 0))
            at = segment.end
        assert at >= self.log.written_end
        return b"".join(parts)


numbers = st.integers(0, 2**31 - 1)
messages = st.tuples(
    st.sampled_from(TOPICS), st.integers(0, 2), st.binary(max_size=300), st.binary(max_size=60), numbers, numbers,
    st.integers(0, 2**60), st.integers(0, 16), st.integers(0, 2**60), numbers,
    st.one_of(st.none(), st.just(""), st.from_regex("[0-9A-F]{4,8}", fullmatch=True)),
    st.one_of(st.none(), st.just(""), st.sampled_from(["k", "k1 k2", " "])), st.one_of(st.none(), numbers),
)  # fmt: skip
"""Topic, queue id, body, properties, flag, system flag, born time, reconsume times, prepared position, code, unique key, keys, opaque."""
rows = st.tuples(st.just("rows"), st.sampled_from(HOSTS), st.lists(messages, min_size=1, max_size=6))
columns = st.tuples(
    st.just("columns"), st.sampled_from(HOSTS), st.lists(messages, min_size=1, max_size=6), st.booleans()
)
placements = st.lists(st.one_of(rows, columns), max_size=8)


def row_of(side: Side, message):
    (
        topic,
        queue_id,
        body,
        properties,
        flag,
        sys_flag,
        born_ms,
        times,
        prepared,
        code,
        unique,
        keys,
        opaque,
    ) = message
    queue = side.queues.open(topic, queue_id)
    return whole_row(
        queue, body, properties, flag, sys_flag, born_ms, times, prepared, code, unique, keys, opaque
    )


def place_rows(side: Side, rows: list[Row], host: bytes) -> list[Placed]:
    return side.writer.place(rows, sum(len(piece) for row in rows for piece in row[8]), host)


def columns_of(side: Side, host: bytes, batch, *, is_even: bool) -> Columns:
    first = batch[0]
    if is_even:
        batch = [first] * len(batch)
    queue = side.queues.open(first[0], first[1])
    return Columns(
        queue, first[5], first[6], host, first[7], [message[4] for message in batch], [message[2] for message in batch],
        [message[3] for message in batch],
    )  # fmt: skip


@given(st.sampled_from(HOSTS), placements)
def test_any_mix_of_rows_and_columns_equals_records_built_and_placed_one_by_one(store_host, mix):
    together, alone = Side(store_host), Side(store_host)
    index, expected_index = [], []
    for kind, host, batch, *is_even in mix:
        if kind == "rows":
            placed = place_rows(together, [row_of(together, message) for message in batch], host)
            show(placed, together.writer.store_ms, index, None)
            assert [row[7] for row in placed] == [message[12] for message in batch]
            fields = batch
        else:
            given_columns = columns_of(together, host, batch, is_even=is_even[0])
            first = batch[0]
            fields = [
                (first[0], first[1], body, text, flag, first[5], first[6], first[7], 0, 0, None, None, None)
                for flag, body, text in zip(*given_columns[5:], strict=True)
            ]
            done = together.writer.place_columns(given_columns)
            for number, (position, size) in enumerate(zip(done.positions, done.sizes, strict=True)):
                given_columns.queue.units.append(done.first_offset + number, position, size, 0)
        for (
            topic,
            queue_id,
            body,
            text,
            flag,
            sys_flag,
            born_ms,
            times,
            prepared,
            code,
            unique,
            keys,
            _,
        ) in fields:
            queue = alone.queues.open(topic, queue_id)
            size = len(build_record(topic.encode(), 0, 0, 0, body, text, 0, 0, 0, host, 0, store_host))
            position = alone.log.reserve(size)
            record = build_record(
                topic.encode(), queue_id, queue.next_offset, position, body, text, flag, sys_flag, born_ms, host,
                alone.writer.store_ms, store_host, times, prepared,
            )  # fmt: skip
            assert decode_record(record).position == position
            alone.log.put(record)
            queue.units.append(queue.next_offset, position, size, code)
            if unique:
                expected_index.append((index_key_hash(topic, unique), position, alone.writer.store_ms))
            store_ms = alone.writer.store_ms
            expected_index += [
                (index_key_hash(topic, word), position, store_ms) for word in (keys or "").split()
            ]
            queue.next_offset += 1
            queue.put_bytes += size
    assert together.content() == alone.content()
    assert together.counters() == alone.counters()
    assert index == expected_index
    for queue in together.queues.all():
        assert queue.units.all == alone.queues.open(queue.topic, queue.queue_id).units.all


@given(placements, placements)
def test_a_batch_that_is_taken_back_leaves_offsets_counters_and_log_as_before_it(before, taken_back):
    side = Side(HOSTS[0], SEGMENT_BYTES)
    place_all(side, before)
    side.writer.write()
    counters, end, segments = side.counters(), side.log.end, len(side.log.segments)
    undone: list[tuple[int, object]] = []
    numbered = count()
    side.writer.when_taken_back(lambda: undone.append((next(numbered), side.counters())))
    place_all(side, taken_back)
    is_any = side.log.end > end
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "log"))
    if is_any:
        with pytest.raises(DiskFull):
            side.writer.write()
        now = {queue: now for queue, now in side.counters().items() if queue in counters or now != (0, 0)}
        assert now == counters
        assert (side.log.end, len(side.log.segments)) == (end, segments)
        assert len(undone) == 1
    side.files.faults.clear()
    row = row_of(side, ("orders", 0, b"x", b"", 0, 0, 0, 0, 0, 0, "", None, None))
    place_rows(side, [row], HOSTS[0])
    side.writer.write()
    place_rows(side, [row], HOSTS[0])
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "log"))
    with pytest.raises(DiskFull):
        side.writer.write()
    assert len(undone) == is_any, "it is called once, and for its own batch only"


def place_all(side: Side, mix) -> None:
    for kind, host, batch, *is_even in mix:
        if kind == "rows":
            place_rows(side, [row_of(side, message) for message in batch], host)
        else:
            side.writer.place_columns(columns_of(side, host, batch, is_even=is_even[0]))


@given(placements)
def test_each_placement_lies_in_one_segment_and_the_next_segment_begins_with_its_preamble(mix):
    side = Side(HOSTS[0], SEGMENT_BYTES)
    for placement in mix:
        place_all(side, [placement])
        last = side.log.segments[-1]
        assert last.start <= side.log.end <= last.end - BLANK_BYTES
    content, at, records = side.content(), 0, []
    for segment in side.log.segments:
        assert decode_record(content, segment.start).topic == PREAMBLE_TOPIC.encode()
    while at < len(content):
        size, magic = peek_header(content, at)[:2]
        if magic != MAGIC_BLANK:
            records.append(decode_record(content, at))
        at += size
    of_queue: dict[tuple[str, int], list[int]] = {}
    for record in records:
        of_queue.setdefault((record.topic.decode(), record.queue_id), []).append(record.queue_offset)
    assert of_queue == {key: list(range(end)) for key, (end, _) in side.counters().items() if end}


def test_a_placement_without_room_changes_nothing():
    side = Side(HOSTS[0], SEGMENT_BYTES)
    message = ("orders", 0, b"x" * SEGMENT_BYTES, b"", 0, 0, 0, 0, 0, 0, "", None, None)
    small = ("orders", 0, b"x", b"", 0, 0, 0, 0, 0, 0, "", None, None)
    place_rows(side, [row_of(side, small)], HOSTS[0])
    counters, end = side.counters(), side.log.end
    with pytest.raises(RecordTooLarge):
        place_rows(side, [row_of(side, small), row_of(side, message)], HOSTS[0])
    with pytest.raises(RecordTooLarge):
        side.writer.place_columns(columns_of(side, HOSTS[0], [message], is_even=True))
    assert (side.counters(), side.log.end) == (counters, end)
    side.log.stop_for("a test")
    with pytest.raises(LogStopped):
        place_rows(side, [row_of(side, small)], HOSTS[0])
    assert side.counters() == counters


@given(st.lists(messages, max_size=12))
def test_records_become_readable_together_as_one_by_one(batch):
    sides = []
    for at_once in (True, False):
        side, index, arrivals = Side(HOSTS[0]), [], {}
        placed = place_rows(side, [row_of(side, message) for message in batch], HOSTS[0])
        for part in [placed] if at_once else [[record] for record in placed]:
            show(part, 7, index, arrivals)
        units = {(queue.topic, queue.queue_id): queue.units.all for queue in side.queues.all()}
        codes = {(queue.topic, queue.queue_id): codes for queue, codes in arrivals.items()}
        sides.append((index, units, codes))
    assert sides[0] == sides[1]


@given(placements.map(lambda mix: [placement for placement in mix if placement[0] == "rows"]), st.data())
def test_gathered_rows_have_the_bytes_of_rows_placed_one_by_one(mix, data):
    gathered, alone = Side(HOSTS[0], SEGMENT_BYTES), Side(HOSTS[0], SEGMENT_BYTES)
    rows, expected = GatheredRows(gathered.writer), []
    placed = []
    for _, host, batch in mix:
        for message in batch:
            row = row_of(gathered, message)
            rows.add((row,), row[7], host)
            expected += place_rows(alone, [row_of(alone, message)], host)
        if data.draw(st.booleans()):
            placed += rows.finish()
    placed += rows.finish()
    assert [row[1:] for row in placed] == [row[1:] for row in expected]
    assert gathered.content() == alone.content()
    assert gathered.counters() == alone.counters()


def test_gathered_rows_without_room_raise_and_leave_the_others():
    side, alone = Side(HOSTS[0], SEGMENT_BYTES), Side(HOSTS[0], SEGMENT_BYTES)
    large = ("orders", 0, b"x" * SEGMENT_BYTES, b"", 0, 0, 0, 0, 0, 0, "", None, None)
    small = ("orders", 0, b"x", b"", 0, 0, 0, 0, 0, 0, "", None, None)
    rows = GatheredRows(side.writer)
    for message in (small, large, small):
        row = row_of(side, message)
        if message is large:
            with pytest.raises(RecordTooLarge):
                rows.add((row,), row[7], HOSTS[0])
        else:
            rows.add((row,), row[7], HOSTS[0])
    assert len(rows.finish()) == 2
    assert rows.finish() == []
    place_all(alone, [("rows", HOSTS[0], [small, small])])
    assert side.content() == alone.content()
