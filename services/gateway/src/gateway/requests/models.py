"""Bodies of the calls that are not hot: pydantic models, from which FastAPI makes checks and OpenAPI."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gantry_wire.limits import INT32_MAX, TOPIC_QUEUES_DEFAULT
from gateway.requests.limits import DEFINITIONS_MAX, OFFSETS_MAX

QUEUES_MAX = 1024
TOPIC_PATTERN = r"^[%|a-zA-Z0-9_-]{1,127}$"
TOPIC_CHARS_MAX = 127
GROUP_PATTERN = r"^[%|a-zA-Z0-9_-]{1,120}$"

OFFSET_MAX = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly."""


def _whole(value: object) -> object:
    """JSON has one kind of number: 8.0 is as whole as 8."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
Queues = Annotated[int, Field(ge=1, le=QUEUES_MAX), WHOLE]
WaitMs = Annotated[int, Field(ge=0, le=40 * 86_400_000), WHOLE]
Perm = Literal["rw", "r", "w"]
PermShown = Literal["rw", "r", "w", "none"]
Offset = Annotated[int, Field(ge=0, le=OFFSET_MAX), WHOLE]
TopicText = Annotated[str, Field(pattern=TOPIC_PATTERN, max_length=TOPIC_CHARS_MAX)]
GroupText = Annotated[str, Field(pattern=GROUP_PATTERN, max_length=120)]
BrokerText = Annotated[str, Field(min_length=1, max_length=255)]


class Body(BaseModel):
    """Names in camelCase, nothing unknown, no conversions: what is wrong is said, not guessed."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", strict=True)


class Shown(BaseModel):
    """A reply; names in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class TopicBody(Body):
    """How a topic shall be, on every broker."""

    read_queues: Queues = TOPIC_QUEUES_DEFAULT
    write_queues: Queues = TOPIC_QUEUES_DEFAULT
    perm: Perm = "rw"


class QueueShown(Shown):
    """One queue: offsets from `minOffset` up to, without, `maxOffset` can be read."""

    broker: str
    queue_id: int
    min_offset: int
    max_offset: int


class TopicHolder(Shown):
    """A broker's share of a topic."""

    broker: str
    read_queues: int
    write_queues: int
    perm: PermShown


class TopicShown(Shown):
    """A topic; queues of the brokers in `missing` cannot be asked at the moment."""

    topic: str
    perm: PermShown
    brokers: list[TopicHolder]
    queues: list[QueueShown]
    missing: list[str]


class TopicListed(Shown):
    """A topic in the list; the largest counts of any broker."""

    topic: str
    perm: PermShown
    read_queues: int
    write_queues: int
    brokers: list[str]


class TopicList(Shown):
    """All topics; what only brokers in `missing` hold is not among them."""

    topics: list[TopicListed]
    missing: list[str]


class TopicPut(Shown):
    """A topic that every broker and nameserver has."""

    topic: str
    read_queues: int
    write_queues: int
    perm: Perm
    brokers: list[str]


class Status(Shown):
    """What was done."""

    status: Literal["deleted", "paused", "resumed", "stored", "ok"]


class ListPolicy(Body):
    """Waits one after the other before a message comes again; the last one is repeated."""

    type: Literal["list"]
    delays_ms: Annotated[list[WaitMs], Field(min_length=1, max_length=64)]


class ExponentialPolicy(Body):
    """Waits that grow from `initialMs` to `maxMs`; each varies by `jitter` (0.2: a fifth either way)."""

    type: Literal["exponential"]
    initial_ms: WaitMs
    multiplier: Annotated[float, Field(ge=1, le=100, strict=False)] = 2.0
    max_ms: WaitMs = 7_200_000
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.0


Policy = Annotated[ListPolicy | ExponentialPolicy, Field(discriminator="type")]
Order = Literal["none", "shardingKey"]
StartAt = Literal["earliest", "latest"]


class GroupBody(Body):
    """How a consumer group shall be, on every broker."""

    retry_max_times: Annotated[int, Field(ge=-1, le=1000), WHOLE] = 16
    retry_queues: Annotated[int, Field(ge=1, le=QUEUES_MAX), WHOLE] = 1
    broadcast: bool = True
    paused: bool = False
    retry_policy: Annotated[
        Policy | None, Field(description="When a failed message comes again; null: RocketMQ's delay levels.")
    ] = None
    order: Annotated[Order, Field(description="Receive one by one per shardingKey, or as they come.")] = (
        "none"
    )
    start_at: Annotated[StartAt, Field(description="Where receives of a new topic begin.")] = "earliest"


class GroupShown(Shown):
    """A consumer group."""

    group: str
    paused: bool
    broadcast: bool
    retry_max_times: int
    retry_queues: int
    retry_policy: ListPolicy | ExponentialPolicy | None
    order: Order
    start_at: StartAt
    brokers: list[str]


class GroupList(Shown):
    """All consumer groups of clients; what only brokers in `missing` hold is not among them."""

    groups: list[GroupShown]
    missing: list[str]


class OffsetBody(Body):
    """Where a group shall go on in one queue."""

    topic: TopicText
    broker: BrokerText
    queue_id: Annotated[int, Field(ge=0, le=INT32_MAX), WHOLE]
    offset: Offset


class OffsetsBody(Body):
    """Offsets to set; every one is checked before any is set."""

    offsets: Annotated[list[OffsetBody], Field(min_length=1, max_length=OFFSETS_MAX)]


class ResetBody(Body):
    """Where a group shall go on in a topic: `earliest`, `latest`, a time in RFC 3339, or an offset."""

    topic: TopicText
    to: Annotated[
        str | Annotated[int, Field(ge=0, le=OFFSET_MAX)],
        WHOLE,
        Field(description="`earliest`, `latest`, a time in RFC 3339, or an offset."),
    ]
    broker: Annotated[BrokerText | None, Field(description="Only its queues.")] = None
    queue_id: Annotated[
        Annotated[int, Field(ge=0, le=INT32_MAX), WHOLE] | None,
        Field(description="Only this queue; needs `broker` where the topic lies on more than one."),
    ] = None
    dry_run: bool = False


class QueueResetShown(Shown):
    """One queue: where the group was, and where it goes on."""

    topic: str
    broker: str
    queue_id: int
    from_: Annotated[int, Field(serialization_alias="from")]
    to: int


class ResetShown(Shown):
    """What was reset, or would be; so many messages are skipped, or come again."""

    group: str
    topic: str
    dry_run: bool
    queues: list[QueueResetShown]
    skipped: int
    replayed: int


class LagQueue(Shown):
    """How far a group is behind in one queue; the age is 0 when nothing waits."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    max_offset: int
    lag: int
    oldest_unacked_age_ms: int


class LagShown(Shown):
    """How far a group is behind in all; `total` leaves out the queues of the brokers in `missing`."""

    group: str
    total: int
    queues: list[LagQueue]
    missing: list[str]


class BrokerShown(Shown):
    """A broker, with the most telling of its own figures."""

    broker: str
    cluster: str
    address: str
    alive: bool
    version: str
    put_tps: str
    get_tps: str
    messages_today: int
    runtime: dict[str, str]


class BrokerList(Shown):
    """All brokers that are known here."""

    brokers: list[BrokerShown]


class ClusterPart(Shown):
    """A cluster and its brokers."""

    name: str
    brokers: list[str]


class NameserverShown(Shown):
    """A nameserver, and whether it answers."""

    address: str
    alive: bool


class ClusterShown(Shown):
    """Who takes part."""

    clusters: list[ClusterPart]
    nameservers: list[NameserverShown]
    missing: list[str]


class TopicDefinition(TopicBody):
    """A topic to have."""

    topic: TopicText


class GroupDefinition(GroupBody):
    """A group to have."""

    group: GroupText


class Definitions(Body):
    """Topics and groups as a whole. Applying creates and changes; what is not named stays as it is."""

    topics: Annotated[list[TopicDefinition], Field(max_length=DEFINITIONS_MAX)] = []
    groups: Annotated[list[GroupDefinition], Field(max_length=DEFINITIONS_MAX)] = []


class Applied(Shown):
    """How much was applied."""

    topics: int
    groups: int


class ProblemShown(BaseModel):
    """A refusal, as RFC 9457 says; `field` and `limit` name what to change in the request."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, title="Problem")

    type: str
    title: str
    status: int
    code: str
    retryable: bool
    request_id: str
    detail: str | None = None
    field: str | None = None
    limit: str | None = None
    retry_after_ms: int | None = None
    missing: list[str] | None = None
    column: int | None = None
    expected: str | None = None


class Live(Shown):
    """The process runs."""

    status: Literal["live"]


class Ready(Shown):
    """Whether a message made the round trip through each store, and why not."""

    status: Literal["ready", "starting", "draining"]
    stores: dict[str, str]
