"""Long tasks that schedulers carry out: started, shown, listed, cancelled."""

import asyncio

from gantry_wire.codes import ResponseCode
from gantry_wire.names import GANTRY_SYSTEM_PREFIX
from gantry_wire.private_requests.scheduling import (
    CreateTask,
    ListTasks,
    TaskOrder,
    TasksPage,
    TaskView,
    split_task_id,
)
from gateway.http.problems import Problem, broker_missing
from gateway.ports.schedulers import Schedulers
from gateway.ports.stores import Broker
from gateway.routing.claim_holders import ClaimHolders, is_whole
from gateway.routing.fleet import demand_all

TASKS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}TASKS"


class Tasks:
    """Tasks, on whichever broker their records are stored."""

    def __init__(self, claim_holders: ClaimHolders, schedulers: Schedulers) -> None:
        self._claim_holders, self._schedulers = claim_holders, schedulers

    async def create(self, task: CreateTask) -> TaskView:
        """Start a task; its records are stored on the broker it names, else on the first with a scheduler."""
        brokers, _gone = await self._claim_holders.brokers(task.broker)
        broker = await self._served(brokers)
        return await self._claim_holders.ask(
            broker,
            TASKS_TOPIC,
            lambda address: self._schedulers.at(address).create_task(task),
            may_repeat=False,
        )

    async def show(self, task_id: str) -> TaskView:
        """Return a task; raise 404 if there is none."""
        broker = await self._broker_of(task_id)
        return await self._ask(broker, task_id, is_cancelled=False)

    async def cancel(self, task_id: str) -> TaskView:
        """Stop a task at its current progress; raise 404 if there is none. A finished one does not change."""
        broker = await self._broker_of(task_id)
        return await self._ask(broker, task_id, is_cancelled=True)

    async def all(self, query: ListTasks, only: str | None) -> tuple[list[TaskView], list[str]]:
        """Return tasks, the newest first, and the brokers whose tasks are missing."""
        brokers, gone = await self._claim_holders.brokers(only)

        async def at(broker: Broker) -> TasksPage:
            return await self._claim_holders.ask(
                broker,
                TASKS_TOPIC,
                lambda address: self._schedulers.at(address).list_tasks(query),
                is_ready=lambda page: is_whole(page, broker.name),
            )

        answers = await asyncio.gather(*(at(broker) for broker in brokers), return_exceptions=True)
        found: dict[str, TaskView] = {}
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, Problem):
                gone.append(broker.name)
            elif isinstance(answer, BaseException):
                raise answer
            else:  # one scheduler may serve several brokers
                found |= {task.id: task for task in answer.tasks if only in {None, task.broker}}
        if all(isinstance(answer, Problem) for answer in answers):
            demand_all(gone, "tasks cannot be listed")
        tasks = sorted(found.values(), key=lambda task: (-task.created_ms, task.id))
        return tasks[: query.limit], sorted(set(gone))

    async def _ask(self, broker: Broker, task_id: str, *, is_cancelled: bool) -> TaskView:
        order = TaskOrder(id=task_id)

        async def ask(address: str) -> TaskView:
            scheduler = self._schedulers.at(address)
            return await (scheduler.cancel_task(order) if is_cancelled else scheduler.show_task(order))

        try:
            return await self._claim_holders.ask(broker, TASKS_TOPIC, ask)
        except Problem as problem:
            if problem.code == ResponseCode.QUERY_NOT_FOUND.name:
                raise _no_such(task_id) from problem
            raise

    async def _served(self, brokers: list[Broker]) -> Broker:
        """Return the first broker that has a scheduler now; if none has, the first of all, to wait for one there."""
        for broker in brokers:
            if len(brokers) == 1 or await self._claim_holders.is_held(broker, TASKS_TOPIC):
                return broker
        return brokers[0]

    async def _broker_of(self, task_id: str) -> Broker:
        parts = split_task_id(task_id)
        if parts is None:
            raise _no_such(task_id)
        try:
            return await self._claim_holders.broker(parts[0], "id")
        except Problem as problem:
            if problem.code == broker_missing("").code:
                raise _no_such(task_id) from problem
            raise


def _no_such(task_id: str) -> Problem:
    return Problem(404, "QUERY_NOT_FOUND", f"there is no task {task_id}", field="id")
