# ruff: noqa: ARG002, D102 - the Protocols say what these methods promise
"""A settle request in the group commit: checks and places its items in one step, and writes each item's records together.

Placing decides. An item is skipped when it is settled, or placed by another request in this batch or an
earlier one that still waits for its flush.
"""

from collections.abc import Callable

from broker_store.commit.message import Arrivals, IndexEntry, Mode
from broker_store.commit.record_writer import RecordWriter, Row, whole_row
from broker_store.log.errors import DiskFull, LogStopped, RecordTooLarge
from broker_store.settling.decided.mark import Source
from broker_store.settling.decided.settled_table import Decided, Decision
from broker_store.settling.request.fast_settle import FastSettle
from broker_store.settling.request.items import Gathered, put_off
from broker_store.settling.request.outcomes import SUPERSEDED, Outcomes, Rules
from broker_store.settling.request.output_records import CannotPlan, Plan, Planner, text_of, unit_code
from broker_store.settling.states import ANSWERS, ItemState, ask_of
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.private_requests.settling import OutputPlace, SettleResult, SettleStatus

Done = Callable[[list[SettleResult] | RefusedRequest], None]
"""Called once: with durable results in item order, or with the reason why nothing is known or done."""
_SETTLED, _ASYNC = SettleStatus.SETTLED, Mode.ASYNC


class SettleEntry:
    """One request."""

    count = 1

    def __init__(
        self,
        rules: Rules,
        source: Source,
        items: list[Gathered],
        check: Callable[[], None] | None,
        done: Done,
    ) -> None:
        """`check` raises RefusedRequest when the claim is no longer valid."""
        self.mode = rules.mode_expected
        self.settled = 0
        """Items that this request decided, once they are visible."""
        self._rules = rules
        self._source = source
        self._items = items
        self._check = check
        self._done: Done | None = done
        self._refused: RefusedRequest | None = None
        self._results: list[SettleResult] = []
        self._outcomes = Outcomes(rules, source)
        self._planner: Planner | None = None

    # --- placing -------------------------------------------------------------------------------------------

    def place(self, at: RecordWriter) -> None:
        self.mode = Mode.EARLY
        if self._check is not None:
            try:
                self._check()
            except RefusedRequest as refusal:
                self._refused = refusal
                return
        self._outcomes.store_ms = at.store_ms
        at.when_taken_back(self._outcomes.take_back)
        waits = self._place_all(at)
        self._items = []
        self.mode = self._outcomes.mode(waits=waits)

    def _place_all(self, at: RecordWriter) -> bool:
        """Place the items. Return whether a decision about one of them is not durable yet: the answer must follow it."""
        rules, source, results, outcomes = self._rules, self._source, self._results, self._outcomes
        fast = FastSettle(source, rules.target_finder(), at, outcomes.held, outcomes.part.take(at.store_ms))
        deciding = rules.deciding.get(source) or {}
        is_settled, with_copies = rules.table.decided_of(source), rules.copies.with_copies(source)
        wall_ms, waits = rules.clock.wall_ms(), False
        now_ms = min(at.store_ms, wall_ms)
        if rules.clock.shifts.all:
            put_off(source, self._items, rules.clock.shifts, rules.levels)
        for gathered in self._items:
            offset = gathered.item.offset
            if (
                gathered.due_ms <= now_ms
                and not gathered.status
                and offset not in deciding
                and not is_settled(offset)
                and offset not in with_copies
            ):  # as nearly all are: any request about a due item settles it
                results.append(self._place_item(gathered, at, fast, deciding))
                continue
            state = self._state(gathered, at.store_ms, wall_ms, deciding, is_settled)
            waits = waits or state is ItemState.DECIDING
            status = ANSWERS[state][ask_of(gathered.item)]
            if status == _SETTLED:
                results.append(self._place_item(gathered, at, fast, deciding))
            else:
                results.append(self._left(gathered, status, deciding))
        fast.place()
        if deciding:
            rules.deciding[source] = deciding
        return waits

    def _left(self, gathered: Gathered, status: str, deciding: dict[int, Decided]) -> SettleResult:
        """Return why an item is left alone."""
        offset = gathered.item.offset
        if status != SettleStatus.ALREADY:
            due_ms = gathered.due_ms if status == SettleStatus.EARLY else 0
            return SettleResult(offset, status, detail=gathered.detail, due_ms=due_ms)
        rules = self._rules
        known = deciding.get(offset) or rules.table.decision(self._source, offset)
        if known is None:
            other = rules.copies.decision_of_copy(self._source, offset, rules.deciding)
            known = None if other is None else other.decision
        if known is None:
            return SettleResult(offset, status)
        return SettleResult(offset, status, known.outputs, known.outcome)

    def _state(
        self,
        gathered: Gathered,
        store_ms: int,
        wall_ms: int,
        deciding: dict[int, Decided],
        is_settled: Callable[[int], bool],
    ) -> ItemState:
        offset = gathered.item.offset
        if offset in deciding:
            return ItemState.DECIDING
        if is_settled(offset):
            return ItemState.DECIDED
        other = self._rules.copies.decision_of_copy(self._source, offset, self._rules.deciding)
        if other is not None and gathered.item.outcome != SUPERSEDED:
            return ItemState.DECIDED if other.is_visible else ItemState.DECIDING
        if gathered.status:
            return ItemState.REMOVED if gathered.status == SettleStatus.REMOVED else ItemState.ABSENT
        due_ms, now_ms = gathered.due_ms, min(store_ms, wall_ms) if gathered.is_absolute else store_ms
        if due_ms > now_ms:
            gathered.detail = f"due in {due_ms - now_ms} ms"
            return ItemState.WAITING
        return ItemState.DUE

    def _place_item(
        self,
        gathered: Gathered,
        at: RecordWriter,
        fast: FastSettle,
        deciding: dict[int, Decided],
    ) -> SettleResult:
        item = gathered.item
        if item.outcome == SUPERSEDED and self._rules.copies.is_alone(self._source, item.offset):
            detail = "there is no other copy that continues or was decided"
            return SettleResult(item.offset, SettleStatus.BAD_ITEM, detail=detail)
        try:
            places = fast.put(gathered) if self._rules.has_fast_path else None
            if places is None:
                plan = self._plan(gathered, at, fast)
                fast.place()
                places = self._put(gathered, plan, at)
        except CannotPlan as error:
            return SettleResult(item.offset, error.status, detail=error.detail)
        except RecordTooLarge as error:
            return SettleResult(item.offset, SettleStatus.BAD_ITEM, detail=str(error))
        except DiskFull:
            return SettleResult(item.offset, SettleStatus.NO_SPACE)
        except LogStopped:
            if not self._outcomes.decided:
                raise
            return SettleResult(item.offset, SettleStatus.NO_SPACE, detail="the store has stopped")
        decision = deciding[item.offset] = Decision(places, item.outcome, at.store_ms)
        self._outcomes.decided.append((item.offset, decision))
        return SettleResult(item.offset, _SETTLED, places, item.outcome)

    def _plan(self, gathered: Gathered, at: RecordWriter, fast: FastSettle) -> Plan:
        planner = self._planner
        if planner is None:
            marks = self._rules.marks()
            planner = self._planner = Planner(self._source, fast.find_target, marks)
        return planner.plan(gathered)

    def _put(self, gathered: Gathered, plan: Plan, at: RecordWriter) -> list[OutputPlace]:
        """Place an item's records as one piece."""
        drafts, output_from = plan
        item_record, store_ms = gathered.record, at.store_ms
        flag, born_ms, born_host = 0, store_ms, at.store_host
        if item_record is not None:
            flag, born_ms, born_host = (
                item_record.flag, item_record.born_timestamp, item_record.born_host
            )  # fmt: skip
        levels, outcomes = self._rules.levels, self._outcomes
        rows: list[Row] = []
        for number, (queue, _, body, properties, sys_flag, times, prepared) in enumerate(drafts):
            unique_key = keys = None
            if number >= output_from:
                unique_key = text_of(properties, b"UNIQ_KEY")
                keys = text_of(properties, b"KEYS") if b"KEYS\x01" in properties else None
            code = unit_code(queue.topic, properties, levels, store_ms)
            row = whole_row(
                queue, body, properties, flag, sys_flag, born_ms, times, prepared, code, unique_key, keys, None
            )  # fmt: skip
            if item_record is not None and body is item_record.body:
                # keep the item's checksum: a new one would hide damage done to the body meanwhile
                row = (queue, item_record.body_crc, *row[2:])
            rows.append(row)
        placed = at.place(rows, sum([row[7] for row in rows]), born_host)
        for draft, record in zip(drafts, placed, strict=True):
            (outcomes.held if draft[1] != _ASYNC else outcomes.part.placed).append(record)
        return [
            OutputPlace(queue.topic, queue.queue_id, offset, position)
            for queue, offset, position, *_ in placed[output_from:]
        ]

    # --- after placing -----------------------------------------------------------------------------------

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        self.settled = self._outcomes.make_visible(index, arrivals)

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        if self._refused is not None:
            done(self._refused)
        elif code:
            done(
                RefusedRequest(
                    code,
                    "the decisions are written but their flush takes long: repeat the request to learn the results",
                    {"gantryCode": "RESULT_UNKNOWN"},
                )
            )
        else:
            done(self._results)

    def refuse(self, refusal: RefusedRequest) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(refusal)
