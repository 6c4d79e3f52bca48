"""Routes of the scheduler by request code, in the order of docs/protocol.md."""

from __future__ import annotations

from typing import Any

from gantry_link.serving.service_listener import Route
from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.scheduling import (
    CreateTask,
    ListParked,
    ListSchedules,
    ListTasks,
    MoveSchedule,
    ScheduleOrder,
    TaskOrder,
)
from scheduler.orders.orders import Orders
from scheduler.orders.task_orders import TaskOrders


def routes_of(orders: Orders, tasks: TaskOrders) -> dict[int, Route[Any]]:
    """Return the route table."""
    return {
        GantryCode.LIST_SCHEDULES: Route("listSchedules", ListSchedules, orders.list),
        GantryCode.CANCEL_SCHEDULE: Route("cancelSchedule", ScheduleOrder, orders.cancel),
        GantryCode.MOVE_SCHEDULE: Route("moveSchedule", MoveSchedule, orders.move),
        GantryCode.DELIVER_NOW: Route("deliverNow", ScheduleOrder, orders.deliver_now),
        GantryCode.TASK_CREATE: Route("createTask", CreateTask, tasks.create),
        GantryCode.TASK_SHOW: Route("showTask", TaskOrder, tasks.show),
        GantryCode.TASK_CANCEL: Route("cancelTask", TaskOrder, tasks.cancel),
        GantryCode.TASK_LIST: Route("listTasks", ListTasks, tasks.list),
        GantryCode.LIST_PARKED: Route("listParked", ListParked, orders.list_parked),
        GantryCode.PARKED_RESEND: Route("resendParked", ScheduleOrder, orders.resend_parked),
    }
