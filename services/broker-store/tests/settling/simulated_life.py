"""One random life of a store with two owners and a checker, from one seed.

It includes crashes at any step of the disk, power cuts, restarts, owners that sleep, die and are replaced,
and clocks that jump. At the end everything is decided and every record is accounted for.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from sending_side import START_S, ScriptedPeer
from settling_side import SettlingSide
from simulated_owner import DROPPED, KEYS, Owner

from broker_store.commit.topics import MARKS_TOPIC
from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from broker_store.settling.decided.mark import read_mark
from broker_store.transactions.end_transaction.decision_run import Ordinary
from broker_store.transactions.end_transaction.turn_batch import TurnBatch
from broker_store.transactions.half_messages.recent_halves import ordinary_half
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.messages.properties import find_property
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleItem, SettleOutput, SettleResult
from gantry_wire.records.message_record import Record

ACTIONS = 70
CRASHES_MAX = 4
HALF_SOURCE = (HALF_TOPIC, 0, "")
SYSTEM_QUEUES = (*KEYS, (HALF_TOPIC, 0))
ALL_QUEUES = (
    *SYSTEM_QUEUES,
    (OP_HALF_TOPIC, 0),
    (MARKS_TOPIC, 0),
    *(("orders", number) for number in range(4)),
)


class Ends:
    """Collects results of ordinary decisions."""

    def __init__(self, life: Life, side: SettlingSide) -> None:
        self.life, self.side = life, side

    def decided(self, rows: list[Ordinary]) -> None:
        assert self.side is self.life.side
        for half, is_commit, _, _ in rows:
            item = (HALF_TOPIC, 0, half.offset)
            assert item not in self.life.answered
            known = self.side.settling.table.decision(HALF_SOURCE, half.offset)
            assert known is not None
            assert len(known.outputs) == 1 + is_commit
            self.life.answered[item] = SettleResult(half.offset, "settled", known.outputs, known.outcome)

    def left(self, row: Ordinary) -> None:
        """Handle one that was decided before."""

    def refused(self, row: Ordinary, refusal: RefusedRequest) -> None:
        """Handle one that waited too long, or met a disk failure."""


class Life:
    """The events of a life, and the answers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.files = SimulatedFiles()
        self.wall_s = START_S
        self.steady_s = 0.0
        self.boot = "boot 0"
        self.side: SettlingSide = None  # pyright: ignore[reportAttributeAccessIssue]
        self.owners = [Owner(name, self.random) for name in ("a", "b")]
        self.newest: dict[tuple[str, int], int] = {}
        self.producer = ScriptedPeer()
        self.asked: dict[int, bytes] = {}
        self.acknowledged: set[bytes] = set()
        self.answered: dict[tuple[str, int, int], SettleResult] = {}
        self.ends: TurnBatch = None  # pyright: ignore[reportAttributeAccessIssue]
        self.crashes = 0
        self.number = 0

    async def live(self) -> None:
        await self._start_again(self.files)
        for _ in range(ACTIONS):
            try:
                await self._act()
            except Crashed:
                await self._crash()
        await self._end()

    # --- what may happen -----------------------------------------------------------------------------------

    async def _act(self) -> None:
        action = self.random.choices(
            (
                self._send,
                self._owner_acts,
                self._check,
                self._end_some,
                self._turn,
                self._flush,
                self._time,
                self._arm,
            ),
            (22, 30, 4, 4, 6, 22, 8, 4),
        )[0]
        action()
        if self.random.random() < 0.03:
            await self.side.sending.checkpoints.take()

    def _send(self) -> None:
        self.number += 1
        body = b"m%d" % self.number + b"." * self.random.choice((0, 600, 3000))
        kind = self.random.randrange(6)
        properties = {"UNIQ_KEY": f"U{self.number}"}
        sys_flag = 0
        if kind in (1, 2):
            properties["DELAY"] = str(kind)
        elif kind == 3:
            properties["TIMER_DELAY_MS"] = str(self.random.randint(1, 5000))
        elif kind == 4:
            properties |= {"TRAN_MSG": "true", "PGROUP": "pg"}
            sys_flag = 4
        elif kind == 5:
            properties["TIMER_DELIVER_MS"] = str(int(self.wall_s * 1000) + self.random.randint(1, 5000))
        opaque = self.side.send(
            self.producer, body=body, queue_id=self.number % 4, properties=properties, sys_flag=sys_flag
        )
        self.asked[opaque] = body

    def _owner_acts(self) -> None:
        owner = self.random.choice(self.owners)
        if owner.sleeps:
            owner.sleeps -= 1
            return
        owner.take_answers(self.answered)
        chance = self.random.random()
        if chance < 0.05:
            owner.sleeps = self.random.randint(1, 12)
        elif chance < 0.09:
            owner.die(self.side)
        elif not owner.owns_all or chance < 0.3:
            owner.claim(self.side, self.newest)
        elif chance < 0.5:
            for key in KEYS:
                owner.follow(self.side, key)
        else:
            owner.ask(self.side)

    def _check(self, *, all_of_them: bool = False) -> None:
        """Commit or roll back halves, decided before or not."""
        queue = self.side.queues.find(HALF_TOPIC, 0)
        offsets = range(queue.max_offset if queue else 0)
        chosen = offsets if all_of_them else [self.random.choice(offsets)] if offsets else []
        items = [self._half(offset) for offset in chosen]
        side = self.side

        def done(results: list[SettleResult] | RefusedRequest) -> None:
            for result in results if isinstance(results, list) else ():
                assert result.status in {"settled", "already"}, result
                if result.status == "settled":
                    assert (HALF_TOPIC, 0, result.offset) not in self.answered
                    self.answered[(HALF_TOPIC, 0, result.offset)] = result
                assert side is self.side

        side.settling.settle(*HALF_SOURCE, None, items, done)

    def _end_some(self) -> None:
        """Decide some halves as producers do: ordinary decisions, several per entry."""
        halves = self.side.records(HALF_TOPIC)
        for record in self.random.sample(halves, min(len(halves), self.random.randint(1, 4))):
            half = ordinary_half(record, record.property_map())
            assert half is not None
            is_commit = self.random.random() < 0.7
            self.ends.add(Ordinary(half, is_commit, self.producer, Command()), Ends(self, self.side))

    def _half(self, offset: int) -> SettleItem:
        op = SettleOutput(OP_HALF_TOPIC, 0, None, b"%d," % offset, {"TAGS": "d"}, properties="none")
        position = self.side.unit(HALF_TOPIC, 0, offset)[0]
        kind = self.random.randrange(3)
        if kind == 0:
            return SettleItem(offset, position, [op], "rolledBack")
        drop = (*DROPPED, "TRAN_MSG")
        if kind == 1:
            return SettleItem(
                offset,
                position,
                [SettleOutput("orders", offset % 4, drop=drop, transaction="commit"), op],
                "committed",
            )
        delayed = SettleOutput(
            SCHEDULE_TOPIC, 0, set={"DELAY": "1"}, drop=("TRAN_MSG",), transaction="commit"
        )
        return SettleItem(offset, position, [delayed, op], "committed")

    def _turn(self) -> None:
        for owner in self.owners:
            for request in owner.requests.values():
                request.newest_epoch = request.newest_epoch or self.newest[request.key]
        self.side.end_turn()

    def _flush(self) -> None:
        self._turn()
        self.side.flush()
        answers, self.producer.answers = self.producer.answers, []
        for answer in answers:
            body = self.asked.pop(answer.opaque, None)
            if body is not None and answer.code == 0:
                self.acknowledged.add(body)
        for owner in self.owners:
            if not owner.sleeps:
                owner.take_answers(self.answered)

    def _time(self) -> None:
        self.side.pass_time(self.random.choice((0.05, 0.5, 1, 3.1)))
        if self.random.random() < 0.1:
            self.side.wall_s += self.random.choice((-3600, 3600))
        self.wall_s, self.steady_s = self.side.wall_s, self.side.monotonic_s

    def _arm(self) -> None:
        if self.crashes < CRASHES_MAX:
            self.files.crash_after = self.random.randint(0, 25)

    async def _crash(self) -> None:
        """End the machine or the process. The disk is one of those it may leave."""
        self.crashes += 1
        while True:
            self.side.thread.close()
            chance = self.random.random()
            if chance < 0.7:
                disk = self.files.killed()
                if chance < 0.35:
                    self._tear(disk)
            else:
                disk = self.random.choice(list(self.files.crash_states(4, self.random.randrange(1 << 30))))
                self.steady_s, self.boot = 0.0, f"boot {self.crashes}"
            if self.crashes < CRASHES_MAX and self.random.random() < 0.3:
                disk.crash_after = self.random.randint(0, 120)
            try:
                await self._start_again(disk)
            except Crashed:
                self.crashes += 1
                continue
            return

    def _tear(self, disk: SimulatedFiles) -> None:
        """Leave the unsynced end of the log up to some sector only."""
        log = self.side.log
        sectors = range(log.durable_end + 511 & ~511, log.written_end, 512)
        segment = log.segment_at(log.durable_end)
        # where a start crashed before it created its log there is nothing to tear
        if segment is not None and disk.exists(segment.path) and log.written_end <= segment.end:
            start = self.random.choice([log.durable_end, *sectors])
            disk.open(segment.path).pwrite(bytes(log.written_end - start), start - segment.start)

    async def _start_again(self, disk: SimulatedFiles) -> None:
        self.files = disk
        for owner in self.owners:
            owner.reconnect()
        self.producer, self.asked = ScriptedPeer(), {}
        self.side = SettlingSide(
            disk, self.wall_s + 0.5, self.steady_s + 0.5, self.boot, segment_bytes=1024 * 1024
        )
        self.ends = TurnBatch(self.side.settling, self.side.appends)
        self.side.settling.slices.items_min = self.random.choice(
            (1, 2, 32)
        )  # requests take several turns, too
        self.wall_s, self.steady_s = self.side.wall_s, self.side.monotonic_s
        disk.crash_after, left = None, disk.crash_after  # the file of topics does not matter here
        self.side.topics.ensure("orders", 4)
        await self.side.sending.topics_saver.close()
        disk.crash_after = left

    # --- the end -------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Let one owner and the checker finish undisturbed, restart once more, and count."""
        self.files.crash_after = None
        self._flush()
        self.side.pass_time(86_400)  # more than all steps back of the wall clock together
        self._flush()  # what a turn had collected before that day waited too long, and is refused with all that joins it
        self.side.pass_time(10)  # what was kept until then has renewed the claim of its owner
        last = Owner("last", self.random)
        self.owners = [last]
        self._check(all_of_them=True)
        self._flush()
        last.claim(self.side, self.newest)
        for _ in range(60):
            self.side.pass_time(2)
            last.claim(self.side, self.newest)
            for key in KEYS:
                last.follow(self.side, key)
            last.ask(self.side, everything=True)
            self._flush()
            if not any(last.pending.values()) and not last.requests:
                break
        await self.side.sending.checkpoints.take()
        self._account(self.side)
        self.wall_s, self.steady_s = self.side.wall_s, self.side.monotonic_s
        self.side.thread.close()
        await self._start_again(self.files.killed())
        self._account(self.side)
        self.side.thread.close()

    def _account(self, side: SettlingSide) -> None:
        """Check that every item is decided by exactly its records, and every acknowledged message was delivered, cancelled or rolled back."""
        records = {place: side.records(*place) for place in ALL_QUEUES}
        found: dict[tuple[str, int, int], list[Any]] = {}
        for place, of_queue in records.items():
            for record in of_queue:
                mark = read_mark(record.properties)
                if mark is not None:
                    found.setdefault((*mark.source[:2], mark.offset), []).append((mark, place, record))
        items = {
            (*place, record.queue_offset): record for place in SYSTEM_QUEUES for record in records[place]
        }
        assert found.keys() == items.keys(), f"undecided: {items.keys() - found.keys()}"
        for item, marks in found.items():
            assert sorted(mark.number for mark, _, _ in marks) == list(range(1, marks[0][0].total + 1)), item
            self._not_early(side, item, items[item], marks)
        for item, result in self.answered.items():
            expected = {
                (place.topic, place.queue_id, place.queue_offset, place.position) for place in result.outputs
            }
            now = {
                (*place, record.queue_offset, record.position)
                for _, place, record in found[item]
                if place[0] != MARKS_TOPIC
            }
            assert expected == now, f"{item} was answered as {result.outcome}"
        self._each_body_once(records, found, items)

    def _not_early(
        self, side: SettlingSide, item: tuple[str, int, int], record: Record, marks: list[Any]
    ) -> None:
        due = find_property(record.properties, b"TIMER_OUT_MS") if item[0] == TIMER_TOPIC else None
        due_ms = int(due) if due else side.unit(*item)[2] if item[0] == SCHEDULE_TOPIC else 0
        for _, place, output in marks:
            assert place[0] != "orders" or output.store_timestamp >= due_ms, f"{item} came early"

    def _each_body_once(
        self, records: dict[Any, list[Record]], found: dict[Any, list[Any]], items: dict[Any, Record]
    ) -> None:
        out = Counter(
            record.body for place, of_queue in records.items() if place[0] == "orders" for record in of_queue
        )
        for item, marks in found.items():
            places = {place[0] for _, place, _ in marks}
            if places <= {MARKS_TOPIC} or places <= {OP_HALF_TOPIC}:
                out[items[item].body] += 1  # cancelled or rolled back: that is its end
        doubled = [body for body, count in out.items() if count > 1]
        assert not doubled, f"doubled: {doubled}"
        lost = self.acknowledged - out.keys()
        assert not lost, f"acknowledged and lost: {lost}"
