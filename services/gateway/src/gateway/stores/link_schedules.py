"""The Schedulers port over gantry_link."""

from gantry_link.clients.scheduler import SchedulerClient
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
from gateway.stores.link_parties import LinkHolders, translated


class LinkSchedulers(LinkHolders):
    """Clients by address over one pool of connections."""

    def at(self, address: str) -> "LinkScheduler":
        """Return the client of the scheduler at an address; creating one costs nothing."""
        return LinkScheduler(address, SchedulerClient(self._pool, address, self._timeout_seconds))


class LinkScheduler:
    """One scheduler."""

    def __init__(self, address: str, client: SchedulerClient) -> None:
        self._name, self._client = f"the scheduler at {address}", client

    async def list_schedules(self, query: ListSchedules) -> SchedulesPage:
        """9010."""
        return await translated(self._name, self._client.list_schedules(query))

    async def cancel(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9011."""
        return await translated(self._name, self._client.cancel(order))

    async def move(self, order: MoveSchedule) -> ScheduleAnswer:
        """9012."""
        return await translated(self._name, self._client.move(order))

    async def deliver_now(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9013."""
        return await translated(self._name, self._client.deliver_now(order))

    async def create_task(self, task: CreateTask) -> TaskView:
        """9014."""
        return await translated(self._name, self._client.create_task(task))

    async def show_task(self, order: TaskOrder) -> TaskView:
        """9015."""
        return await translated(self._name, self._client.show_task(order))

    async def cancel_task(self, order: TaskOrder) -> TaskView:
        """9016."""
        return await translated(self._name, self._client.cancel_task(order))

    async def list_tasks(self, query: ListTasks) -> TasksPage:
        """9017."""
        return await translated(self._name, self._client.list_tasks(query))

    async def list_parked(self, query: ListParked) -> SchedulesPage:
        """9018."""
        return await translated(self._name, self._client.list_parked(query))

    async def resend_parked(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9019."""
        return await translated(self._name, self._client.resend_parked(order))
