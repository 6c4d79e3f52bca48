"""The typed client of a scheduler: schedules, parked messages, tasks. `claims.claim_holder` finds the scheduler."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gantry_link.calling.store_calls import StoreCalls
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.scheduling import (
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
    """Requests to one scheduler. Methods raise BrokerRefused, or LinkError with `sent`.

    All requests may be repeated: a request already executed is answered `alreadyDelivered` or as before.
    """

    async def list_schedules(self, query: ListSchedules) -> SchedulesPage:
        """9010: list pending schedules."""
        return await self._do(GantryCode.LIST_SCHEDULES, query, SchedulesPage)

    async def cancel(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9011: cancel a delivery."""
        return await self._do(GantryCode.CANCEL_SCHEDULE, order, ScheduleAnswer)

    async def move(self, order: MoveSchedule) -> ScheduleAnswer:
        """9012: change the delivery time."""
        return await self._do(GantryCode.MOVE_SCHEDULE, order, ScheduleAnswer)

    async def deliver_now(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9013: deliver at once."""
        return await self._do(GantryCode.DELIVER_NOW, order, ScheduleAnswer)

    async def create_task(self, task: CreateTask) -> TaskView:
        """9014: start a task. The answer comes when its definition is stored."""
        return await self._do(GantryCode.TASK_CREATE, task, TaskView)

    async def show_task(self, order: TaskOrder) -> TaskView:
        """9015: return a task and its progress. Raises BrokerRefused with QUERY_NOT_FOUND if it does not exist."""
        return await self._do(GantryCode.TASK_SHOW, order, TaskView)

    async def cancel_task(self, order: TaskOrder) -> TaskView:
        """9016: cancel a task; messages already processed stay so."""
        return await self._do(GantryCode.TASK_CANCEL, order, TaskView)

    async def list_tasks(self, query: ListTasks) -> TasksPage:
        """9017: list tasks, newest first."""
        return await self._do(GantryCode.TASK_LIST, query, TasksPage)

    async def list_parked(self, query: ListParked) -> SchedulesPage:
        """9018: list parked messages: those set aside after failed deliveries."""
        return await self._do(GantryCode.LIST_PARKED, query, SchedulesPage)

    async def resend_parked(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9019: deliver a parked message now."""
        return await self._do(GantryCode.PARKED_RESEND, order, ScheduleAnswer)

    async def _do(self, code: GantryCode, ask: msgspec.Struct, kind: type[AnswerT]) -> AnswerT:
        return decode_body((await self.ask(code, None, _encode(ask))).body, kind)
