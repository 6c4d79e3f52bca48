"""Claim and settle as one part of the store: built once over the sending half, called by handlers and other parts.

Decides nothing by itself: request/item_decisions.py has the rules of a request, decided/settled_table.py what
is decided, claims.py who may decide.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.appends import Appends, stopped
from broker_store.commit.message import Entry, Message
from broker_store.commit.queues import Queue, QueueTable
from broker_store.commit.targets import Target, Targets
from broker_store.commit.topics import MARKS_TOPIC, PERM_WRITE, STATE_TOPICS, TopicTable, queue_count
from broker_store.config.delay_levels import LevelList
from broker_store.log.commit_log.commit_log import CommitLog, LogState
from broker_store.reading.repaired_reads import RepairedReads
from broker_store.requests.request_classes import OVERLOAD
from broker_store.settling.claims import ClaimTable
from broker_store.settling.decided.mark import Source, whole_mark
from broker_store.settling.decided.settled_table import FLOOR_TAG, Decided, SettledTable
from broker_store.settling.request.ahead import Ahead
from broker_store.settling.request.item_decisions import Done, SettleEntry
from broker_store.settling.request.items import Gathered, look_up, read_again, read_records
from broker_store.settling.request.outcomes import GroupDecisions, ItemCopies
from broker_store.settling.request.output_records import CannotPlan, FindTarget
from broker_store.settling.request.slices import SettleSlice, Slices
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.messages.properties import TAGS, format_properties, tags_code
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import SettleItem, SettleResult, SettleStatus


@dataclass(eq=False)
class Settling:
    """Decides items of system queues, once each. Gives entries what they need when they are placed (Rules)."""

    log: CommitLog
    appends: Appends
    queues: QueueTable
    topics: TopicTable
    targets: Targets
    table: SettledTable
    copies: ItemCopies
    group_decisions: GroupDecisions
    levels: LevelList
    clock: StoreClock
    claims: ClaimTable
    slices: Slices
    ahead: Ahead
    roll_below: Callable[[], int]
    """Log position below which undecided items keep a segment from being deleted, 0 when there are none."""
    has_fast_path: bool
    """Whether ordinary items are placed together, from templates."""
    reads: RepairedReads
    """Reads items that are not in memory, or are damaged."""
    deciding: dict[Source, dict[int, Decided]] = field(
        default_factory=dict[Source, dict[int, Decided]], init=False
    )
    settled_items: int = field(default=0, init=False)
    """Items decided since the start."""

    def __post_init__(self) -> None:
        self.add_part: Callable[[Entry], None] = self.appends.placed
        self.mode_expected = self.targets.mode

    def settle(
        self,
        topic: str,
        queue_id: int,
        group: str,
        epoch: int | None,
        items: Sequence[SettleItem],
        done: Done,
    ) -> None:
        """Decide items of queue `queue_id` of `topic`: check and append the messages that result from each, in one step.

        Call it in the loop. It calls `done` in the loop, later and exactly once: with one SettleResult per
        item in the given order, or with a RefusedRequest for all of them. A `settled` result means that its
        records are visible and as durable as their topics promise. `already` means the same for the earlier
        decision; it includes outputs and outcome where they are still remembered (the latest ones). After
        RESULT_UNKNOWN, repeat the request to learn the result.

        `epoch` is that of the claim on the queue, which this renews. An invalid claim refuses all items
        (FENCED). None is for callers inside the store that need no claim: END_TRANSACTION, and leases,
        whose group decides for itself. `group` is empty for system queues. Each group has its own items: a
        dead letter of group g settles (topic, queue, offset, g).

        Each item names its position as in the queue's unit. Outputs (SettleOutput) are made from the item's
        own record (`body="item"`, `properties="item"` less `drop` plus `set`) or from given bytes. A record
        that is not made from the item (the op message of a half) is an output with `properties="none"` and
        `body=None, body_base64=b"…"`, and keeps its place in the list. An item without outputs leaves a
        mark record. An item with outputs that is not due is refused as `early`, unless it carries `force`.
        Of several decisions about one item, in one request or batch, the first wins.

        Owners of claims (`epoch`) are served one after the other. Large requests take several turns of the
        loop (request/slices.py), so a refusal may follow when some items are decided already. Items requested ahead
        of their time (`at_ms`) are kept until then (request/ahead.py).

        Raises RefusedRequest when nothing can be taken now: the store is stopped or overloaded.
        """
        self.refuse_unless_able()
        source: Source = (topic, queue_id, group)
        if epoch is None:
            self._settle_now(source, None, items, done)
            return
        settle = partial(self._in_slices, partial(self._settle_now, source, epoch))
        if not self.ahead.keep(items, settle, done):
            settle(items, done)

    def _in_slices(self, settle: SettleSlice, items: Sequence[SettleItem], done: Done) -> None:
        self.slices.add(items, settle, done)

    def _settle_now(self, source: Source, epoch: int | None, items: Sequence[SettleItem], done: Done) -> None:
        """Decide items in this turn, or when their records are read from the disk."""
        self.refuse_unless_able()
        topic, queue_id, _ = source
        try:
            queue = self.queues.find(topic, queue_id)
            found = look_up(topic, queue, items)
        except OSError as error:
            raise _unreadable(error) from error
        segment_bytes, reads = self.log.settings.segment_bytes, self.reads
        if read_records(
            topic, queue, found, segment_bytes, self.log.read_nowait, may_fail=not reads.can_repair
        ):
            self._submit(source, found, epoch, done)
            return

        def read() -> bool:
            return read_again(topic, queue, found, segment_bytes, self.log.read)

        def on_read(reading: "asyncio.Future[bool]") -> None:
            try:
                reading.result()
                self.refuse_unless_able()
                self._submit(source, found, epoch, done)
            except RefusedRequest as refusal:
                done(refusal)
            except Exception as error:  # noqa: BLE001 - answer the waiting client, whatever the error
                done(_unreadable(error))

        # An item that no replica answers with is refused alone: its owner tries again.
        asyncio.ensure_future(reads.leaving_out(read)).add_done_callback(on_read)

    def log_foreign_floors(self) -> None:
        """Log what another broker decided before this start. From then on the log alone holds it."""
        floors, self.table.foreign_floors = self.table.foreign_floors, {}
        for source, offset in floors.items():
            target, queue = self.marks()
            tag = FLOOR_TAG.decode()
            properties = format_properties({TAGS: tag}) + whole_mark(source, offset, 1, 1)
            host = self.appends.store_host
            mark = Message(
                queue, b"", properties, tags_code(tag), "", None, target.mode, None, 0, 0, 0,
                self.clock.now_ms(), host, 0,
            )  # fmt: skip
            self.appends.enqueue(mark)

    def closed(self, peer_id: int) -> None:
        """End the claims of a closed connection."""
        self.claims.close_peer(peer_id)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether a topic exists and has such a queue."""
        config = self.topics.find(topic)
        return config is not None and queue_id < queue_count(config)

    def mono_ms(self) -> int:
        """Milliseconds on the clock of the claims."""
        return int(self.clock.monotonic() * 1000)

    def state_of(self, source: Source) -> tuple[int, int]:
        """Return the cursor (lowest undecided offset) of a queue, and one above its newest offset."""
        queue = self.queues.find(source[0], source[1])
        return self.table.of(source).cursor, 0 if queue is None else queue.max_offset

    def delay_queues(self) -> int:
        """Return how many queues of delay levels to follow, including those of removed levels while a message waits there."""
        table, levels = self.table, len(self.levels.durations_ms)
        waiting = [
            queue.queue_id + 1
            for queue in self.queues.of_topic(SCHEDULE_TOPIC)
            if queue.queue_id >= levels
            and table.of((SCHEDULE_TOPIC, queue.queue_id, "")).cursor < queue.max_offset
        ]
        return max(waiting, default=levels)

    # --- Rules: what an entry needs when it is placed ----------------------------------------------------

    def target_finder(self) -> FindTarget:
        """See Rules. Looks up each topic once."""
        seen: dict[str, Target | CannotPlan] = {}
        found: dict[tuple[str, int], tuple[Target, Queue]] = {}

        def find(topic: str, queue_id: int) -> tuple[Target, Queue]:
            place = found.get((topic, queue_id))
            if place is not None:
                return place
            target = seen.get(topic)
            if target is None:
                target = seen[topic] = self._target(topic)
            if isinstance(target, CannotPlan):
                raise target
            place = target, self.targets.any_queue(target, queue_id)
            if queue_id >= 0:  # a negative id means any queue, another one each time
                found[(topic, queue_id)] = place
            return place

        return find

    def marks(self) -> tuple[Target, Queue]:
        """See Rules."""
        target = self.targets.internal(self.topics.ensure(MARKS_TOPIC, 1))
        return target, self.targets.any_queue(target, 0)

    def _target(self, topic: str) -> Target | CannotPlan:
        if (
            topic in STATE_TOPICS
        ):  # a message that a client wrote would be read as a user, as rights or as offsets
            return CannotPlan(SettleStatus.NOT_WRITABLE, f"topic[{topic}] may not be written to")
        config = self.topics.find(topic)
        if config is None:
            return CannotPlan(SettleStatus.UNKNOWN_TOPIC, f"topic[{topic}] not exist")
        if not config.perm & PERM_WRITE or config.write_queue_nums <= 0:
            return CannotPlan(SettleStatus.NOT_WRITABLE, f"topic[{topic}] may not be written to")
        return self.targets.internal(config)

    def _submit(self, source: Source, found: list[Gathered], epoch: int | None, done: Done) -> None:
        key = (source[0], source[1])

        def check(held: int) -> None:
            self.claims.check(key, held, self.mono_ms())

        def answered(result: list[SettleResult] | RefusedRequest) -> None:
            self.settled_items += entry.settled
            done(result)

        entry = SettleEntry(self, source, found, None if epoch is None else partial(check, epoch), answered)
        size = sum([gathered.size for gathered in found if gathered.record is not None])
        self.appends.enqueue(entry, size)

    def refuse_unless_able(self) -> None:
        """Raise RefusedRequest when no decision can be taken now.

        Decisions continue when sends are refused for lack of space: the ballast is for them.
        """
        if self.log.state is LogState.STOPPED:
            raise stopped(self.log.stop_reason)
        if self.appends.is_overloaded:
            raise RefusedRequest(ResponseCode.SYSTEM_BUSY, OVERLOAD)


def _unreadable(error: Exception) -> RefusedRequest:
    return RefusedRequest(ResponseCode.SYSTEM_ERROR, f"the items cannot be read: {error}")
