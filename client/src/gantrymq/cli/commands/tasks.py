"""`gantrymq task …`: long tasks of a scheduler; and the wait of other commands for their end."""

import time
from typing import Annotated, Any, Literal

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.options import BrokerOption
from gantrymq.cli.session import Session, command
from gantrymq.cli.stops import FAILED, Stop

POLL_SECONDS = 0.2
TaskId = Annotated[str, typer.Argument(metavar="ID", help="Id of the task.")]
State = Annotated[
    Literal["running", "done", "failed", "cancelled"] | None, typer.Option("--state", help="Only these.")
]
Count = Annotated[int, typer.Option("--max", "-n", min=1, max=1000, help="The most to show.")]
WaitForIt = Annotated[bool, typer.Option("--wait", help="Wait for its end.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    task = typer.Typer(help="Long tasks: list, show, cancel.", no_args_is_help=True)
    app.add_typer(task, name="task")
    command(task, "list", "gantrymq task list\ngantrymq task list --state running")(list_tasks)
    command(task, "show", "gantrymq task show broker-a.17\ngantrymq task show broker-a.17 --wait")(show)
    command(task, "cancel", "gantrymq task cancel broker-a.17")(cancel)


def list_tasks(
    session: Session, state: State = None, broker: BrokerOption = None, count: Count = 100
) -> None:
    """List tasks, newest first."""
    found = session.get(path_of("tasks"), state=state, broker=broker, max=count)
    rows = [
        (one["id"], one["kind"], one["state"], _of(one), one["failed"], one["group"], one["createdAt"])
        for one in found["tasks"]
    ]

    def people() -> None:
        session.screen.table(
            ("task", "kind", "state", "done>", "failed>", "group", "begun"), rows, "no tasks"
        )
        session.warn_missing(found["missing"])

    session.screen.show(found, people)


def show(session: Session, task: TaskId, wait: WaitForIt = False) -> None:
    """Show a task and its progress."""
    found = session.get(path_of("tasks", task))
    follow(session, found) if wait else show_task(session, found)


def cancel(session: Session, task: TaskId) -> None:
    """Stop a task."""
    show_task(session, session.post(path_of("tasks", f"{task}:cancel")))


def show_task(session: Session, task: dict[str, Any]) -> None:
    """Show a task."""
    pairs: list[tuple[str, object]] = [
        ("task", task["id"]), ("kind", task["kind"] + (" (dry run)" if task["dryRun"] else "")), ("state", task["state"]),
        ("done", _of(task)), ("failed", task["failed"]), *sorted(task["outcomes"].items()),
    ]  # fmt: skip
    pairs += [
        ("failure", f"{one['broker']}:{one['queueId']}@{one['offset']} of {one['topic']}: {one['reason']}")
        for one in task["failures"]
    ]
    if task.get("error"):
        pairs.append(("error", task["error"]))
    session.screen.show(task, lambda: session.screen.fields(pairs))


def follow(session: Session, task: dict[str, Any], *, wait: bool = True) -> None:
    """Wait for the end of a task with a progress bar, then show it. Raises Stop for one that failed."""
    if wait:
        with session.screen.progress(task["kind"], task["total"] or None) as tell:
            while task["state"] == "running":
                time.sleep(POLL_SECONDS)
                task = session.get(path_of("tasks", task["id"]))
                tell(task["done"] + task["failed"], task["total"] or None)
    show_task(session, task)
    if task["state"] == "failed":
        raise Stop(f"task {task['id']} failed: {task.get('error') or 'see its failures'}", FAILED)
    if task["state"] == "running":
        session.screen.say(f"the task continues: gantrymq task show {task['id']} --wait")


def _of(task: dict[str, Any]) -> str:
    return f"{task['done']}/{task['total']}" if task["total"] else str(task["done"])
