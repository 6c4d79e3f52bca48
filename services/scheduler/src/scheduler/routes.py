"""What the scheduler answers, by request code, in the order of docs/protocol.md."""

from __future__ import annotations

from typing import Any

from gantry_link.service_door import Route
from gantry_wire.codes import GantryCode
from gantry_wire.scheduler_bodies import ListParked, ListSchedules, MoveSchedule, ScheduleOrder
from scheduler.orders import Orders


def routes_of(orders: Orders) -> dict[int, Route[Any]]:
    """Return the table."""
    return {
        GantryCode.LIST_SCHEDULES: Route("listSchedules", ListSchedules, orders.list),
        GantryCode.CANCEL_SCHEDULE: Route("cancelSchedule", ScheduleOrder, orders.cancel),
        GantryCode.MOVE_SCHEDULE: Route("moveSchedule", MoveSchedule, orders.move),
        GantryCode.DELIVER_NOW: Route("deliverNow", ScheduleOrder, orders.deliver_now),
        GantryCode.LIST_PARKED: Route("listParked", ListParked, orders.list_parked),
        GantryCode.PARKED_RESEND: Route("resendParked", ScheduleOrder, orders.resend_parked),
    }
