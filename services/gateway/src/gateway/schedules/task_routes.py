"""Long tasks: list, show, cancel."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from gantry_wire.scheduler_bodies import PAGE_MAX, ListTasks, TaskView
from gateway.messages.message_view import rfc3339
from gateway.requests.parameters import BrokerOrAll, TaskPath, problems
from gateway.schedules.schemas import TaskFailureShown, TaskShown, TasksShown
from gateway.schedules.tasks import Tasks

LIMIT_DEFAULT = 100


def task_routes(tasks: Tasks) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["tasks"])

    @router.get("/v1/tasks", responses=problems(400, 404))
    async def list_tasks(
        state: Annotated[
            Literal["running", "done", "failed", "cancelled"] | None, Query(description="Only these.")
        ] = None,
        broker: BrokerOrAll = "",
        limit: Annotated[int, Query(alias="max", ge=1, le=PAGE_MAX)] = LIMIT_DEFAULT,
    ) -> TasksShown:
        """List tasks, the newest first."""
        found, missing = await tasks.all(ListTasks(limit=limit, state=state), broker or None)
        return TasksShown(tasks=[shown_task(task) for task in found], missing=missing)

    @router.get("/v1/tasks/{id:id}", responses=problems(400, 404))
    async def show_task(id: TaskPath) -> TaskShown:  # noqa: A002 - the name in the path
        """Show a task as far as it is."""
        return shown_task(await tasks.show(id))

    @router.post("/v1/tasks/{id:id}:cancel", responses=problems(400, 404))
    async def cancel_task(id: TaskPath) -> TaskShown:  # noqa: A002 - the name in the path
        """End a task where it is; one that ended before stays as it is."""
        return shown_task(await tasks.cancel(id))

    return router


def shown_task(task: TaskView) -> TaskShown:
    """Return a task as HTTP shows it."""
    definition = task.definition
    return TaskShown(
        id=task.id,
        kind=task.kind,
        state=task.state,
        done=task.done,
        failed=task.failed,
        total=task.total,
        broker=task.broker,
        dry_run=definition.dry_run,
        group=definition.group,
        to_topic=definition.target,
        max_per_second=definition.max_per_second,
        outcomes=task.outcomes,
        failures=[
            TaskFailureShown(
                broker=one.broker,
                topic=one.topic,
                queue_id=one.queue_id,
                offset=one.offset,
                reason=one.reason,
            )
            for one in task.failures
        ],
        error=task.error,
        created_at=rfc3339(task.created_ms),
        updated_at=rfc3339(task.updated_ms),
    )
