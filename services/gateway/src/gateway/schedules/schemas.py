"""Bodies of the calls that schedulers carry out: schedules, tasks, dead letters."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, field

from gantry_wire.limits import INT64_MAX
from gantry_wire.sql92.limits import EXPRESSION_CHARS_MAX
from gateway.requests.fields import KEY_CHARS_MAX, TOPIC_PATTERN, Body, BrokerText, Shown, TopicText

MAX_PER_SECOND = 1_000_000

Millis = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Instant = (
    Annotated[datetime, Meta(tz=True, description="RFC 3339.")]
    | Annotated[int, Meta(ge=0, le=INT64_MAX, description="Milliseconds since 1970.")]
)
Rate = Annotated[float, Meta(gt=0, le=MAX_PER_SECOND)]
Key = Annotated[str, Meta(min_length=1, max_length=KEY_CHARS_MAX, pattern=r"^\S+$")]


class ScheduleShown(Shown):
    """A delayed message. `attempts` and `error`: failed deliveries so far, and the last error."""

    message_id: str
    broker: str
    topic: str
    queue_id: int
    deliver_at: str
    kind: Literal["level", "instant", "parked"]
    level: int | None
    keys: list[str]
    attempts: int
    error: str | None


class SchedulesShown(Shown):
    """Schedules by due time. Pass `next` as `after` to get the next page; `missing` brokers could not be asked."""

    schedules: list[ScheduleShown]
    next: str | None
    missing: list[str]


class ScheduleDone(Shown):
    """The result for a delayed message."""

    status: Literal["cancelled", "moved", "delivered"]
    message_id: str
    broker: str | None
    deliver_at: str | None


class MoveBody(Body):
    """The new delivery time: one of the two."""

    deliver_at: Instant | None = None
    delay_ms: Annotated[Millis | None, Meta(description="From now on.")] = None


class BulkBody(Body):
    """Selects schedules: at least one of these fields."""

    topic: TopicText | None = None
    key: Key | None = None
    broker: BrokerText | None = None
    from_: Annotated[Instant | None, Meta(description="Due then or later.")] = field(
        default=None, name="from"
    )
    to: Annotated[Instant | None, Meta(description="Due before.")] = None
    max_per_second: Rate | None = None
    dry_run: bool = False


class BulkMoveBody(BulkBody):
    """Selects schedules, and sets their new delivery time: one instant, or a shift of each to later (or earlier)."""

    deliver_at: Instant | None = None
    shift_ms: Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)] | None = None


class FilterBody(Body):
    """Selects messages: by tags, or by a condition in SQL92 over properties."""

    expression: Annotated[str, Meta(min_length=1, max_length=EXPRESSION_CHARS_MAX)]
    type: Literal["tag", "sql92"] = "tag"


class RedriveBody(Body):
    """Where to redrive dead letters. Without a topic, to the group's retry topic."""

    filter: FilterBody | None = None
    max_per_second: Rate | None = None
    dry_run: bool = False
    to_topic: Annotated[
        Annotated[str, Meta(pattern=TOPIC_PATTERN)] | None,
        Meta(description="A topic, or `original`: the topic of each message."),
    ] = None


class TaskFailureShown(Shown):
    """A message that a task failed to process."""

    broker: str
    topic: str
    queue_id: int
    offset: int
    reason: str


class TaskShown(Shown):
    """A task with its progress; `outcomes` counts messages by result, `failures` are the first of `failed`."""

    id: str
    kind: Literal["redrive", "bulkMove", "bulkCancel"]
    state: Literal["running", "done", "failed", "cancelled"]
    done: int
    failed: int
    total: int
    broker: str
    dry_run: bool
    group: str | None
    to_topic: str | None
    max_per_second: float | None
    outcomes: dict[str, int]
    failures: list[TaskFailureShown]
    error: str | None
    created_at: str
    updated_at: str


class TasksShown(Shown):
    """Tasks, the newest first, without those of the brokers in `missing`."""

    tasks: list[TaskShown]
    missing: list[str]


def instant_ms(instant: datetime | int | None) -> int | None:
    """Return an instant as milliseconds since 1970."""
    if instant is None or isinstance(instant, int):
        return instant
    return max(0, round(instant.timestamp() * 1000))
