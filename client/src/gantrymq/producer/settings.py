"""Settings of a producer, in addition to those of its client. Validated on creation."""

from __future__ import annotations

from dataclasses import dataclass

from gantry_wire.limits import BODY_BYTES_MAX, PER_ITEM_BATCH_BYTES_MAX
from gantrymq.errors import ConfigurationError
from gantrymq.settings import ClientOptions, check_number

RETRIES_MAX = 64
LINGER_SECONDS_MAX = 1.0


class ProducerOptions(ClientOptions, total=False):
    """Keyword options of a producer: those of every client, and those of ProducerSettings."""

    send_timeout: float
    retries: int
    retry_unless_ok: bool
    compress_above: int
    message_bytes_max: int
    avoid_slow_brokers: bool
    linger: float | None
    batch_bytes_max: int
    trace: bool
    trace_topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How messages are sent. Times are in seconds. Raises ConfigurationError, which names the setting and its limit."""

    send_timeout: float = 3.0
    """For one message, including all its retries."""
    retries: int = 2
    """How often a message is retried, on another broker if there is one, after a temporary failure."""
    retry_unless_ok: bool = False
    """Send again if a message was stored with less durability than requested (it is then stored twice)."""
    compress_above: int = 4096
    """Bodies of at least this size in bytes are compressed; 0: never."""
    message_bytes_max: int = BODY_BYTES_MAX
    """Largest body, and largest batch, before compression."""
    avoid_slow_brokers: bool = False
    """Avoid a broker for a while after it was slow or failed (RocketMQ's `sendLatencyFaultEnable`)."""
    linger: float | None = None
    """Batch concurrent sends for this time; 0: those of one turn of the event loop; None: no batches."""
    batch_bytes_max: int = 32 * 1024
    """A batch of `linger` is sent early at this size."""
    trace: bool = False
    """Send a trace record of each sent message to the trace topic."""
    trace_topic: str = "RMQ_SYS_TRACE_TOPIC"

    def __post_init__(self) -> None:
        check_number("send_timeout", self.send_timeout, 0.001, 86_400)
        check_number("retries", self.retries, 0, RETRIES_MAX)
        check_number("compress_above", self.compress_above, 0, PER_ITEM_BATCH_BYTES_MAX)
        check_number("message_bytes_max", self.message_bytes_max, 1, PER_ITEM_BATCH_BYTES_MAX)
        check_number("batch_bytes_max", self.batch_bytes_max, 1, PER_ITEM_BATCH_BYTES_MAX)
        if self.linger is not None:
            check_number("linger", self.linger, 0, LINGER_SECONDS_MAX)
        if self.batch_bytes_max > self.message_bytes_max:
            raise ConfigurationError(
                f"batch_bytes_max: {self.batch_bytes_max} is more than message_bytes_max, {self.message_bytes_max}"
            )
