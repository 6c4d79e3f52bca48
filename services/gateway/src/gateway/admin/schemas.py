"""Bodies of the calls about topics, groups, brokers and the cluster."""

from typing import Annotated, Literal, get_args

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
"""Settings are sent as lines `key=value`."""

Queues = Annotated[int, Meta(ge=1, le=QUEUES_MAX)]
WaitMs = Annotated[int, Meta(ge=0, le=40 * 86_400_000)]
Order = Literal["none", "shardingKey"]
MessageType = Literal["NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED"]
"""What a topic takes from clients that name the type of a message (RocketMQ 5)."""
MESSAGE_TYPES: dict[str, MessageType] = {one: one for one in get_args(MessageType)}
StartAt = Literal["earliest", "latest"]
SettingName = Annotated[str, Meta(pattern=KEY_PATTERN)]
SettingValue = Annotated[str, Meta(pattern=VALUE_PATTERN, max_length=4096)]


class TopicBody(Body):
    """The settings of a topic, on every broker."""

    read_queues: Queues = TOPIC_QUEUES_DEFAULT
    write_queues: Queues = TOPIC_QUEUES_DEFAULT
    perm: Perm = "rw"
    message_type: MessageType | None = None
    """None: messages of every type."""


class QueueShown(Shown):
    """One queue: offsets from `minOffset` up to, but excluding, `maxOffset` can be read."""

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
    """A topic, without the queues of the brokers in `missing`."""

    topic: str
    perm: PermShown
    message_type: str | None
    brokers: list[TopicHolder]
    queues: list[QueueShown]
    missing: list[str]


class TopicListed(Shown):
    """A topic in the list; the largest counts of any broker."""

    topic: str
    perm: PermShown
    read_queues: int
    write_queues: int
    message_type: str | None
    brokers: list[str]


class TopicList(Shown):
    """All topics, except those that only brokers in `missing` have."""

    topics: list[TopicListed]
    missing: list[str]


class TopicPut(Shown):
    """A topic that every broker and nameserver has."""

    topic: str
    read_queues: int
    write_queues: int
    perm: Perm
    message_type: MessageType | None
    brokers: list[str]


class Status(Shown):
    """The result of the call."""

    status: Literal["deleted", "paused", "resumed", "stored"]


class ListPolicy(Body, tag_field="type", tag="list"):
    """Delays before each retry; the last one repeats."""

    delays_ms: Annotated[list[WaitMs], Meta(min_length=1, max_length=POLICY_DELAYS_MAX)]


class ExponentialPolicy(Body, tag_field="type", tag="exponential"):
    """Delays that grow from `initialMs` to `maxMs`; each varies by `jitter` (0.2: by a fifth either way)."""

    initial_ms: WaitMs
    multiplier: Annotated[float, Meta(ge=1, le=100)] = 2.0
    max_ms: WaitMs = 7_200_000
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.0


Policy = ListPolicy | ExponentialPolicy


class GroupBody(Body):
    """The settings of a consumer group, on every broker."""

    retry_max_times: Annotated[int, Meta(ge=-1, le=1000)] = 16
    retry_queues: Queues = 1
    broadcast: bool = True
    paused: bool = False
    retry_policy: Annotated[
        Policy | None,
        Meta(description="When a failed message is delivered again; null: RocketMQ's delay levels."),
    ] = None
    order: Annotated[
        Order, Meta(description="Receive one message at a time per shardingKey, or without an order.")
    ] = "none"
    start_at: Annotated[StartAt, Meta(description="Where receives of a new topic start.")] = "earliest"


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
    """All consumer groups of clients, except those that only brokers in `missing` have."""

    groups: list[GroupShown]
    missing: list[str]


class OffsetBody(Body):
    """A group's new offset in one queue."""

    topic: TopicText
    broker: BrokerText
    queue_id: QueueId
    offset: Offset


class OffsetsBody(Body):
    """Offsets to set; all are checked before any is set."""

    offsets: Annotated[list[OffsetBody], Meta(min_length=1, max_length=OFFSETS_MAX)]


class ResetBody(Body):
    """A group's new position in a topic: `earliest`, `latest`, a time in RFC 3339, or an offset."""

    topic: TopicText
    to: Annotated[str | Offset, Meta(description="`earliest`, `latest`, a time in RFC 3339, or an offset.")]
    broker: Annotated[BrokerText | None, Meta(description="Only its queues.")] = None
    queue_id: Annotated[
        QueueId | None,
        Meta(description="Only this queue; needs `broker` if several brokers have the topic."),
    ] = None
    dry_run: bool = False


class QueueResetShown(Shown):
    """One queue: the group's old and new offset."""

    topic: str
    broker: str
    queue_id: int
    from_: int = field(name="from")
    to: int


class ResetShown(Shown):
    """The offsets that were reset, or would be, with the numbers of messages skipped and delivered again."""

    group: str
    topic: str
    dry_run: bool
    queues: list[QueueResetShown]
    skipped: int
    replayed: int


class LagQueue(Shown):
    """A group's lag in one queue; the age is 0 if no message waits."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    max_offset: int
    lag: int
    oldest_unacked_age_ms: int


class LagShown(Shown):
    """A group's lag in all queues; `total` excludes the queues of the brokers in `missing`."""

    group: str
    total: int
    queues: list[LagQueue]
    missing: list[str]


class BrokerShown(Shown):
    """A broker, with the most important of its own metrics."""

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
    """All known brokers."""

    brokers: list[BrokerShown]


class SettingsBody(Body):
    """Settings to change, all or none."""

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
    """A nameserver, and whether it responds."""

    address: str
    alive: bool


class ReplicaShown(Shown):
    """One replica of a broker; null is what neither it nor its leader says."""

    name: str
    broker_id: int | None
    """0 is the master; null for one that is not registered."""
    address: str
    role: str
    """`leader`, `follower`, `learner`, `promised` or `deposed`; `unknown` without an answer."""
    epoch: int | None
    end_offset: int | None
    behind_bytes: int | None
    behind_ms: int | None
    in_sync: bool | None
    is_fit: bool | None
    """Whether it is fit to lead: its disk has room, and its log has lost nothing."""


class BrokerGroupShown(Shown):
    """A broker with several replicas: who leads it, in which epoch, and how far the others are behind."""

    broker: str
    leader: str
    """Name of the replica that leads; empty if none says so."""
    address: str
    epoch: int | None
    leads_for_ms: int | None
    """How long the leader has led."""
    members: list[str]
    """The replicas that every acknowledged message is on."""
    min_in_sync: int | None
    accepts_sends: bool | None
    has_lease: bool | None
    register_fault: str
    replicas: list[ReplicaShown]


class LeadMoves(Shown):
    """A leader that hands over. `GET /v1/cluster` shows who leads then, and in which epoch."""

    broker: str
    leader: str
    """The replica that still leads, or did."""
    epoch: int | None
    to: str
    """The replica that shall lead; empty: the best one that is in sync."""


class ClusterShown(Shown):
    """The clusters, and their brokers and nameservers."""

    clusters: list[ClusterPart]
    groups: list[BrokerGroupShown]
    """The brokers with replicas."""
    nameservers: list[NameserverShown]
    missing: list[str]


class TopicDefinition(TopicBody, kw_only=True):
    """A topic to create or change."""

    topic: TopicText


class GroupDefinition(GroupBody, kw_only=True):
    """A group to create or change."""

    group: GroupText


class Definitions(Body):
    """Topics and groups of a cluster. Applying it creates and changes; others do not change."""

    topics: Annotated[list[TopicDefinition], Meta(max_length=DEFINITIONS_MAX)] = field(
        default_factory=list[TopicDefinition]
    )
    groups: Annotated[list[GroupDefinition], Meta(max_length=DEFINITIONS_MAX)] = field(
        default_factory=list[GroupDefinition]
    )


class Applied(Shown):
    """How many topics and groups were applied."""

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
