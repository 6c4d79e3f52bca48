# ruff: noqa: ARG002, D102 - the Protocols say what these methods promise
"""Decisions of one entry of the group commit, from placing until visible. Places nothing and answers nobody."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.message import Arrivals, Entry, IndexEntry, Mode
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import Placed, RecordWriter
from broker_store.commit.targets import Target
from broker_store.commit.visible.visible_records import show
from broker_store.config.delay_levels import LevelList
from broker_store.settling.decided.mark import Source
from broker_store.settling.decided.settled_table import Decided, SettledTable
from broker_store.settling.request.output_records import FindTarget
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

SUPERSEDED = "superseded"
"""Outcome of an item that is finished because another copy of it continues or was decided.

Valid for any copy at any time, but not for the only one.
"""


class CopyDecision(NamedTuple):
    """A decision about another copy of an item, which decides this one too."""

    decision: Decided
    is_visible: bool


class ItemCopies(Protocol):
    """Which items are copies that share one decision."""

    def with_copies(self, source: Source) -> AbstractSet[int]:
        """Return the undecided items of a queue that have other copies, or of which another copy was decided."""
        ...

    def is_alone(self, source: Source, offset: int) -> bool:
        """Whether an item is a copy, and the only one of an undecided transaction."""
        ...

    def decision_of_copy(
        self, source: Source, offset: int, deciding: Mapping[Source, Mapping[int, Decided]]
    ) -> CopyDecision | None:
        """Return the decision about another copy of an item, None if there is none. `deciding` as in Rules."""
        ...

    def decided(self, source: Source, decided: Sequence[tuple[int, Decided]]) -> None:
        """Record decisions whose records are visible."""
        ...


class GroupDecisions(Protocol):
    """What consumer groups have done. It follows the decisions about their items."""

    def decided(self, source: Source, offsets: Iterable[int], position: int) -> None:
        """Record decisions of a group whose records, the first at `position`, are visible."""
        ...


class Rules(Protocol):
    """What an entry needs from the store when it is placed."""

    table: SettledTable
    copies: ItemCopies
    group_decisions: GroupDecisions
    deciding: dict[Source, dict[int, Decided]]
    """Items whose records are placed and not visible yet, by source and offset."""
    mode_expected: Mode
    """How most outputs are flushed.

    SYNC lets a request that waits to be placed share the next flush with concurrent sends.
    """
    levels: LevelList
    clock: StoreClock
    add_part: Callable[[Entry], None]
    """Adds a further entry to the batch being placed."""
    has_fast_path: bool

    def target_finder(self) -> FindTarget:
        """Return the function that finds the outputs' queues during one placement."""
        ...

    def marks(self) -> tuple[Target, Queue]:
        """Return the target of mark records."""
        ...


class Outcomes:
    """Placed records and their decisions.

    The table changes when they become visible, so it never knows more than the log.
    """

    __slots__ = ("_rules", "_source", "decided", "held", "part", "store_ms")

    def __init__(self, rules: Rules, source: Source) -> None:
        self._rules = rules
        self._source = source
        self.held: list[Placed] = []
        """Records that wait for a flush."""
        self.part = SettledPart()
        """Records that are visible after the write."""
        self.decided: list[tuple[int, Decided]] = []
        self.store_ms = 0

    def mode(self, *, waits: bool) -> Mode:
        """Return the mode of the placed entry. `waits` is True if it reports a decision that is not durable yet."""
        part = self.part
        if self.held:
            if part.placed:
                self._rules.add_part(part)
            return Mode.SYNC
        if part.placed:
            return Mode.ASYNC
        return Mode.SYNC if waits else Mode.EARLY  # that decision may promise more than its own topic

    def take_back(self) -> None:
        """Forget the decisions, whose records are taken back: the items are undecided again."""
        self._forget()

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> int:
        """Make the records readable and their items decided. Returns the number of items."""
        placed = self.held or self.part.placed
        show(placed, self.store_ms, index, arrivals)
        count = len(self.decided)
        self._rules.table.settle_all(self._source, self.decided)
        self._rules.copies.decided(self._source, self.decided)
        if count and self._source[2]:
            self._rules.group_decisions.decided(self._source, [one[0] for one in self.decided], placed[0][2])
        self._forget()
        return count

    def _forget(self) -> None:
        deciding = self._rules.deciding.get(self._source)
        if deciding is not None:
            for offset, _ in self.decided:
                deciding.pop(offset, None)
            if not deciding:
                del self._rules.deciding[self._source]
        self.decided = []
        self.held = []


class SettledPart:
    """The records of a request that are visible after the write, while others wait for the flush."""

    count = 1

    def __init__(self) -> None:
        self.mode = Mode.ASYNC
        self.placed: list[Placed] = []
        self._store_ms = 0

    def take(self, store_ms: int) -> list[Placed]:
        """Return the list to add records to."""
        self._store_ms = store_ms
        return self.placed

    def place(self, at: RecordWriter) -> None:
        raise AssertionError("it is placed already")

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        show(self.placed, self._store_ms, index, arrivals)

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        """Do nothing: the request does it."""

    def refuse(self, refusal: RefusedRequest) -> None:
        """Do nothing: the request does it."""
