# ruff: noqa: ARG002, D102 - the Protocols say what these methods promise
"""A settle request in the group commit: its items are checked and placed in one step, each item's records in one write.

Placing decides: an item that is settled, or placed by somebody else in this batch or an earlier one that still waits for its flush, is
skipped. The table changes when the records become visible, so it never knows more than the log.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from broker_store.delays.levels import LevelList
from broker_store.log.errors import DiskFull, LogStopped, RecordTooLarge
from broker_store.message import Arrivals, Entry, IndexEntry, Mode, Placement, key_entries
from broker_store.queues import Queue
from broker_store.settling.gathering import Gathered
from broker_store.settling.mark import Source
from broker_store.settling.planning import CannotPlan, FindTarget, Plan, build, plan_item, unit_code
from broker_store.settling.states import ANSWERS, ItemState, ask_of
from broker_store.settling.table import Decision, SettledTable
from broker_store.targets import Target
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.properties import find_property, index_key_hash
from gantry_wire.settle_headers import OutputPlace, SettleResult, SettleStatus

Done = Callable[[list[SettleResult] | RefusedRequest], None]
"""Told once: the results in the order of the items, all of them durable as their topics promise; or why nothing is known or done."""


class Placed(NamedTuple):
    """One record in the open batch."""

    queue: Queue
    offset: int
    position: int
    size: int
    code: int
    unique_key: bytes | None
    keys: bytes | None


class Rules(Protocol):
    """What an entry asks about the store when it is placed."""

    table: SettledTable
    deciding: dict[tuple[Source, int], Decision]
    """Items whose records are placed and not visible yet."""
    levels: LevelList
    wall_ms: Callable[[], int]
    add_part: Callable[[Entry], None]
    """Takes a further entry into the batch that is being placed."""

    def targets(self) -> FindTarget:
        """Return what finds outputs' queues during one placement."""
        ...

    def marks(self) -> tuple[Target, Queue]:
        """Return where mark records go."""
        ...


class SettleEntry:
    """One request."""

    def __init__(
        self,
        rules: Rules,
        source: Source,
        items: list[Gathered],
        check: Callable[[], None] | None,
        done: Done,
    ) -> None:
        """`check` raises RefusedRequest when the claim is not in force any more."""
        self.mode = Mode.EARLY
        self._rules = rules
        self._source = source
        self._items = items
        self._check = check
        self._done: Done | None = done
        self._refused: RefusedRequest | None = None
        self._results: list[SettleResult] = []
        self._decided: list[tuple[int, Decision]] = []
        self._placed: list[Placed] = []
        self._taken: list[tuple[Queue, int, int]] = []
        """Queues with their next offset and bytes before each record, for taking back."""

    # --- placing -------------------------------------------------------------------------------------------

    def place(self, at: Placement) -> None:
        if self._check is not None:
            try:
                self._check()
            except RefusedRequest as refusal:
                self._refused = refusal
                return
        part = SettledPart()
        find_target, marks = self._rules.targets(), self._rules.marks()
        waits = False
        for gathered in self._items:
            key = (self._source, gathered.item.offset)
            if key in self._rules.deciding:
                waits = True  # what decided it is not durable yet: answered after that
            result = self._judge(gathered, at) or self._place_item(gathered, at, find_target, marks, part)
            self._results.append(result)
        self._items = []
        if self._placed:
            self.mode = Mode.SYNC
            if part.placed:
                self._rules.add_part(part)
        elif part.placed:
            self._placed, self.mode = part.placed, Mode.ASYNC
        elif waits:
            self.mode = marks[0].mode

    def _judge(self, gathered: Gathered, at: Placement) -> SettleResult | None:
        """Return why nothing is done about an item, None when it can be decided."""
        item = gathered.item
        state = self._state(gathered, at)
        status = ANSWERS[state][ask_of(item)]
        if status == SettleStatus.SETTLED:
            return None
        if status != SettleStatus.ALREADY:
            return SettleResult(item.offset, status, detail=gathered.detail)
        key, rules = (self._source, item.offset), self._rules
        known = rules.deciding.get(key) or rules.table.decision(*key)
        if known is None:
            return SettleResult(item.offset, status)
        return SettleResult(item.offset, status, known.outputs, known.outcome)

    def _state(self, gathered: Gathered, at: Placement) -> ItemState:
        rules, offset = self._rules, gathered.item.offset
        if (self._source, offset) in rules.deciding:
            return ItemState.DECIDING
        if rules.table.is_settled(self._source, offset):
            return ItemState.DECIDED
        if gathered.status:
            return ItemState.REMOVED if gathered.status == SettleStatus.REMOVED else ItemState.ABSENT
        if gathered.due_ms:
            now_ms = min(at.store_ms, rules.wall_ms()) if gathered.is_absolute else at.store_ms
            if gathered.due_ms > now_ms:
                gathered.detail = f"due in {gathered.due_ms - now_ms} ms"
                return ItemState.WAITING
        return ItemState.DUE

    def _place_item(
        self,
        gathered: Gathered,
        at: Placement,
        find_target: FindTarget,
        marks: tuple[Target, Queue],
        part: "SettledPart",
    ) -> SettleResult:
        item = gathered.item
        try:
            plan = plan_item(self._source, gathered, find_target, marks, at.store_host, at.store_ms)
            position = at.log.reserve(plan.size)
        except CannotPlan as error:
            return SettleResult(item.offset, error.status, detail=error.detail)
        except RecordTooLarge as error:
            return SettleResult(item.offset, SettleStatus.BAD_ITEM, detail=str(error))
        except DiskFull:
            return SettleResult(item.offset, SettleStatus.NO_SPACE)
        except LogStopped:
            if not self._placed and not part.placed:
                raise
            return SettleResult(item.offset, SettleStatus.NO_SPACE, detail="the store has stopped")
        places = self._put(plan, position, at, part)
        decision = Decision(places, item.outcome, at.store_ms)
        self._rules.deciding[(self._source, item.offset)] = decision
        self._decided.append((item.offset, decision))
        return SettleResult(item.offset, SettleStatus.SETTLED, places, item.outcome)

    def _put(self, plan: Plan, position: int, at: Placement, part: "SettledPart") -> list[OutputPlace]:
        """Build the records of an item at their places and put them into the open batch as one piece."""
        records: list[bytes] = []
        places: list[OutputPlace] = []
        for number, draft in enumerate(plan.drafts):
            queue = draft.queue
            offset = queue.next_offset
            record = build(plan, draft, offset, position, at.store_ms, at.store_host)
            size = len(record)
            self._taken.append((queue, offset, size))
            queue.next_offset = offset + 1
            queue.put_bytes += size
            records.append(record)
            properties = draft.properties
            is_output = number >= plan.output_from
            placed = Placed(
                queue, offset, position, size, unit_code(draft, self._rules.levels, at.store_ms),
                find_property(properties, b"UNIQ_KEY") if is_output else None,
                find_property(properties, b"KEYS") if is_output else None,
            )  # fmt: skip
            if draft.mode == Mode.ASYNC:
                part.add(placed, at.store_ms)
            else:
                self._placed.append(placed)
            if is_output:
                places.append(OutputPlace(queue.topic, queue.queue_id, offset, position))
            position += size
        at.log.put(b"".join(records) if len(records) > 1 else records[0])
        return places

    def take_back(self) -> None:
        for queue, offset, size in reversed(self._taken):
            queue.next_offset = offset
            queue.put_bytes -= size
        self._forget()

    # --- afterwards ----------------------------------------------------------------------------------------

    def appear(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        source, deciding, settle = self._source, self._rules.deciding, self._rules.table.settle
        store_ms = self._decided[0][1].time_ms if self._decided else 0
        show(self._placed, store_ms, index, arrivals)
        for offset, decision in self._decided:
            settle(source, offset, decision)
            deciding.pop((source, offset), None)
        self._decided = []
        self._placed = []

    def answer(self, at: Placement, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        if self._refused is not None:
            done(self._refused)
        elif code:
            done(
                RefusedRequest(
                    code,
                    "the decisions are written but their flush takes long: ask again, what is settled is said then",
                    {"gantryCode": "RESULT_UNKNOWN"},
                )
            )
        else:
            done(self._results)

    def refuse(self, refusal: RefusedRequest) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(refusal)

    def _forget(self) -> None:
        for offset, _ in self._decided:
            self._rules.deciding.pop((self._source, offset), None)


class SettledPart:
    """The records of a request that are visible as soon as they are written, beside others that wait for the flush."""

    def __init__(self) -> None:
        self.mode = Mode.ASYNC
        self.placed: list[Placed] = []
        self._store_ms = 0

    def add(self, placed: Placed, store_ms: int) -> None:
        """Take a record in."""
        self.placed.append(placed)
        self._store_ms = store_ms

    def place(self, at: Placement) -> None:
        raise AssertionError("it lies already")

    def take_back(self) -> None:
        """Its request does that."""

    def appear(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        show(self.placed, self._store_ms, index, arrivals)

    def answer(self, at: Placement, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        """Its request does that."""

    def refuse(self, refusal: RefusedRequest) -> None:
        """Its request does that."""


def show(placed: list[Placed], store_ms: int, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
    """Make records readable."""
    for queue, offset, position, size, code, unique_key, keys in placed:
        queue.units.append(offset, position, size, code)
        if unique_key:
            index.append(
                (index_key_hash(queue.topic, unique_key.decode(errors="replace")), position, store_ms)
            )
        if keys:
            index += key_entries(queue.topic, keys.decode(errors="replace"), position, store_ms)
        if arrivals is not None:
            arrivals.setdefault(queue, []).append(code)
