"""The Schedulers port over gantry_link."""

from collections.abc import Awaitable
from typing import TypeVar

from gantry_link import BrokerRefused, ConnectionPool, LinkError
from gantry_link.claims import claim_holder
from gantry_link.scheduler_client import SchedulerClient
from gantry_link.store_calls import StoreCalls
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
from gateway.ports import Broker, PeerAway, StoreRefused

T = TypeVar("T")


class LinkSchedulers:
    """Clients by address over one pool of connections."""

    def __init__(self, pool: ConnectionPool, timeout_seconds: float) -> None:
        self._pool, self._timeout_seconds = pool, timeout_seconds

    async def holder(self, broker: Broker, topic: str) -> str | None:
        """9005 of a store."""
        store = StoreCalls(self._pool, broker.address, self._timeout_seconds)
        held = await _translated(broker.name, claim_holder(store, topic, 0))
        return held.address or None if held is not None else None

    def at(self, address: str) -> "LinkScheduler":
        """Return the client of the scheduler at an address; making one costs nothing."""
        return LinkScheduler(address, SchedulerClient(self._pool, address, self._timeout_seconds))


class LinkScheduler:
    """One scheduler."""

    def __init__(self, address: str, client: SchedulerClient) -> None:
        self._name, self._client = f"the scheduler at {address}", client

    async def list_schedules(self, query: ListSchedules) -> SchedulesPage:
        """9010."""
        return await _translated(self._name, self._client.list_schedules(query))

    async def cancel(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9011."""
        return await _translated(self._name, self._client.cancel(order))

    async def move(self, order: MoveSchedule) -> ScheduleAnswer:
        """9012."""
        return await _translated(self._name, self._client.move(order))

    async def deliver_now(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9013."""
        return await _translated(self._name, self._client.deliver_now(order))

    async def create_task(self, task: CreateTask) -> TaskView:
        """9014."""
        return await _translated(self._name, self._client.create_task(task))

    async def show_task(self, order: TaskOrder) -> TaskView:
        """9015."""
        return await _translated(self._name, self._client.show_task(order))

    async def cancel_task(self, order: TaskOrder) -> TaskView:
        """9016."""
        return await _translated(self._name, self._client.cancel_task(order))

    async def list_tasks(self, query: ListTasks) -> TasksPage:
        """9017."""
        return await _translated(self._name, self._client.list_tasks(query))

    async def list_parked(self, query: ListParked) -> SchedulesPage:
        """9018."""
        return await _translated(self._name, self._client.list_parked(query))

    async def resend_parked(self, order: ScheduleOrder) -> ScheduleAnswer:
        """9019."""
        return await _translated(self._name, self._client.resend_parked(order))


async def _translated(name: str, asked: Awaitable[T]) -> T:
    try:
        return await asked
    except BrokerRefused as error:
        raise StoreRefused(int(error.code), error.remark, error.fields.get("gantryCode", "")) from error
    except LinkError as error:
        raise PeerAway(name, error.sent, str(error)) from error
