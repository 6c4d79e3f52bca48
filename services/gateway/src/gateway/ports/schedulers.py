"""The port for schedulers: which one serves a broker now, and its requests.

Adapter: link_schedules.py. Every call raises StoreRefused or PeerAway.
"""

from typing import Protocol

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
from gateway.ports.stores import Broker


class Scheduler(Protocol):
    """One scheduler. Its requests may be repeated; creating a task twice makes two tasks."""

    async def list_schedules(self, query: ListSchedules) -> SchedulesPage:
        """Return the scheduled messages."""
        ...

    async def cancel(self, order: ScheduleOrder) -> ScheduleAnswer:
        """Never deliver a message."""
        ...

    async def move(self, order: MoveSchedule) -> ScheduleAnswer:
        """Deliver a message at another time."""
        ...

    async def deliver_now(self, order: ScheduleOrder) -> ScheduleAnswer:
        """Deliver a message at once."""
        ...

    async def list_parked(self, query: ListParked) -> SchedulesPage:
        """Return the parked messages: those that could not be delivered."""
        ...

    async def resend_parked(self, order: ScheduleOrder) -> ScheduleAnswer:
        """Deliver a parked message."""
        ...

    async def create_task(self, task: CreateTask) -> TaskView:
        """Start a task."""
        ...

    async def show_task(self, order: TaskOrder) -> TaskView:
        """Return a task with its progress."""
        ...

    async def cancel_task(self, order: TaskOrder) -> TaskView:
        """Stop a task at its current progress."""
        ...

    async def list_tasks(self, query: ListTasks) -> TasksPage:
        """Return tasks, the newest first."""
        ...


class Schedulers(Protocol):
    """All schedulers."""

    async def holder(self, broker: Broker, topic: str) -> str | None:
        """Return the address of the process that holds queue 0 of a broker's system topic; None if no process does."""
        ...

    def at(self, address: str) -> Scheduler:
        """Return the client of the scheduler at an address."""
        ...
