"""Creates, shows, cancels and lists tasks (9014 to 9017) on the store that has their records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.names import check_group, check_topic
from gantry_wire.private_requests.scheduling import (
    PAGE_MAX,
    CreateTask,
    ListTasks,
    TaskOrder,
    TasksPage,
    TaskView,
    split_task_id,
)
from scheduler.tasks.desk import Desk
from scheduler.tasks.redrive import ORIGINAL, message_filter
from scheduler.terms.term import Term


class TaskOrders:
    """Tasks of the stores this scheduler works on."""

    def __init__(self, terms: Callable[[], Sequence[Term]]) -> None:
        self._terms = terms

    async def create(self, asked: CreateTask) -> TaskView:
        """9014."""
        _check(asked)
        return await self._desk(asked.broker).create(asked)

    async def show(self, order: TaskOrder) -> TaskView:
        """9015."""
        return self._desk(_broker_of(order)).show(order.id)

    async def cancel(self, order: TaskOrder) -> TaskView:
        """9016."""
        return await self._desk(_broker_of(order)).cancel(order.id)

    async def list(self, asked: ListTasks) -> TasksPage:
        """9017."""
        if not 1 <= asked.limit <= PAGE_MAX:
            raise _invalid(f"limit is {asked.limit}; it must be 1 to {PAGE_MAX}")
        terms = self._terms()
        found = [
            view for term in terms for view in term.desk.views.values() if asked.state in (None, view.state)
        ]
        found.sort(key=lambda view: (-view.created_ms, view.id))
        incomplete = [term.broker for term in terms if not term.desk.is_complete]
        return TasksPage(
            tasks=found[: asked.limit], brokers=[term.broker for term in terms], incomplete=incomplete
        )

    def _desk(self, broker: str | None) -> Desk:
        for term in self._terms():
            if broker in (None, term.broker):
                return term.desk
        message = f"this scheduler does not serve {broker or 'any store'} now; ask the scheduler that holds its claims"
        raise RefusedRequest(ResponseCode.SERVICE_NOT_AVAILABLE, message, {"gantryCode": "NOT_HELD"})


def _broker_of(order: TaskOrder) -> str:
    parts = split_task_id(order.id)
    if parts is None:
        raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, f"there is no task {order.id[:64]!r}")
    return parts[0]


def _check(asked: CreateTask) -> None:
    """Refuse tasks that can never run; the error says what to give."""
    if asked.max_per_second is not None and not 0 < asked.max_per_second <= 1_000_000:
        raise _invalid(f"maxPerSecond is {asked.max_per_second}; it must be above 0 and at most 1000000")
    if asked.kind == "redrive":
        if not asked.group:
            raise _invalid("a redrive needs `group`: whose dead letters to redrive")
        try:
            check_group(asked.group)
            if asked.target not in (None, ORIGINAL):
                check_topic(asked.target)
            message_filter(asked.filter)
        except WireError as error:
            raise _invalid(str(error)) from error
    elif asked.schedules is None:
        raise _invalid(f"{asked.kind} needs `schedules`: which messages to change")
    elif asked.kind == "bulkMove" and (asked.deliver_at_ms is None) == (asked.shift_ms is None):
        raise _invalid("bulkMove needs either deliverAtMs or shiftMs")


def _invalid(message: str) -> RefusedRequest:
    return RefusedRequest(ResponseCode.INVALID_PARAMETER, message)
