"""The typed client of a scheduler: schedules, parked messages, tasks. Finding the scheduler is `claims.claim_holder`."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gantry_link.store_calls import StoreCalls
from gantry_wire.bodies import decode_body
from gantry_wire.codes import GantryCode
from gantry_wire.scheduler_bodies import (
    CreateTask,
    ListParked,
    ListSchedules,
    ListTasks,
    MoveSchedule,
    ScheduleAnswer,
    ScheduleOrder,
    SchedulesPage,
    TaskOrder,
    TasksPage,
    TaskView,
)

AnswerT = TypeVar("AnswerT", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode


class SchedulerClient(StoreCalls):
    """Everything that is asked of one scheduler. Methods raise BrokerRefused, or LinkError with `sent`.

    All of them may be repeated: an order that was carried out is answered `alreadyDelivered` or as it was before.
    """

    async def list_schedules(self, query: ListSchedules) -> SchedulesPage:
        """9010: what waits for its time."""
        return await self._do(GantryCode.LIST_SCHEDULES, query, SchedulesPage)

    async def cancel(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9011: never deliver it."""
        return await self._do(GantryCode.CANCEL_SCHEDULE, order, ScheduleAnswer)

    async def move(self, order: MoveSchedule) -> ScheduleAnswer:
        """9012: deliver it at another time."""
        return await self._do(GantryCode.MOVE_SCHEDULE, order, ScheduleAnswer)

    async def deliver_now(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9013: deliver it at once."""
        return await self._do(GantryCode.DELIVER_NOW, order, ScheduleAnswer)

    async def create_task(self, task: CreateTask) -> TaskView:
        """9014: start a task; answered when its definition is stored."""
        return await self._do(GantryCode.TASK_CREATE, task, TaskView)

    async def show_task(self, order: TaskOrder) -> TaskView:
        """9015: a task as far as it is; BrokerRefused with QUERY_NOT_FOUND when there is none."""
        return await self._do(GantryCode.TASK_SHOW, order, TaskView)

    async def cancel_task(self, order: TaskOrder) -> TaskView:
        """9016: end a task where it is."""
        return await self._do(GantryCode.TASK_CANCEL, order, TaskView)

    async def list_tasks(self, query: ListTasks) -> TasksPage:
        """9017: tasks, the newest first."""
        return await self._do(GantryCode.TASK_LIST, query, TasksPage)

    async def list_parked(self, query: ListParked) -> SchedulesPage:
        """9018: messages that could not be delivered and were set aside."""
        return await self._do(GantryCode.LIST_PARKED, query, SchedulesPage)

    async def resend_parked(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9019: deliver a parked message now."""
        return await self._do(GantryCode.PARKED_RESEND, order, ScheduleAnswer)

    async def _do(self, code: GantryCode, ask: msgspec.Struct, kind: type[AnswerT]) -> AnswerT:
        return decode_body((await self.ask(code, None, _encode(ask))).body, kind)
