"""What the gateway needs of schedulers: which one works for a broker now, and what can be asked of it.

Adapter: link_schedules.py. Every call raises StoreRefused or PeerAway.
"""

from typing import Protocol

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
from gateway.ports.stores import Broker


class Scheduler(Protocol):
    """One scheduler. Its orders may be repeated; a task that is created twice is two tasks."""

    async def list_schedules(self, query: ListSchedules) -> SchedulesPage:
        """Return what waits for its time."""
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
        """Return what could not be delivered and was set aside."""
        ...

    async def resend_parked(self, order: ScheduleOrder) -> ScheduleAnswer:
        """Deliver a message that was set aside."""
        ...

    async def create_task(self, task: CreateTask) -> TaskView:
        """Start a task."""
        ...

    async def show_task(self, order: TaskOrder) -> TaskView:
        """Return a task as far as it is."""
        ...

    async def cancel_task(self, order: TaskOrder) -> TaskView:
        """End a task where it is."""
        ...

    async def list_tasks(self, query: ListTasks) -> TasksPage:
        """Return tasks, the newest first."""
        ...


class Schedulers(Protocol):
    """All schedulers."""

    async def holder(self, broker: Broker, topic: str) -> str | None:
        """Return the address of whoever works on queue 0 of a system topic of a broker; None: nobody at the moment."""
        ...

    def at(self, address: str) -> Scheduler:
        """Return the client of the scheduler at an address."""
        ...
