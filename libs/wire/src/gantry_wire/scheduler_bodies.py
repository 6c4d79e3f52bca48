"""What is asked of a scheduler and what it answers: schedules, parked messages, tasks (requests 9010 to 9019). JSON.

Times are milliseconds since 1970. An answer names the brokers it speaks for (`brokers`) and those of them whose index has not
reached the end of its queues yet (`incomplete`): "unknown" is only definite for a broker of the first that is not of the second.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import field

from gantry_wire.body import Body

PAGE_MAX = 1000
INT64_DIGITS = 19
FAILURES_MAX = 100
"""A task lists the first failures; the counts know them all."""

ScheduleStatus = Literal[
    "cancelled", "moved", "delivered", "alreadyDelivered", "unknown", "notReady", "failed"
]
"""`alreadyDelivered`: decided before (delivered, cancelled or moved); `notReady`: unknown so far, ask again; `failed`: see `error`."""
TaskKind = Literal["redrive", "bulkMove", "bulkCancel"]
TaskState = Literal["running", "done", "failed", "cancelled"]


class _Plain(Body, kw_only=True, rename="camel"):
    is_plain: ClassVar[bool] = True


class ScheduleQuery(_Plain, kw_only=True, rename="camel"):
    """Which schedules are meant; what is None does not narrow."""

    topic: str | None = None
    """Where the message will be delivered."""
    key: str | None = None
    """One of the message's keys."""
    broker: str | None = None
    from_ms: int | None = None
    """Due at or after."""
    to_ms: int | None = None
    """Due before."""


class ListSchedules(ScheduleQuery, kw_only=True, rename="camel"):
    """9010: pending schedules by due time."""

    limit: int = 100
    after: str | None = None
    """`next` of the page before."""


class Schedule(_Plain, kw_only=True, rename="camel"):
    """One message that waits for its time."""

    id: str
    """The message id (its unique key); where a message has none, its offset message id."""
    broker: str
    topic: str
    queue_id: int
    deliver_at_ms: int
    kind: Literal["level", "instant", "parked"]
    level: int | None = None
    system_queue_id: int
    system_offset: int
    position: int
    """Of its record in the broker's log."""
    keys: list[str] = field(default_factory=list[str])
    attempts: int = 0
    """Deliveries that failed so far, and why the last one did."""
    error: str | None = None


class SchedulesPage(_Plain, kw_only=True, rename="camel"):
    """9010 and 9018, answered. `next` None: that was all."""

    schedules: list[Schedule] = field(default_factory=list[Schedule])
    next: str | None = None
    brokers: list[str] = field(default_factory=list[str])
    incomplete: list[str] = field(default_factory=list[str])


class ScheduleOrder(_Plain, kw_only=True, rename="camel"):
    """9011 cancel, 9013 deliver now, 9019 resend what is parked: one message by its message id or offset message id."""

    id: str
    broker: str | None = None
    topic: str | None = None


class MoveSchedule(ScheduleOrder, kw_only=True, rename="camel"):
    """9012: deliver at another time. The message gets a new place in the timer queue and keeps its id."""

    deliver_at_ms: int


class ScheduleAnswer(_Plain, kw_only=True, rename="camel"):
    """9011, 9012, 9013, 9019, answered."""

    status: ScheduleStatus
    id: str
    broker: str | None = None
    topic: str | None = None
    deliver_at_ms: int | None = None
    error: str | None = None
    brokers: list[str] = field(default_factory=list[str])
    incomplete: list[str] = field(default_factory=list[str])


class MessageFilter(_Plain, kw_only=True, rename="camel"):
    """A subscription expression: `tag` or `sql92`."""

    type: Literal["tag", "sql92"] = "tag"
    expression: str = "*"


class CreateTask(_Plain, kw_only=True, rename="camel"):
    """9014: a task. `group` for a redrive, `schedules` for the bulk ones; `broker` is where its records lie (None: any)."""

    kind: TaskKind
    broker: str | None = None
    group: str | None = None
    target: str | None = None
    """Redrive to: None the group's retry topic, `original` the topic the message came from, or a topic."""
    filter: MessageFilter | None = None
    max_per_second: float | None = None
    dry_run: bool = False
    schedules: ScheduleQuery | None = None
    deliver_at_ms: int | None = None
    shift_ms: int | None = None


class TaskFailure(_Plain, kw_only=True, rename="camel"):
    """One message a task could not do."""

    broker: str
    topic: str
    queue_id: int
    offset: int
    reason: str


class TaskView(_Plain, kw_only=True, rename="camel"):
    """9014, 9015, 9016, answered: a task as far as it is. `outcomes` counts messages by what became of them."""

    id: str
    kind: TaskKind
    state: TaskState
    broker: str
    definition: CreateTask
    done: int = 0
    failed: int = 0
    total: int = 0
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    failures: list[TaskFailure] = field(default_factory=list[TaskFailure])
    error: str | None = None
    created_ms: int = 0
    updated_ms: int = 0


class TaskOrder(_Plain, kw_only=True, rename="camel"):
    """9015 show, 9016 cancel."""

    id: str


class ListTasks(_Plain, kw_only=True, rename="camel"):
    """9017: the newest tasks first."""

    limit: int = 100
    state: TaskState | None = None


class TasksPage(_Plain, kw_only=True, rename="camel"):
    """9017, answered."""

    tasks: list[TaskView] = field(default_factory=list[TaskView])
    brokers: list[str] = field(default_factory=list[str])
    incomplete: list[str] = field(default_factory=list[str])


class ListParked(_Plain, kw_only=True, rename="camel"):
    """9018: messages that could not be delivered for so long that they were set aside."""

    broker: str | None = None
    topic: str | None = None
    limit: int = 100
    after: str | None = None


def task_id(broker: str, offset: int) -> str:
    """Return the id of the task whose first record has this offset in the tasks queue of a broker."""
    return f"{broker}.{offset}"


def split_task_id(text: str) -> tuple[str, int] | None:
    """Return broker and offset of a task id; None when it is none."""
    broker, dot, offset = text.rpartition(".")
    return (
        (broker, int(offset))
        if dot and broker and offset.isdecimal() and len(offset) < INT64_DIGITS
        else None
    )


assert FAILURES_MAX <= PAGE_MAX
