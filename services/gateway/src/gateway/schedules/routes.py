"""Delayed messages: list, cancel, move, deliver now."""

from collections.abc import Callable
from typing import Annotated, Literal, cast

from msgspec import Meta

from gantry_wire.private_requests.scheduling import PAGE_MAX, ListSchedules, ScheduleAnswer, ScheduleOrder
from gateway.http.call import Call
from gateway.http.problems import invalid
from gateway.messages.message_view import rfc3339
from gateway.requests.checks import time_ms, topic_of
from gateway.requests.fields import BrokerOrAll, KeyOrAll, MessageId, TimeText, TopicOrAll
from gateway.requests.operations import Operation, Operations
from gateway.requests.paging import MARK_CHARS_MAX
from gateway.schedules.schedules import SchedulePage, Schedules
from gateway.schedules.schemas import (
    MoveBody,
    ScheduleDone,
    ScheduleShown,
    SchedulesShown,
)
from gateway.send.delays import checked_delay, checked_instant

LIMIT_DEFAULT = 100

PageSize = Annotated[int, Meta(ge=1, le=PAGE_MAX)]
After = Annotated[
    str,
    Meta(max_length=MARK_CHARS_MAX, pattern=r"^[A-Za-z0-9_-]*$", description="`next` of the previous page."),
]


def schedule_routes(schedules: Schedules, wall_ms: Callable[[], int], horizon_ms: int) -> list[Operation]:
    """Return the routes."""
    calls = Operations("schedules")

    @calls.get("/v1/schedules", 400, 403, 404)
    async def list_schedules(
        topic: TopicOrAll = "",
        key: KeyOrAll = "",
        broker: BrokerOrAll = "",
        from_: TimeText = "0",
        to: TimeText | None = None,
        max_: PageSize = LIMIT_DEFAULT,
        after: After = "",
    ) -> SchedulesShown:
        """List delayed messages that are due in [`from`, `to`), by due time."""
        query = ListSchedules(
            topic=topic_of(topic) if topic else None,
            key=key or None,
            broker=broker or None,
            from_ms=time_ms(from_, "from") or None,
            to_ms=time_ms(to, "to") if to is not None else None,
            limit=max_,
            after=after,
        )
        return shown_page(await schedules.pending(query))

    @calls.delete("/v1/schedules/{id:id}", 400, 403, 404, 409, 507)
    async def cancel_schedule(
        call: Call, id_: MessageId, topic: TopicOrAll = "", broker: BrokerOrAll = ""
    ) -> ScheduleDone:
        """Cancel a message: it is never delivered."""
        call.check_unread_record()
        return done(await schedules.cancel(order_of(id_, topic, broker)))

    @calls.patch("/v1/schedules/{id:id}", 400, 403, 404, 409, 413, 415, 507)
    async def move_schedule(
        call: Call,
        id_: MessageId,
        body: MoveBody,
        topic: TopicOrAll = "",
        broker: BrokerOrAll = "",
    ) -> ScheduleDone:
        """Deliver a message at another time; it keeps its id."""
        call.check_unread_record()
        deliver_ms = _moved_to(body, wall_ms(), horizon_ms)
        return done(await schedules.move(order_of(id_, topic, broker), deliver_ms))

    @calls.post("/v1/schedules/{id:id}:deliverNow", 400, 403, 404, 409, 507)
    async def deliver_now(
        call: Call, id_: MessageId, topic: TopicOrAll = "", broker: BrokerOrAll = ""
    ) -> ScheduleDone:
        """Deliver a message at once."""
        call.check_unread_record()
        return done(await schedules.deliver_now(order_of(id_, topic, broker)))

    return calls.all


def _moved_to(body: MoveBody, now_ms: int, horizon_ms: int) -> int:
    """Return the time that a move requests."""
    if body.delay_ms is not None and body.deliver_at is None:
        return now_ms + checked_delay(body.delay_ms, horizon_ms, "delayMs")
    if body.deliver_at is not None and body.delay_ms is None:
        return checked_instant(body.deliver_at, now_ms, horizon_ms, "deliverAt")
    raise invalid("deliverAt", "give deliverAt or delayMs: one of the two", "deliverAt or delayMs")


def order_of(message_id: str, topic: str, broker: str) -> ScheduleOrder:
    """Return the request for one message."""
    return ScheduleOrder(id=message_id, broker=broker or None, topic=topic_of(topic) if topic else None)


def done(answer: ScheduleAnswer) -> ScheduleDone:
    """Return the result for a message."""
    return ScheduleDone(
        status=cast(
            "Literal['cancelled', 'moved', 'delivered']", answer.status
        ),  # all other results were raised as problems
        message_id=answer.id,
        broker=answer.broker,
        deliver_at=None if answer.deliver_at_ms is None else rfc3339(answer.deliver_at_ms),
    )


def shown_page(page: SchedulePage) -> SchedulesShown:
    """Return the HTTP form of a page."""
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
