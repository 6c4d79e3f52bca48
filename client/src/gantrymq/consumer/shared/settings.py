"""The options of a consumer, with default (RocketMQ's, if it has one), unit and bounds. Validated on creation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from gantry_wire.bodies.clients import ConsumeFromWhere, MessageModel
from gantry_wire.limits import PULL_MESSAGES_MAX
from gantry_wire.names import TRACE_TOPIC
from gantrymq.consumer.shared.flow import MIB, FlowLimits
from gantrymq.consumer.shared.strategies import Averagely, Strategy
from gantrymq.errors import ConfigurationError
from gantrymq.settings import ClientOptions, check_number

HOLD_SECONDS_MAX = 30.0


class ConsumerOptions(ClientOptions, total=False):
    """Keyword options of a PushConsumer; see ConsumerSettings, and ClientSettings for those of every client."""

    model: MessageModel
    orderly: bool
    start: ConsumeFromWhere
    start_time: datetime
    strategy: Strategy
    concurrency: int
    batch_size: int
    pull_batch_size: int
    pull_interval: float
    queue_messages_max: int
    queue_bytes_max: int
    queue_span_max: int
    attempts_max: int
    suspend_seconds: float
    consume_timeout: float
    close_timeout: float
    rebalance_interval: float
    commit_interval: float
    hold_seconds: float
    offsets_dir: str | Path
    trace: bool
    trace_topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The options of a push consumer. Times are in seconds. Raises ConfigurationError, which names the option and its limit."""

    model: MessageModel = MessageModel.CLUSTERING
    """CLUSTERING: the members of the group share the messages. BROADCASTING: each gets all, and none is delivered again."""
    orderly: bool = False
    """One message of a queue at a time, in order, by the member that holds the queue's lock."""
    start: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    """Where the group starts a queue without an offset."""
    start_time: datetime | None = None
    """For CONSUME_FROM_TIMESTAMP: a datetime with a zone."""
    strategy: Strategy = field(default_factory=Averagely)
    """The distribution of queues; all members of a group need the same."""
    concurrency: int = 20
    """Concurrent calls of the listener, and threads for a plain function."""
    batch_size: int = 1
    """The most messages per call."""
    pull_batch_size: int = 256
    """Messages requested per pull; RocketMQ's broker returns 32 at most."""
    pull_interval: float = 0.0
    """Pause between two pulls of a queue."""
    queue_messages_max: int = 1000
    queue_bytes_max: int = 100 * MIB
    queue_span_max: int = 2000
    """Limits of the waiting messages of a queue in this process: number, bytes, and offsets between the oldest and the newest."""
    attempts_max: int | None = None
    """The number of retries before a message becomes a dead letter: by default 16, for orderly consumers no limit (-1)."""
    suspend_seconds: float = 1.0
    """The pause of an orderly queue after a failure, 0.01 to 30."""
    consume_timeout: float = 15 * 60.0
    """A concurrent call that takes longer has its messages sent back, and its result is ignored."""
    close_timeout: float = 10.0
    """How long `close` waits for running calls."""
    rebalance_interval: float = 20.0
    commit_interval: float = 5.0
    hold_seconds: float = 15.0
    """How long a broker holds a pull that finds nothing."""
    offsets_dir: str | Path | None = None
    """The folder in which a broadcasting consumer keeps its offsets; default: .rocketmq_offsets in the home folder."""

    trace: bool = False
    """Send a trace record of every consumed message to the trace topic."""
    trace_topic: str = TRACE_TOPIC

    def __post_init__(self) -> None:
        check_whole("concurrency", self.concurrency, 1, 10_000)
        check_whole("batch_size", self.batch_size, 1, 1024)
        check_whole("pull_batch_size", self.pull_batch_size, 1, PULL_MESSAGES_MAX)
        check_whole("queue_messages_max", self.queue_messages_max, 1, 65_535)
        check_whole("queue_bytes_max", self.queue_bytes_max, 1, 1024 * MIB)
        check_whole("queue_span_max", self.queue_span_max, 1, 65_535)
        if self.attempts_max is not None:
            check_whole("attempts_max", self.attempts_max, -1, 2**31 - 1)
        check_number("pull_interval", self.pull_interval, 0, 65.536)
        check_number("suspend_seconds", self.suspend_seconds, 0.01, 30)
        check_number("consume_timeout", self.consume_timeout, 0.01, 24 * 3600)
        check_number("close_timeout", self.close_timeout, 0, 3600)
        check_number("rebalance_interval", self.rebalance_interval, 0.1, 3600)
        check_number("commit_interval", self.commit_interval, 0.01, 3600)
        check_number("hold_seconds", self.hold_seconds, 0.001, HOLD_SECONDS_MAX)
        self._check_choices()

    def _check_choices(self) -> None:
        for name, value, kind in (
            ("model", self.model, MessageModel),
            ("start", self.start, ConsumeFromWhere),
        ):
            if not isinstance(value, kind):  # pyright: ignore[reportUnnecessaryIsInstance] - users without a type checker
                raise ConfigurationError(
                    f"{name}: must be one of {', '.join(map(str, kind))} of {kind.__name__}, not {value!r}"
                )
        if not callable(getattr(self.strategy, "allocate", None)):
            raise ConfigurationError(
                f"strategy: must be an object such as Averagely(), not {self.strategy!r}"
            )
        by_time = self.start is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
        if by_time and (not isinstance(self.start_time, datetime) or self.start_time.tzinfo is None):
            raise ConfigurationError("start_time: CONSUME_FROM_TIMESTAMP needs a datetime with a zone")

    @property
    def flow(self) -> FlowLimits:
        """The limits of the waiting messages of a queue."""
        return FlowLimits(self.queue_messages_max, self.queue_bytes_max, self.queue_span_max)

    @property
    def start_ms(self) -> int:
        """The start time, in ms since 1970; 0 if there is none."""
        return round(self.start_time.timestamp() * 1000) if self.start_time is not None else 0

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member gets all messages."""
        return self.model is MessageModel.BROADCASTING


def offsets_path(settings_dir: str | Path | None, client: Sequence[str], group: str) -> Path:
    """Return the file of a broadcasting consumer's offsets: `DIR/CLIENT/GROUP/offsets.json`, the layout of the Java client."""
    root = Path(settings_dir) if settings_dir is not None else Path.home() / ".rocketmq_offsets"
    return root / "@".join(filter(None, client)) / group / "offsets.json"


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raise ConfigurationError unless an option is a whole number between two bounds, both included."""
    check_number(name, value, least, most)
    if not isinstance(value, int):
        raise ConfigurationError(f"{name}: must be a whole number, not {value!r}")
