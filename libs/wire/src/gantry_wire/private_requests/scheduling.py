"""JSON bodies of a scheduler's requests and replies: schedules, parked messages, tasks (9010 to 9019).

Times are milliseconds since 1970. A reply lists the brokers that it covers (`brokers`) and those of them whose index has not
reached the end of its queues yet (`incomplete`). "unknown" is final only for a covered broker that is not incomplete.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import field

from gantry_wire.bodies.json_body import Body

PAGE_MAX = 1000
INT64_DIGITS = 19
FAILURES_MAX = 100
"""A task lists only its first failures; its counts include all."""

ScheduleStatus = Literal[
    "cancelled", "moved", "delivered", "alreadyDelivered", "unknown", "notReady", "failed"
]
"""`alreadyDelivered`: decided before (delivered, cancelled or moved). `notReady`: not known yet, ask again. `failed`: see `error`."""
TaskKind = Literal["redrive", "bulkMove", "bulkCancel"]
TaskState = Literal["running", "done", "failed", "cancelled"]


class _Plain(Body, kw_only=True, rename="camel"):
    is_plain: ClassVar[bool] = True


class ScheduleQuery(_Plain, kw_only=True, rename="camel"):
    """Selects schedules. None matches any value."""

    topic: str | None = None
    """The topic that the message will be delivered to."""
    key: str | None = None
    """One of the message's keys."""
    broker: str | None = None
    from_ms: int | None = None
    """Due at or after this time."""
    to_ms: int | None = None
    """Due before."""


class ListSchedules(ScheduleQuery, kw_only=True, rename="camel"):
    """9010: pending schedules by due time."""

    limit: int = 100
    after: str | None = None
    """`next` of the previous page."""


class Schedule(_Plain, kw_only=True, rename="camel"):
    """One pending message."""

    id: str
    """The message id (its unique key), or the offset message id of a message without a unique key."""
    broker: str
    topic: str
    queue_id: int
    deliver_at_ms: int
    kind: Literal["level", "instant", "parked"]
    level: int | None = None
    system_queue_id: int
    system_offset: int
    position: int
    """Position of its record in the broker's log."""
    keys: list[str] = field(default_factory=list[str])
    attempts: int = 0
    """Number of failed deliveries, and the reason of the last failure."""
    error: str | None = None


class SchedulesPage(_Plain, kw_only=True, rename="camel"):
    """Reply of 9010 and 9018. `next` is None on the last page."""

    schedules: list[Schedule] = field(default_factory=list[Schedule])
    next: str | None = None
    brokers: list[str] = field(default_factory=list[str])
    incomplete: list[str] = field(default_factory=list[str])


class ScheduleOrder(_Plain, kw_only=True, rename="camel"):
    """9011 cancel, 9013 deliver now, 9019 resend a parked message: one message by message id or offset message id."""

    id: str
    broker: str | None = None
    topic: str | None = None


class MoveSchedule(ScheduleOrder, kw_only=True, rename="camel"):
    """9012: deliver at another time. The message gets a new offset in the timer queue and keeps its id."""

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
    """A filter expression of type `tag` or `sql92`."""

    type: Literal["tag", "sql92"] = "tag"
    expression: str = "*"


class CreateTask(_Plain, kw_only=True, rename="camel"):
    """9014: create a task. `group` is for a redrive, `schedules` for a bulk task. `broker` stores the task's records (None: any)."""

    kind: TaskKind
    broker: str | None = None
    group: str | None = None
    target: str | None = None
    """Target of a redrive: None for the group's retry topic, `original` for the message's original topic, or a topic."""
    filter: MessageFilter | None = None
    max_per_second: float | None = None
    dry_run: bool = False
    schedules: ScheduleQuery | None = None
    deliver_at_ms: int | None = None
    shift_ms: int | None = None


class TaskFailure(_Plain, kw_only=True, rename="camel"):
    """One message that a task failed to process."""

    broker: str
    topic: str
    queue_id: int
    offset: int
    reason: str


class TaskView(_Plain, kw_only=True, rename="camel"):
    """Reply of 9014, 9015 and 9016: a task and its progress. `outcomes` counts messages by outcome."""

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
    """9017: list tasks, newest first."""

    limit: int = 100
    state: TaskState | None = None


class TasksPage(_Plain, kw_only=True, rename="camel"):
    """9017, answered."""

    tasks: list[TaskView] = field(default_factory=list[TaskView])
    brokers: list[str] = field(default_factory=list[str])
    incomplete: list[str] = field(default_factory=list[str])


class ListParked(_Plain, kw_only=True, rename="camel"):
    """9018: list parked messages: those set aside after their delivery failed for too long."""

    broker: str | None = None
    topic: str | None = None
    limit: int = 100
    after: str | None = None


def task_id(broker: str, offset: int) -> str:
    """Return the id of the task whose first record has this offset in a broker's tasks queue."""
    return f"{broker}.{offset}"


def split_task_id(text: str) -> tuple[str, int] | None:
    """Return the broker and offset of a task id, or None if it is invalid."""
    broker, dot, offset = text.rpartition(".")
    return (
        (broker, int(offset))
        if dot and broker and offset.isdecimal() and len(offset) < INT64_DIGITS
        else None
    )


assert FAILURES_MAX <= PAGE_MAX
