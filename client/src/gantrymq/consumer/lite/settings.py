"""The options of a LitePullConsumer, with default, unit and bounds. Validated on creation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gantry_wire.bodies.clients import ConsumeFromWhere
from gantrymq.consumer.shared.settings import ConsumerSettings, check_whole
from gantrymq.consumer.shared.strategies import Strategy
from gantrymq.errors import ConfigurationError
from gantrymq.settings import ClientOptions


class LiteOptions(ClientOptions, total=False):
    """Keyword options of a LitePullConsumer; see LiteSettings, and ClientSettings for those of every client."""

    auto_commit: bool
    poll_batch_size: int
    start: ConsumeFromWhere
    start_time: datetime
    strategy: Strategy
    pull_batch_size: int
    queue_messages_max: int
    queue_bytes_max: int
    rebalance_interval: float
    commit_interval: float
    hold_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteSettings(ConsumerSettings):
    """The options of a LitePullConsumer: those of ConsumerSettings that concern reading, and these."""

    auto_commit: bool = True
    """Commit the offsets of returned messages every `commit_interval`, and at the end."""
    poll_batch_size: int = 32
    """The most messages of a `poll`, unless it sets its own limit."""

    def __post_init__(self) -> None:
        ConsumerSettings.__post_init__(self)
        check_whole("poll_batch_size", self.poll_batch_size, 1, 1024)
        if self.is_broadcasting or self.orderly:
            raise ConfigurationError(
                "model, orderly: a LitePullConsumer shares queues, and returns each in order anyway"
            )
