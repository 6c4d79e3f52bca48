"""Bodies of the calls about topics, groups, brokers and the cluster."""

from typing import Annotated, Literal

from msgspec import Meta, field

from gantry_wire.limits import TOPIC_QUEUES_DEFAULT
from gateway.requests.fields import (
    QUEUES_MAX,
    Body,
    BrokerText,
    GroupText,
    Offset,
    Perm,
    PermShown,
    QueueId,
    Shown,
    TopicText,
)
from gateway.requests.limits import DEFINITIONS_MAX, OFFSETS_MAX, POLICY_DELAYS_MAX, SETTINGS_MAX

KEY_PATTERN = r"^[A-Za-z0-9_.]{1,128}$"
VALUE_PATTERN = r"^[^\x00-\x1f\x7f]*$"
"""Settings travel as lines `key=value`."""

Queues = Annotated[int, Meta(ge=1, le=QUEUES_MAX)]
WaitMs = Annotated[int, Meta(ge=0, le=40 * 86_400_000)]
Order = Literal["none", "shardingKey"]
StartAt = Literal["earliest", "latest"]
SettingName = Annotated[str, Meta(pattern=KEY_PATTERN)]
SettingValue = Annotated[str, Meta(pattern=VALUE_PATTERN, max_length=4096)]


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

    status: Literal["deleted", "paused", "resumed", "stored"]


class ListPolicy(Body, tag_field="type", tag="list"):
    """Waits one after the other before a message comes again; the last one is repeated."""

    delays_ms: Annotated[list[WaitMs], Meta(min_length=1, max_length=POLICY_DELAYS_MAX)]


class ExponentialPolicy(Body, tag_field="type", tag="exponential"):
    """Waits that grow from `initialMs` to `maxMs`; each varies by `jitter` (0.2: a fifth either way)."""

    initial_ms: WaitMs
    multiplier: Annotated[float, Meta(ge=1, le=100)] = 2.0
    max_ms: WaitMs = 7_200_000
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.0


Policy = ListPolicy | ExponentialPolicy


class GroupBody(Body):
    """How a consumer group shall be, on every broker."""

    retry_max_times: Annotated[int, Meta(ge=-1, le=1000)] = 16
    retry_queues: Queues = 1
    broadcast: bool = True
    paused: bool = False
    retry_policy: Annotated[
        Policy | None, Meta(description="When a failed message comes again; null: RocketMQ's delay levels.")
    ] = None
    order: Annotated[Order, Meta(description="Receive one by one per shardingKey, or as they come.")] = "none"
    start_at: Annotated[StartAt, Meta(description="Where receives of a new topic begin.")] = "earliest"


class GroupShown(Shown):
    """A consumer group."""

    group: str
    paused: bool
    broadcast: bool
    retry_max_times: int
    retry_queues: int
    retry_policy: Policy | None
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
    queue_id: QueueId
    offset: Offset


class OffsetsBody(Body):
    """Offsets to set; every one is checked before any is set."""

    offsets: Annotated[list[OffsetBody], Meta(min_length=1, max_length=OFFSETS_MAX)]


class ResetBody(Body):
    """Where a group shall go on in a topic: `earliest`, `latest`, a time in RFC 3339, or an offset."""

    topic: TopicText
    to: Annotated[str | Offset, Meta(description="`earliest`, `latest`, a time in RFC 3339, or an offset.")]
    broker: Annotated[BrokerText | None, Meta(description="Only its queues.")] = None
    queue_id: Annotated[
        QueueId | None,
        Meta(description="Only this queue; needs `broker` where the topic lies on more than one."),
    ] = None
    dry_run: bool = False


class QueueResetShown(Shown):
    """One queue: where the group was, and where it goes on."""

    topic: str
    broker: str
    queue_id: int
    from_: int = field(name="from")
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


class SettingsBody(Body):
    """Settings to change; all of them are, or none."""

    settings: Annotated[dict[SettingName, SettingValue], Meta(min_length=1, max_length=SETTINGS_MAX)]


class SettingsShown(Shown):
    """All settings of a broker that are in force."""

    broker: str
    settings: dict[str, str]


class ClusterPart(Shown):
    """A cluster and its brokers."""

    name: str
    brokers: list[str]


class NameserverShown(Shown):
    """A nameserver, and whether it answers."""

    address: str
    alive: bool


class ClusterShown(Shown):
    """The clusters, and the brokers and nameservers in them."""

    clusters: list[ClusterPart]
    nameservers: list[NameserverShown]
    missing: list[str]


class TopicDefinition(TopicBody, kw_only=True):
    """A topic to have."""

    topic: TopicText


class GroupDefinition(GroupBody, kw_only=True):
    """A group to have."""

    group: GroupText


class Definitions(Body):
    """Topics and groups as a whole. Applying creates and changes; what is not named stays as it is."""

    topics: Annotated[list[TopicDefinition], Meta(max_length=DEFINITIONS_MAX)] = field(
        default_factory=list[TopicDefinition]
    )
    groups: Annotated[list[GroupDefinition], Meta(max_length=DEFINITIONS_MAX)] = field(
        default_factory=list[GroupDefinition]
    )


class Applied(Shown):
    """How much was applied."""

    topics: int
    groups: int


class ReportFileShown(Shown):
    """A file of a report."""

    path: str
    bytes: int


class ReportShown(Shown):
    """A report: its page is `report.html` among its files."""

    name: str
    written_at: str
    files: list[ReportFileShown]


class ReportList(Shown):
    """The reports, newest first."""

    reports: list[ReportShown]
