"""Which groups receive which topics, with the lease tables of their queues. A derived state: known from the log alone.

Acknowledgements, failed deliveries, filters and starts are replayed. Leases are not: after a restart
everything that is not done is due at once. Retention may delete the records of all but filters, which it appends again. Pure.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from broker_store.derived import ReadLog
from broker_store.leases.lease_table.lease_table import LeaseTable
from broker_store.leases.lease_table.runs import Kind
from broker_store.leases.lease_table.stretches import Stretches
from broker_store.leases.note_bodies import (
    ACKS_TOPIC,
    GroupFilter,
    LeaseNote,
    QueueNote,
    QueueSnapshot,
    TopicSnapshot,
    decode_note,
    decode_snapshot,
    encode_topic,
)
from broker_store.log.commit_log.scan import ScannedRecord
from broker_store.settling.decided.mark import MARK, Source, read_mark
from gantry_wire.records.message_record import decode_record

QUEUES_PER_SLICE = 64
"""Queues per part of a snapshot: 0.5 ms with one or two leases each."""

GroupTopic = tuple[str, str]
ALL = GroupFilter()


class QueueLeases:
    """One queue for one group: its table and its last commit."""

    __slots__ = ("applied", "began", "committed", "queue_id", "reasons", "resets", "table")

    def __init__(self, queue_id: int, start: int) -> None:
        self.queue_id = queue_id
        self.table = LeaseTable(start)
        self.committed = -1
        """The committed offset as known here. A different one means that a client moved the group."""
        self.applied = -1
        """Position of the last record that the snapshot includes for this queue."""
        self.began = -1
        """Position of the last start that took effect since the store started. It cancels what precedes it."""
        self.reasons: dict[int, str] = {}
        """Why messages were given back, for their dead letters."""
        self.resets: list[int] = []
        """Starts that are placed in the log and not visible yet."""

    def is_reset(self, offset: int) -> bool:
        """Whether a start that is not visible yet will deliver a message again. Until then nothing is decided about it."""
        return any(start <= offset for start in self.resets)

    def delivered_from(self, offset: int) -> int:
        """Count the messages at or above an offset, and above the low-water mark, that are done or leased."""
        table = self.table
        start, end = max(offset, table.low), table.unseen.next
        unseen = table.unseen.gaps.count(start, end)
        undelivered = sum(
            (run.mask >> max(start - run.first, 0)).bit_count()
            for run in table.runs
            if run.kind is not Kind.LEASED
        )
        return max(end - start, 0) - unseen - undelivered


class Subscription:
    """One group in one topic."""

    __slots__ = ("coming", "filter", "filter_at", "group", "queues", "starting", "topic", "turn")

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.filter = GroupFilter()
        self.filter_at = -1
        """Position of the newest record of the filter. -1: not known, the log may have lost it."""
        self.coming: GroupFilter | None = None
        """The filter that is being logged. In force once the log has it."""
        self.queues: dict[int, QueueLeases] = {}
        self.starting: list[Callable[[], None]] | None = None
        """While the start is being logged: the receives that wait for it. A second start would skip what arrives meanwhile."""
        self.turn = 0
        """The queue with which the next receive begins."""


class Subscriptions:
    """All subscriptions; a Derived."""

    name = "leases"
    topics = frozenset({ACKS_TOPIC})

    def __init__(self) -> None:
        self._all: dict[GroupTopic, Subscription] = {}
        self._applied = -1
        self._dropped: dict[str, int] = {}
        """Deleted groups, with the position of the deletion."""

    def find(self, group: str, topic: str) -> Subscription | None:
        """Return an existing subscription."""
        return self._all.get((group, topic))

    def open(self, group: str, topic: str) -> Subscription:
        """Return the subscription; create it without filter and queues if missing."""
        found = self._all.get((group, topic))
        if found is None:
            found = self._all[(group, topic)] = Subscription(group, topic)
        return found

    def all(self) -> list[Subscription]:
        """Return every subscription."""
        return list(self._all.values())

    def delivered_from(self, group: str, topic: str, queue_id: int, offset: int) -> int:
        """Count what a group that continues at `offset` receives again, beyond its committed offset."""
        subscription = self._all.get((group, topic))
        leases = None if subscription is None else subscription.queues.get(queue_id)
        return 0 if leases is None else leases.delivered_from(offset)

    def of_group(self, group: str) -> list[Subscription]:
        """Return the subscriptions of a group."""
        return [subscription for subscription in self._all.values() if subscription.group == group]

    def drop_group(self, group: str) -> None:
        """Forget a group, with all that precedes the last record that took effect."""
        self._dropped[group] = self._applied
        for subscription in self.of_group(group):
            del self._all[(group, subscription.topic)]

    def applied_at(self, position: int) -> None:
        """Record that the record at a position took effect."""
        self._applied = max(self._applied, position)

    def decided(self, source: Source, offsets: Iterable[int], position: int) -> None:
        """Record that a group is done with messages that were settled for it, by records of which the first is at `position`.

        Some topics wait for a flush and others do not, so a start or a deletion of the group that follows in the log may be
        visible earlier. It cancels the outcome.
        """
        topic, queue_id, group = source
        if position < self._dropped.get(group, -1):
            return
        queue = _replayed(self.open(group, topic), queue_id)
        if position > max(queue.applied, queue.began):
            for offset in offsets:
                queue.table.settle(offset, 1)

    # Derived

    def wants(self, topic: str, properties: bytes) -> bool:
        """Select acknowledgements, and outcomes of messages that were settled for a group."""
        if topic == ACKS_TOPIC:
            return True
        mark = read_mark(properties) if MARK in properties else None
        return mark is not None and bool(mark.source[2])

    def take(self, record: ScannedRecord, read: ReadLog) -> None:
        """Replay a record."""
        position, size, topic, properties = record[0], record[1], record[7], record[8]
        if position <= self._applied:
            return
        self._applied = position
        if topic == ACKS_TOPIC.encode():
            note = read_note(read(position, size))
            if note is not None:
                self.apply(note, position)
                self.noted(note, position)
            return
        mark = read_mark(properties)
        if mark is not None:
            self.decided(mark.source, (mark.offset,), position)

    def topic_deleted(self, topic: str) -> None:
        """Forget the subscriptions to a topic."""
        for key in [key for key in self._all if key[1] == topic]:
            del self._all[key]

    def slices(self, position: int) -> Iterator[bytes]:
        """Yield the state in parts, some queues in each.

        Each queue is as of its own moment. `applied` is below `position`: a record above it may be visible,
        and in the state, while an earlier one waits for its flush. Everything from there on is replayed in
        order, so known records have no effect. What is dropped meanwhile is left out: the log holds the
        reason after `applied`.
        """
        applied = min(self._applied, position - 1)
        yield b'{"applied":%d,"topics":[' % applied
        separator = b""
        for key, subscription in list(self._all.items()):
            queue_ids = list(subscription.queues)
            for at in range(0, len(queue_ids) or 1, QUEUES_PER_SLICE):
                if self._all.get(key) is not subscription:
                    break
                chosen = [subscription.queues[queue_id] for queue_id in queue_ids[at : at + QUEUES_PER_SLICE]]
                queues = [_snapshot_of(queue, applied) for queue in chosen]
                yield separator + encode_topic(
                    TopicSnapshot(
                        subscription.group,
                        subscription.topic,
                        queues,
                        subscription.filter,
                        subscription.filter_at,
                    )
                )
                separator = b","
        yield b"]}"

    def load(self, data: bytes | None, position: int) -> bool:
        """Load a snapshot that covers the log below a position, or start empty."""
        self._all, self._applied, self._dropped = {}, -1, {}
        if data is None:
            return True
        try:
            content = decode_snapshot(data)
        except msgspec.DecodeError:
            return False
        self._applied = content.applied
        for topic in content.topics:
            subscription = self.open(topic.group, topic.topic)
            subscription.filter = topic.filter
            # What follows the snapshot may have been lost with the machine. If it was not, it is replayed.
            subscription.filter_at = topic.filter_at if topic.filter_at < position else -1
            subscription.queues.update({queue.queue: _loaded(queue) for queue in topic.queues})
        return True

    def load_filters(self, data: bytes) -> None:
        """Load only the filters of a snapshot: damage, or an earlier version, may have removed their records. A rebuild replays what there is."""
        try:
            content = decode_snapshot(data)
        except msgspec.DecodeError:
            return
        for topic in content.topics:
            self.open(topic.group, topic.topic).filter = topic.filter

    def pin(self) -> int | None:
        """Return the position of the oldest filter: its record must not go before the filter was appended again (`Leasing.roll`)."""
        return min((max(one.filter_at, 0) for one in self._all.values() if one.filter != ALL), default=None)

    def filters_below(self, position: int) -> list[Subscription]:
        """Return the subscriptions whose filter has no record at or above a position. Without a record a group wants everything."""
        return [one for one in self._all.values() if one.filter != ALL and one.filter_at < position]

    def apply(self, note: LeaseNote, position: int | None = None) -> None:
        """Apply a logged note. In a replay with its position, because some queues may include it already."""
        if note.gone:
            self.drop_group(note.group)
            return
        subscription = self.open(note.group, note.topic)
        if note.filter is not None:
            subscription.filter = note.filter
        for part in note.queues:
            known = subscription.queues.get(part.queue)
            if position is None or known is None or position > known.applied:
                self._apply_queue(subscription, part)

    def noted(self, note: LeaseNote, position: int) -> None:
        """Record where the log has the filter of a note that took effect."""
        subscription = self.find(note.group, note.topic)
        if note.filter is not None and subscription is not None:
            subscription.filter_at = max(position, subscription.filter_at)

    def apply_if_dropped(self, subscription: Subscription, note: LeaseNote) -> bool:
        """Apply a note whose tables were dropped by the deletion of its group or topic earlier in the log.

        False when they exist.
        """
        if self.find(subscription.group, subscription.topic) is subscription:
            return False
        self.apply(note)
        return True

    def _apply_queue(self, subscription: Subscription, part: QueueNote) -> None:
        queue = _replayed(subscription, part.queue)
        table = queue.table
        if part.start is not None:
            table.begin(part.start)
            queue.began = self._applied
        for at in range(0, len(part.done), 2):
            table.settle(part.done[at], (1 << part.done[at + 1]) - 1)
        for at in range(0, len(part.failed), 3):
            table.unseen.note_attempts(part.failed[at], part.failed[at + 1], part.failed[at + 2])


def read_note(record: bytes) -> LeaseNote | None:
    """Return the note of a record, None for one of another version, unknown here."""
    try:
        return decode_note(decode_record(record).body)
    except msgspec.DecodeError:
        return None


def _replayed(subscription: Subscription, queue_id: int) -> QueueLeases:
    """Return a queue's leases. Where the log does not hold the start, the committed offset does (see Opener)."""
    queue = subscription.queues.get(queue_id)
    if queue is None:
        queue = subscription.queues[queue_id] = QueueLeases(queue_id, 0)
    return queue


def _snapshot_of(queue: QueueLeases, applied: int) -> QueueSnapshot:
    table = queue.table
    undone = [bound for stretch in table.undone() for bound in stretch]
    failed = [value for one in table.known_attempts() for value in one]
    return QueueSnapshot(queue.queue_id, table.unseen.next, undone, failed, applied)


def _loaded(content: QueueSnapshot) -> QueueLeases:
    queue = QueueLeases(content.queue, content.next)
    queue.applied = content.applied
    unseen, undone, failed = queue.table.unseen, content.undone, content.failed
    unseen.gaps = Stretches((undone[at], undone[at + 1]) for at in range(0, len(undone), 2))
    for at in range(0, len(failed), 3):
        unseen.note_attempts(failed[at], failed[at + 1], failed[at + 2])
    return queue
