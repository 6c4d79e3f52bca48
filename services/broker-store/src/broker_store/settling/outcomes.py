# ruff: noqa: ARG002, D102 - the Protocols say what these methods promise
"""What one entry of the group commit decided, from its placing until its records are visible. Places nothing and answers nobody."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.message import Arrivals, Entry, IndexEntry, Mode, Placement
from broker_store.commit.queues import Queue
from broker_store.commit.targets import Target
from broker_store.config.delay_levels import LevelList
from broker_store.settling.mark import Source
from broker_store.settling.placed import Placed, show
from broker_store.settling.planning import FindTarget
from broker_store.settling.table import Decided, SettledTable
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

SUPERSEDED = "superseded"
"""Outcome of an item that is done with because another copy of it goes on, or was decided. May be said of any copy at any time."""


class Elsewhere(NamedTuple):
    """A decision about another copy of an item, which decides this one too."""

    decision: Decided
    is_visible: bool


class ItemCopies(Protocol):
    """Which items are copies of one thing that is decided once."""

    def not_alone(self, source: Source) -> AbstractSet[int]:
        """Return the undecided items of a queue that have other copies, or of which another copy was decided."""
        ...

    def elsewhere(
        self, source: Source, offset: int, deciding: Mapping[Source, Mapping[int, Decided]]
    ) -> Elsewhere | None:
        """Return the decision about another copy of an item, where there is one; `deciding` as in Rules."""
        ...

    def decided(self, source: Source, decided: Sequence[tuple[int, Decided]]) -> None:
        """Note decisions whose records are visible."""
        ...


class Rules(Protocol):
    """What an entry asks about the store when it is placed."""

    table: SettledTable
    copies: ItemCopies
    deciding: dict[Source, dict[int, Decided]]
    """Items whose records are placed and not visible yet, by source and offset."""
    mode_expected: Mode
    """How most outputs are flushed: SYNC lets a request that waits to be placed share the next flush with the sends beside it."""
    levels: LevelList
    clock: StoreClock
    add_part: Callable[[Entry], None]
    """Takes a further entry into the batch that is being placed."""

    def targets(self) -> FindTarget:
        """Return what finds outputs' queues during one placement."""
        ...

    def marks(self) -> tuple[Target, Queue]:
        """Return where mark records go."""
        ...


class Outcomes:
    """Records that are placed, and the decisions they stand for. The table changes when they become visible, so it never knows more than the log."""

    __slots__ = ("_rules", "_source", "decided", "held", "part", "store_ms")

    def __init__(self, rules: Rules, source: Source) -> None:
        self._rules = rules
        self._source = source
        self.held: list[Placed] = []
        """Records that wait for a flush."""
        self.part = SettledPart()
        """Records that are visible as soon as they are written."""
        self.decided: list[tuple[int, Decided]] = []
        self.store_ms = 0

    def mode(self, *, waits: bool) -> Mode:
        """Return the mode of the entry, whose placing is over; `waits`: it tells of a decision that is not durable yet."""
        part = self.part
        if self.held:
            if part.placed:
                self._rules.add_part(part)
            return Mode.SYNC
        if part.placed:
            return Mode.ASYNC
        return Mode.SYNC if waits else Mode.EARLY  # what decided it may promise more than its own topic

    def take_back(self) -> None:
        """Undo the placing: the items are undecided again."""
        for placed in (self.held, self.part.placed):
            for queue, offset, _, size, _, _, _ in reversed(placed):
                queue.next_offset = offset
                queue.put_bytes -= size
        self._forget()

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> int:
        """Make the records readable and their items decided; returns how many those are."""
        show(self.held or self.part.placed, self.store_ms, index, arrivals)
        count = len(self.decided)
        self._rules.table.settle_all(self._source, self.decided)
        self._rules.copies.decided(self._source, self.decided)
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
    """The records of a request that are visible as soon as they are written, beside others that wait for the flush."""

    count = 1

    def __init__(self) -> None:
        self.mode = Mode.ASYNC
        self.placed: list[Placed] = []
        self._store_ms = 0

    def take(self, store_ms: int) -> list[Placed]:
        """Return where records are added."""
        self._store_ms = store_ms
        return self.placed

    def place(self, at: Placement) -> None:
        raise AssertionError("it lies already")

    def take_back(self) -> None:
        """Its request does that."""

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        show(self.placed, self._store_ms, index, arrivals)

    def answer(self, at: Placement, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        """Its request does that."""

    def refuse(self, refusal: RefusedRequest) -> None:
        """Its request does that."""
