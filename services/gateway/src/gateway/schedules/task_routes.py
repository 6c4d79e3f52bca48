"""Long tasks: list, show, cancel."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry_wire.private_requests.scheduling import PAGE_MAX, ListTasks, TaskView
from gateway.messages.message_view import rfc3339
from gateway.requests.fields import ID_PATTERN, BrokerOrAll
from gateway.requests.operations import Operation, Operations
from gateway.schedules.schemas import TaskFailureShown, TaskShown, TasksShown
from gateway.schedules.tasks import Tasks

LIMIT_DEFAULT = 100

TaskId = Annotated[str, Meta(pattern=ID_PATTERN, max_length=300, description="Id of the task.")]


def task_routes(tasks: Tasks) -> list[Operation]:
    """Return the routes."""
    calls = Operations("tasks")

    @calls.get("/v1/tasks", 400, 404)
    async def list_tasks(
        state: Annotated[Literal["running", "done", "failed", "cancelled"], Meta(description="Only these.")]
        | None = None,
        broker: BrokerOrAll = "",
        max_: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = LIMIT_DEFAULT,
    ) -> TasksShown:
        """List tasks, the newest first."""
        found, missing = await tasks.all(ListTasks(limit=max_, state=state), broker or None)
        return TasksShown(tasks=[shown_task(task) for task in found], missing=missing)

    @calls.get("/v1/tasks/{id:id}", 400, 404)
    async def show_task(id_: TaskId) -> TaskShown:
        """Show a task with its progress."""
        return shown_task(await tasks.show(id_))

    @calls.post("/v1/tasks/{id:id}:cancel", 400, 404)
    async def cancel_task(id_: TaskId) -> TaskShown:
        """Stop a task at its current progress; a finished one does not change."""
        return shown_task(await tasks.cancel(id_))

    return calls.all


def shown_task(task: TaskView) -> TaskShown:
    """Return the HTTP form of a task."""
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
