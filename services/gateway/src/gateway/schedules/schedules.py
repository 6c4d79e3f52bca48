"""Delayed messages: listed, cancelled, moved, delivered now, on any broker.

Results are definite: a message is reported missing only if every broker was asked and its index was complete.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.scheduling import (
    ListParked,
    ListSchedules,
    MoveSchedule,
    Schedule,
    ScheduleAnswer,
    ScheduleOrder,
    SchedulesPage,
)
from gateway.http.problems import Problem, away
from gateway.ports.schedulers import Scheduler, Schedulers
from gateway.ports.stores import Broker
from gateway.requests.paging import read_marks, write_marks
from gateway.routing.claim_holders import ClaimHolders, is_whole
from gateway.routing.fleet import demand_all

_FOUND = frozenset({"cancelled", "moved", "delivered", "alreadyDelivered"})
_UNDECIDED = frozenset({"notReady"})

AskPage = Callable[[Scheduler, str, str | None, int], Awaitable[SchedulesPage]]
"""Reads schedules of one broker, after a mark, up to a number."""


class SchedulePage(NamedTuple):
    """Schedules by due time; `next` is the mark of the next page, `missing` brokers could not be asked."""

    schedules: list[Schedule]
    next: str | None
    missing: list[str]


class Schedules:
    """The delayed messages of all brokers."""

    def __init__(self, claim_holders: ClaimHolders, schedulers: Schedulers) -> None:
        self._claim_holders, self._schedulers = claim_holders, schedulers

    async def pending(self, query: ListSchedules) -> SchedulePage:
        """Return pending schedules by due time."""

        def ask(scheduler: Scheduler, broker: str, after: str | None, limit: int) -> Awaitable[SchedulesPage]:
            return scheduler.list_schedules(
                msgspec.structs.replace(query, broker=broker, after=after, limit=limit)
            )

        return await self._page(ask, query.broker, query.after or "", query.limit)

    async def parked(self, query: ListParked) -> SchedulePage:
        """Return parked messages: those that could not be delivered."""

        def ask(scheduler: Scheduler, broker: str, after: str | None, limit: int) -> Awaitable[SchedulesPage]:
            return scheduler.list_parked(
                msgspec.structs.replace(query, broker=broker, after=after, limit=limit)
            )

        return await self._page(ask, query.broker, query.after or "", query.limit)

    async def cancel(self, order: ScheduleOrder) -> ScheduleAnswer:
        """Never deliver a message."""
        return await self._order(order, lambda scheduler, one: scheduler.cancel(one))

    async def deliver_now(self, order: ScheduleOrder) -> ScheduleAnswer:
        """Deliver a message at once."""
        return await self._order(order, lambda scheduler, one: scheduler.deliver_now(one))

    async def move(self, order: ScheduleOrder, deliver_at_ms: int) -> ScheduleAnswer:
        """Deliver a message at another time."""
        return await self._order(
            order,
            lambda scheduler, one: scheduler.move(
                MoveSchedule(id=one.id, broker=one.broker, topic=one.topic, deliver_at_ms=deliver_at_ms)
            ),
        )

    async def resend_parked(self, order: ScheduleOrder) -> ScheduleAnswer:
        """Deliver a parked message."""
        return await self._order(order, lambda scheduler, one: scheduler.resend_parked(one))

    async def _order(
        self,
        order: ScheduleOrder,
        give: Callable[[Scheduler, ScheduleOrder], Awaitable[ScheduleAnswer]],
    ) -> ScheduleAnswer:
        """Send a request to every broker until one has the message; raise 409, 404, or why it is unknown."""
        brokers, gone = await self._claim_holders.brokers(order.broker)

        async def at(broker: Broker) -> ScheduleAnswer:
            one = msgspec.structs.replace(order, broker=broker.name)
            return await self._claim_holders.ask(
                broker,
                SCHEDULE_TOPIC,
                lambda address: give(self._schedulers.at(address), one),
                is_ready=lambda answer: _is_definite(answer, broker.name),
            )

        answer = await _first_found([at(broker) for broker in brokers])
        if isinstance(answer, Problem):
            raise answer
        if answer is None:
            demand_all(gone, f"whether message {order.id} waits for its time is not known")
            raise Problem(
                404, "QUERY_NOT_FOUND", f"there is no message {order.id} that waits for its time", field="id"
            )
        if answer.status == "alreadyDelivered":
            detail = f"message {order.id} does not wait any more: it was delivered, cancelled or moved before"
            raise Problem(409, "ALREADY_DELIVERED", detail, field="id")
        if answer.status == "failed":
            raise away(f"broker {answer.broker} did not carry it out: {answer.error}")
        return answer

    async def _page(self, ask: AskPage, only: str | None, after: str, limit: int) -> SchedulePage:
        marks = read_marks(after)
        brokers, gone = await self._claim_holders.brokers(only)
        wanted = [broker for broker in brokers if marks.get(broker.name, "") is not None]

        async def at(broker: Broker, count: int) -> SchedulesPage:
            return await self._claim_holders.ask(
                broker,
                SCHEDULE_TOPIC,
                lambda address: ask(
                    self._schedulers.at(address), broker.name, marks.get(broker.name) or None, count
                ),
                is_ready=lambda page: is_whole(page, broker.name),
            )

        answers = await asyncio.gather(*(at(broker, limit) for broker in wanted), return_exceptions=True)
        pages: dict[str, SchedulesPage] = {}
        for broker, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, Problem) and len(wanted) > 1:
                gone.append(broker.name)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                pages[broker.name] = answer
        if wanted and not pages:
            demand_all(gone, "schedules cannot be listed")
        shown = sorted(
            (one for page in pages.values() for one in page.schedules),
            key=lambda one: (one.deliver_at_ms, one.broker, one.position),
        )[:limit]
        for broker in wanted:
            if (page := pages.get(broker.name)) is None:
                continue
            positions = {one.position for one in shown if one.broker == broker.name}
            mark = marks.get(broker.name) or ""
            marks[broker.name] = await _mark_behind(page, positions, mark, partial(at, broker))
        return SchedulePage(shown, write_marks(marks), sorted(set(gone)))


async def _mark_behind(
    page: SchedulesPage,
    shown: Collection[int],
    mark: str,
    ask_again: Callable[[int], Awaitable[SchedulesPage]],
) -> str | None:
    """Return the mark behind those schedules of a broker's page that are shown, given by their positions.

    Only the scheduler can create a mark, so the beginning of the page is asked for again. If it has changed meanwhile,
    the mark leaves out nothing that is not shown.
    """
    while count := sum(1 for _ in takewhile(lambda one: one.position in shown, page.schedules)):
        if count == len(page.schedules):
            return page.next
        page = await ask_again(count)
    return mark if page.schedules else page.next


def _is_definite(answer: ScheduleAnswer, broker: str) -> bool:
    if answer.status == "unknown":
        return broker not in answer.incomplete
    return answer.status not in _UNDECIDED


async def _first_found(
    asked: list[Coroutine[Any, Any, ScheduleAnswer]],
) -> ScheduleAnswer | Problem | None:
    """Return the response of the broker that has the message, else why a broker could not tell; None if no broker has it."""
    tasks = [asyncio.ensure_future(one) for one in asked]
    trouble: ScheduleAnswer | Problem | None = None
    try:
        for done in asyncio.as_completed(tasks):
            try:
                answer = await done
            except Problem as problem:
                trouble = trouble or problem
                continue
            if answer.status in _FOUND:
                return answer
            if answer.status == "failed":
                trouble = answer
        return trouble
    finally:
        for task in tasks:
            task.cancel()
