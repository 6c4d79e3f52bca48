# ruff: noqa: D102 - the Protocols say what these methods promise
"""Consecutive ordinary decisions about halves, as one entry of the group commit.

As with a settle request, placing decides. A half that is already decided, or that needs the slow path, is
left to the slow path, which knows the answer.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from broker_store.commit.message import Arrivals, IndexEntry
from broker_store.commit.record_writer import RecordWriter
from broker_store.log.errors import LogError
from broker_store.ports import Peer
from broker_store.settling.request.outcomes import Outcomes, Rules
from broker_store.settling.request.output_records import CannotPlan
from broker_store.transactions.end_transaction.decision_records import HALF_SOURCE, DecisionRecords
from broker_store.transactions.half_messages.recent_halves import Half
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command


class Ordinary(NamedTuple):
    """An ordinary decision and its client."""

    half: Half
    is_commit: bool
    peer: Peer
    command: Command


class Asked(Protocol):
    """Answers the clients of decisions."""

    def decided(self, rows: list[Ordinary]) -> None:
        """Answer rows that are decided, as durably as their topics promise."""
        ...

    def left(self, row: Ordinary) -> None:
        """Take the slow path with a row that was not decided here."""
        ...

    def refused(self, row: Ordinary, refusal: RefusedRequest) -> None:
        """Answer a row that is not decided, or whose result is unknown."""
        ...


class DecisionRun:
    """One or more decisions, each about another half."""

    count = 1

    def __init__(
        self,
        rules: Rules,
        asked: Asked,
        placing: Callable[[], None],
        retry: Callable[[RefusedRequest], bool],
    ) -> None:
        """`placing` is called when nothing more may be added.

        `retry` says whether a run that was refused before placing is tried again.
        """
        self.mode = rules.mode_expected
        self.rows: dict[int, Ordinary] = {}
        """By offset of the half."""
        self._rules = rules
        self._asked = asked
        self._placing = placing
        self._retry = retry
        self._outcomes = Outcomes(rules, HALF_SOURCE)
        self._left: list[int] = []

    def place(self, at: RecordWriter) -> None:
        self._placing()
        rules, outcomes, left = self._rules, self._outcomes, self._left
        outcomes.store_ms = at.store_ms
        at.when_taken_back(outcomes.take_back)
        deciding = rules.deciding.get(HALF_SOURCE) or {}
        is_settled, decided = rules.table.decided_of(HALF_SOURCE), outcomes.decided
        with_copies = rules.copies.with_copies(HALF_SOURCE)
        try:
            records = DecisionRecords(
                rules.target_finder(), at, outcomes.held, outcomes.part.take(at.store_ms)
            )
        except CannotPlan:  # there is no queue for op messages
            self._left = list(self.rows)
            self.mode = outcomes.mode(waits=False)
            return
        put, offsets = records.put, list[int]()
        for offset, row in self.rows.items():
            if offset in deciding or is_settled(offset) or offset in with_copies:
                left.append(offset)
                continue
            try:
                is_put = put(row.half, is_commit=row.is_commit)
            except (CannotPlan, LogError):
                is_put = False
            (offsets if is_put else left).append(offset)
        decided += zip(offsets, records.finish(), strict=True)
        deciding.update(decided)
        if deciding:
            rules.deciding[HALF_SOURCE] = deciding
        self.mode = outcomes.mode(waits=False)

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        self._outcomes.make_visible(index, arrivals)

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:  # noqa: ARG002
        rows, self.rows = self.rows, {}
        left = [rows.pop(offset) for offset in self._left] if rows else []
        if not code:
            self._asked.decided(list(rows.values()))
        else:
            remark = (
                "the decision is written but its flush takes long: repeat the request to learn the result"
            )
            refusal = RefusedRequest(code, remark, {"gantryCode": "RESULT_UNKNOWN"})
            for row in rows.values():
                self._asked.refused(row, refusal)
        for row in left:
            self._asked.left(row)

    def refuse(self, refusal: RefusedRequest) -> None:
        self._placing()
        if self._retry(refusal):
            return
        rows, self.rows = self.rows, {}
        for row in rows.values():
            self._asked.refused(row, refusal)
