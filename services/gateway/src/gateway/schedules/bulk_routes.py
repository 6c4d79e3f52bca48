"""Delayed messages in bulk: tasks that cancel or move them; and parked messages."""

from collections.abc import Callable

from gantry_wire.private_requests.scheduling import CreateTask, ListParked, ScheduleQuery
from gateway.http.call import Call
from gateway.http.problems import invalid
from gateway.requests.checks import topic_of
from gateway.requests.fields import BrokerOrAll, MessageId, TopicOrAll
from gateway.requests.operations import Operation, Operations
from gateway.schedules.routes import LIMIT_DEFAULT, After, PageSize, done, order_of, shown_page
from gateway.schedules.schedules import Schedules
from gateway.schedules.schemas import (
    BulkBody,
    BulkMoveBody,
    ScheduleDone,
    SchedulesShown,
    TaskShown,
    instant_ms,
)
from gateway.schedules.task_routes import shown_task
from gateway.schedules.tasks import Tasks
from gateway.send.delays import checked_delay, checked_instant


def bulk_schedule_routes(tasks: Tasks, wall_ms: Callable[[], int], horizon_ms: int) -> list[Operation]:
    """Return the routes of the tasks."""
    calls = Operations("schedules")

    @calls.post("/v1/schedules:bulkCancel", 400, 403, 404, 413, 415, 507)
    async def cancel_schedules(body: BulkBody) -> TaskShown:
        """Start a task that cancels many messages."""
        task = CreateTask(
            kind="bulkCancel",
            broker=body.broker,
            schedules=_query(body),
            max_per_second=body.max_per_second,
            dry_run=body.dry_run,
        )
        return shown_task(await tasks.create(task))

    @calls.post("/v1/schedules:bulkMove", 400, 403, 404, 413, 415, 507)
    async def move_schedules(body: BulkMoveBody) -> TaskShown:
        """Start a task that moves many messages to one time, or each by a duration."""
        if (body.deliver_at is None) == (body.shift_ms is None):
            raise invalid("deliverAt", "give deliverAt or shiftMs: one of the two", "deliverAt or shiftMs")
        if body.deliver_at is not None:
            checked_instant(body.deliver_at, wall_ms(), horizon_ms, "deliverAt")
        if body.shift_ms is not None and abs(body.shift_ms) > horizon_ms:
            checked_delay(abs(body.shift_ms), horizon_ms, "shiftMs")
        task = CreateTask(
            kind="bulkMove",
            broker=body.broker,
            schedules=_query(body),
            deliver_at_ms=instant_ms(body.deliver_at),
            shift_ms=body.shift_ms,
            max_per_second=body.max_per_second,
            dry_run=body.dry_run,
        )
        return shown_task(await tasks.create(task))

    return calls.all


def parked_routes(schedules: Schedules) -> list[Operation]:
    """Return the routes of parked messages."""
    calls = Operations("schedules")

    @calls.get("/v1/parked", 400, 403, 404)
    async def list_parked(
        topic: TopicOrAll = "",
        broker: BrokerOrAll = "",
        max_: PageSize = LIMIT_DEFAULT,
        after: After = "",
    ) -> SchedulesShown:
        """List parked messages: those whose delivery failed for too long."""
        query = ListParked(
            topic=topic_of(topic) if topic else None, broker=broker or None, limit=max_, after=after
        )
        return shown_page(await schedules.parked(query))

    @calls.post("/v1/parked/{id:id}:resend", 400, 403, 404, 409, 507)
    async def resend_parked(
        call: Call,
        id_: MessageId,
        topic: TopicOrAll = "",
        broker: BrokerOrAll = "",
    ) -> ScheduleDone:
        """Try to deliver a parked message."""
        call.check_unread_record()
        return done(await schedules.resend_parked(order_of(id_, topic, broker)))

    return calls.all


def _query(body: BulkBody) -> ScheduleQuery:
    query = ScheduleQuery(
        topic=topic_of(body.topic) if body.topic else None,
        key=body.key,
        broker=body.broker,
        from_ms=instant_ms(body.from_),
        to_ms=instant_ms(body.to),
    )
    if query == ScheduleQuery():
        detail = "say which messages: topic, key, broker, from or to"
        raise invalid("topic", detail, "one of topic, key, broker, from, to")
    return query
