"""Bulk cancel and bulk move: sends one order per message of a query to the scheduler that holds its store.

A moved message gets a new place at the end of the timer queue. Messages placed there after the task began are
skipped, so none is moved twice, even when the task resumes after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from gantry_link.clients.scheduler import SchedulerClient
from gantry_link.clients.store import StoreClient
from gantry_link.system_queues.claims import claim_holder
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.scheduling import (
    ListSchedules,
    MoveSchedule,
    Schedule,
    ScheduleAnswer,
    ScheduleOrder,
    ScheduleQuery,
    TaskFailure,
)
from scheduler.tasks.running_task import RunningTask

PAGE_SCHEDULES = 64
ORDER_SECONDS = 20.0


class NobodyHolds(Exception):
    """No scheduler holds a store now; the task continues later."""


class Bulk:
    """The work of a bulk task."""

    def __init__(self, stores: Callable[[], Mapping[str, StoreClient]]) -> None:
        self._stores = stores

    async def run(self, task: RunningTask) -> None:
        """Send the orders. Raises LinkError, BrokerRefused, NobodyHolds."""
        only = (task.view.definition.schedules or ScheduleQuery()).broker
        stores = {name: store for name, store in self._stores().items() if only in (None, name)}
        _forget_what_is_found_again(task)
        if not task.marks:
            marks = {broker: await store.max_offset(TIMER_TOPIC, 0) for broker, store in stores.items()}
            task.marks.update(marks)
            await task.checkpoint(now=True)
        for broker, store in sorted(stores.items()):
            if broker in task.marks:
                await self._one_store(task, broker, store)
            if task.is_cancelled:
                return

    async def _one_store(self, task: RunningTask, broker: str, store: StoreClient) -> None:
        scheduler, after = await _holder(store), None
        query = task.view.definition.schedules or ScheduleQuery()
        while not task.is_cancelled:
            asked = ListSchedules(
                topic=query.topic, key=query.key, from_ms=query.from_ms, to_ms=query.to_ms,
                broker=broker, limit=PAGE_SCHEDULES, after=after,
            )  # fmt: skip
            page = await scheduler.list_schedules(asked)
            if broker not in page.brokers or page.incomplete:
                raise NobodyHolds(f"the index of {broker} is not complete yet")
            await self._orders(task, scheduler, [one for one in page.schedules if _is_old(task, one)])
            await task.checkpoint()
            after = page.next
            if after is None:
                return

    async def _orders(
        self, task: RunningTask, scheduler: SchedulerClient, schedules: Sequence[Schedule]
    ) -> None:
        task.view.total += len(schedules)
        if task.view.definition.dry_run:
            task.count(
                "wouldCancel" if task.view.definition.kind == "bulkCancel" else "wouldMove", len(schedules)
            )
            return
        size = task.batch(PAGE_SCHEDULES)
        for begin in range(0, len(schedules), size):
            some = schedules[begin : begin + size]
            orders = (self._order(task, scheduler, one) for one in some)
            answers = await asyncio.gather(*orders, return_exceptions=True)
            for one, answer in zip(some, answers, strict=True):
                if not isinstance(answer, BaseException):
                    _count(task, one, answer)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
            if any(isinstance(answer, ScheduleAnswer) and answer.status == "notReady" for answer in answers):
                raise NobodyHolds("the scheduler does not know all messages of the store now")
            await task.pace(len(some))
            if task.is_cancelled:
                return

    async def _order(self, task: RunningTask, scheduler: SchedulerClient, one: Schedule) -> ScheduleAnswer:
        definition = task.view.definition
        if definition.kind == "bulkCancel":
            return await scheduler.cancel(ScheduleOrder(id=one.id, broker=one.broker))
        at_ms = definition.deliver_at_ms
        if at_ms is None:
            at_ms = max(one.deliver_at_ms + (definition.shift_ms or 0), 0)
        return await scheduler.move(MoveSchedule(id=one.id, broker=one.broker, deliver_at_ms=at_ms))


def _forget_what_is_found_again(task: RunningTask) -> None:
    """Remove from the counts what still waits, because a task that continues lists it once more."""
    view = task.view
    view.failures.clear()
    view.failed = 0
    view.outcomes.pop("failed", None)
    if view.definition.dry_run:
        view.outcomes.clear()
        view.done = 0
    view.total = view.done


def _count(task: RunningTask, one: Schedule, answer: ScheduleAnswer) -> None:
    """Count an order that was carried out, or failed."""
    if answer.status == "failed":
        task.fail(
            TaskFailure(
                broker=one.broker,
                topic=one.topic,
                queue_id=one.queue_id,
                offset=one.system_offset,
                reason=answer.error or answer.status,
            )
        )
    elif answer.status != "notReady":
        task.count(answer.status)


def _is_old(task: RunningTask, one: Schedule) -> bool:
    return one.kind == "level" or one.system_offset < task.marks[one.broker]


async def _holder(store: StoreClient) -> SchedulerClient:
    holder = await claim_holder(store, SCHEDULE_TOPIC, 0)
    if holder is None:
        raise NobodyHolds("no scheduler holds this store now")
    return SchedulerClient(store.pool, holder.address, ORDER_SECONDS)
