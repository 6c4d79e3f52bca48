"""Carries out orders on single messages (cancel, move, deliver now, resend parked) and lists waiting messages.

An order is settled like any other decision. The store reports which decision was first, so every answer is definite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.private_requests.scheduling import (
    ListParked,
    ListSchedules,
    MoveSchedule,
    ScheduleAnswer,
    ScheduleOrder,
    SchedulesPage,
    ScheduleStatus,
)
from gantry_wire.private_requests.settling import SettleItem, SettleResult, SettleStatus
from scheduler.delivering.decisions import CANCELLED, DELIVERED, MOVED, ROLLED, cancel, deliver, move
from scheduler.index.entries import PARKED, Entry, queue_of
from scheduler.index.sqlite_index import IndexClosed
from scheduler.metrics import SchedulerMetrics
from scheduler.orders.listing import Listing
from scheduler.orders.lookup import find_stored, find_waiting, was_delivered
from scheduler.terms.term import Term

Terms = Callable[[], Sequence[Term]]
Decide = Callable[[Entry], SettleItem]
ROUNDS_MAX = 8
"""Attempts on a message that is moved between lookup and decision."""
_LASTING_REFUSALS = frozenset({"DISK_FULL", "STORE_STOPPED"})
"""Store refusals that last: the caller gets them instead of an immediate retry."""
_ANSWERS: dict[str, ScheduleStatus] = {CANCELLED: "cancelled", MOVED: "moved", DELIVERED: "delivered"}


class Orders:
    """Orders and lists over all stores this scheduler works on."""

    def __init__(self, terms: Terms, metrics: SchedulerMetrics) -> None:
        self._terms, self._metrics = terms, metrics
        self._listing = Listing(terms)

    async def list(self, asked: ListSchedules) -> SchedulesPage:
        """9010."""
        return await self._listing.schedules(asked)

    async def list_parked(self, asked: ListParked) -> SchedulesPage:
        """9018."""
        return await self._listing.parked(asked)

    async def cancel(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9011."""
        return await self._carry_out(order, cancel, lambda entry: entry.source != PARKED)

    async def move(self, order: MoveSchedule) -> ScheduleAnswer:
        """9012."""
        if order.deliver_at_ms < 0:
            raise RefusedRequest(
                ResponseCode.INVALID_PARAMETER,
                f"deliverAtMs is {order.deliver_at_ms}; give a time since 1970",
            )
        answer = await self._carry_out(
            order, lambda entry: move(entry, order.deliver_at_ms), lambda entry: entry.source != PARKED
        )
        if answer.status == "moved":
            answer.deliver_at_ms = order.deliver_at_ms
        return answer

    async def deliver_now(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9013."""
        return await self._carry_out(
            order, lambda entry: deliver(entry, force=True), lambda entry: entry.source != PARKED
        )

    async def resend_parked(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9019."""
        return await self._carry_out(order, deliver, lambda entry: entry.source == PARKED)

    async def _carry_out(
        self, order: ScheduleOrder, decide: Decide, meant: Callable[[Entry], bool]
    ) -> ScheduleAnswer:
        """Ask each store in turn until one knows the message."""
        if not order.id:
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, "the message id is missing")
        brokers: list[str] = []
        incomplete: list[str] = []
        for term in self._terms():
            if order.broker not in (None, term.broker):
                continue
            brokers.append(term.broker)
            if not await term.catching_up.opens():
                incomplete.append(term.broker)
                continue
            try:
                answer = await self._try(term, order, decide, meant)
            except BrokerRefused as refused:
                if refused.fields.get("gantryCode") in _LASTING_REFUSALS:
                    raise
                incomplete.append(term.broker)
                continue
            except (LinkError, IndexClosed):
                incomplete.append(term.broker)
                continue
            if answer is not None:
                return answer
            if not term.catching_up.is_complete:
                incomplete.append(term.broker)
        return ScheduleAnswer(
            status="notReady" if incomplete or not brokers else "unknown",
            id=order.id,
            brokers=brokers,
            incomplete=incomplete,
        )

    async def _try(
        self, term: Term, order: ScheduleOrder, decide: Decide, meant: Callable[[Entry], bool]
    ) -> ScheduleAnswer | None:
        entries = list(filter(meant, await find_waiting(term, order.id, order.topic)))
        entries = entries or list(filter(meant, await find_stored(term, order.id, order.topic)))
        results = await _settle(term, entries, decide)
        for _ in range(ROUNDS_MAX):
            if not results or not all(_went_on(result) for _, result in results):
                break
            entries = list(filter(meant, await find_stored(term, order.id, order.topic)))
            results = await _settle(term, entries, decide)
        if not results:
            return None
        decided = (SettleStatus.SETTLED, SettleStatus.ALREADY)
        term.due_queues.forget([entry for entry, result in results if result.status in decided])
        outcome = decide(entries[0]).outcome
        self._metrics.outcomes.labels(outcome).value += sum(
            result.status == SettleStatus.SETTLED for _, result in results
        )
        return _answer(term, order, outcome, results)


async def _settle(term: Term, entries: Sequence[Entry], decide: Decide) -> list[tuple[Entry, SettleResult]]:
    """Settle the copies of a message; return the store's result for each."""
    results: list[tuple[Entry, SettleResult]] = []
    for source in {entry.source for entry in entries}:
        batch = [entry for entry in entries if entry.source == source]
        reply = await term.settler.settle(queue_of(source), list(map(decide, batch)))
        results += zip(batch, reply.results, strict=True)
    await _tell_what_is_forgotten(term, results)
    return results


def _went_on(result: SettleResult) -> bool:
    """Whether an earlier order or roll moved this copy further back in the timer queue."""
    return result.status == SettleStatus.ALREADY and result.outcome in (MOVED, ROLLED)


async def _tell_what_is_forgotten(term: Term, results: Iterable[tuple[Entry, SettleResult]]) -> None:
    """Tell whether decisions without a remembered outcome delivered their message, from the log.

    Stores keep outcomes in memory only. A decided message that is not in its own topic was cancelled. A client may
    repeat a cancel whose answer was lost; the answer must not claim a delivery.
    """
    for entry, result in results:
        is_forgotten = result.status == SettleStatus.ALREADY and not result.outcome and not result.outputs
        if is_forgotten:
            result.outcome = DELIVERED if await was_delivered(term, entry) else CANCELLED


def _answer(
    term: Term, order: ScheduleOrder, outcome: str, results: Iterable[tuple[Entry, SettleResult]]
) -> ScheduleAnswer:
    """Return the best outcome of the copies: done by this order, done by an equal one, or decided otherwise.

    A copy that was moved says nothing; the copy at its new place does.
    """
    status: ScheduleStatus = "failed"
    shown: Entry | None = None
    error: str | None = None
    for entry, result in results:
        shown = shown or entry
        if _went_on(result):
            error = error or "other requests keep moving the message; try again"
            continue
        if result.status == SettleStatus.SETTLED:
            status, shown = _ANSWERS[outcome], entry
            break
        if result.status == SettleStatus.ALREADY:
            is_repeat = outcome == CANCELLED and result.outcome == CANCELLED
            status, shown = ("cancelled" if is_repeat or status == "cancelled" else "alreadyDelivered"), entry
        else:
            error = f"{result.status}: {result.detail}" if result.detail else result.status
    return ScheduleAnswer(
        status=status,
        id=order.id,
        broker=term.broker,
        topic=shown.topic if shown else None,
        deliver_at_ms=shown.due_ms if shown and shown.source != PARKED else None,
        error=error if status == "failed" else None,
        brokers=[term.broker],
    )
