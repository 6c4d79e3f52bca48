"""Messages that wait for their time: list, cancel, move, deliver now."""

from collections.abc import Callable
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Query
from pydantic import WithJsonSchema

from gantry_wire.scheduler_bodies import (
    PAGE_MAX,
    ListSchedules,
    ScheduleAnswer,
    ScheduleOrder,
)
from gateway.http.problems import invalid
from gateway.messages.message_view import rfc3339
from gateway.requests.checks import time_ms, topic_of
from gateway.requests.paging import MARK_CHARS_MAX
from gateway.requests.parameters import TIME_SCHEMA, BrokerOrAll, IdPath, TopicOrAll, problems
from gateway.schedules.schedules import SchedulePage, Schedules
from gateway.schedules.schemas import (
    MoveBody,
    ScheduleDone,
    ScheduleShown,
    SchedulesShown,
)
from gateway.send.delays import checked_delay, checked_instant

LIMIT_DEFAULT = 100
_TIME = "RFC 3339, or milliseconds since 1970."

MaxQuery = Annotated[int, Query(alias="max", ge=1, le=PAGE_MAX)]
AfterQuery = Annotated[
    str,
    Query(max_length=MARK_CHARS_MAX, pattern=r"^[A-Za-z0-9_-]*$", description="`next` of the page before."),
]


def schedule_routes(schedules: Schedules, wall_ms: Callable[[], int], horizon_ms: int) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["schedules"])

    @router.get("/v1/schedules", responses=problems(400, 403, 404))
    async def list_schedules(
        topic: TopicOrAll = "",
        key: Annotated[str, Query(max_length=1024, pattern=r"^\S*$", description="One of its keys.")] = "",
        broker: BrokerOrAll = "",
        begin: Annotated[str, Query(alias="from", description=_TIME), WithJsonSchema(TIME_SCHEMA)] = "0",
        end: Annotated[str | None, Query(alias="to", description=_TIME), WithJsonSchema(TIME_SCHEMA)] = None,
        limit: MaxQuery = LIMIT_DEFAULT,
        after: AfterQuery = "",
    ) -> SchedulesShown:
        """List messages that wait for their time: due at `from` or later and before `to`, by due time."""
        query = ListSchedules(
            topic=topic_of(topic) if topic else None,
            key=key or None,
            broker=broker or None,
            from_ms=time_ms(begin, "from") or None,
            to_ms=time_ms(end, "to") if end is not None else None,
            limit=limit,
            after=after,
        )
        return shown_page(await schedules.pending(query))

    @router.delete("/v1/schedules/{id:id}", responses=problems(400, 403, 404, 409, 507))
    async def cancel_schedule(
        id: IdPath,  # noqa: A002 - the name in the path
        topic: TopicOrAll = "",
        broker: BrokerOrAll = "",
    ) -> ScheduleDone:
        """Cancel a message: it is never delivered."""
        return done(await schedules.cancel(order_of(id, topic, broker)))

    @router.patch("/v1/schedules/{id:id}", responses=problems(400, 403, 404, 409, 413, 415, 507))
    async def move_schedule(
        id: IdPath,  # noqa: A002 - the name in the path
        body: MoveBody,
        topic: TopicOrAll = "",
        broker: BrokerOrAll = "",
    ) -> ScheduleDone:
        """Deliver a message at another time; it keeps its id."""
        deliver_ms = _moved_to(body, wall_ms(), horizon_ms)
        return done(await schedules.move(order_of(id, topic, broker), deliver_ms))

    @router.post("/v1/schedules/{id:id}:deliverNow", responses=problems(400, 403, 404, 409, 507))
    async def deliver_now(
        id: IdPath,  # noqa: A002 - the name in the path
        topic: TopicOrAll = "",
        broker: BrokerOrAll = "",
    ) -> ScheduleDone:
        """Deliver a message at once."""
        return done(await schedules.deliver_now(order_of(id, topic, broker)))

    return router


def _moved_to(body: MoveBody, now_ms: int, horizon_ms: int) -> int:
    """Return the time that a move asks for."""
    if body.delay_ms is not None and body.deliver_at is None:
        return now_ms + checked_delay(body.delay_ms, horizon_ms, "delayMs")
    if body.deliver_at is not None and body.delay_ms is None:
        return checked_instant(body.deliver_at, now_ms, horizon_ms, "deliverAt")
    raise invalid("deliverAt", "give deliverAt or delayMs: one of the two", "deliverAt or delayMs")


def order_of(message_id: str, topic: str, broker: str) -> ScheduleOrder:
    """Return the order for one message."""
    return ScheduleOrder(id=message_id, broker=broker or None, topic=topic_of(topic) if topic else None)


def done(answer: ScheduleAnswer) -> ScheduleDone:
    """Return what became of a message."""
    return ScheduleDone(
        status=cast("Literal['cancelled', 'moved', 'delivered']", answer.status),  # the others were problems
        message_id=answer.id,
        broker=answer.broker,
        deliver_at=None if answer.deliver_at_ms is None else rfc3339(answer.deliver_at_ms),
    )


def shown_page(page: SchedulePage) -> SchedulesShown:
    """Return a page as HTTP shows it."""
    shown = [
        ScheduleShown(
            message_id=one.id,
            broker=one.broker,
            topic=one.topic,
            queue_id=one.queue_id,
            deliver_at=rfc3339(one.deliver_at_ms),
            kind=one.kind,
            level=one.level,
            keys=one.keys,
            attempts=one.attempts,
            error=one.error,
        )
        for one in page.schedules
    ]
    return SchedulesShown(schedules=shown, next=page.next, missing=page.missing)
