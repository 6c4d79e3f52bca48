"""Flow control: whether a queue is not pulled because too many of its messages wait. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.consumer.shared.process_queue import ProcessQueue

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """The most waiting messages of a queue in this process. RocketMQ's defaults."""

    messages_max: int = 1000
    bytes_max: int = 100 * MIB
    span_max: int = 2000
    """The most offsets between the oldest unfinished message and the newest; orderly consumers need no such limit."""


def too_much(queue: ProcessQueue, limits: FlowLimits, *, orderly: bool) -> str | None:
    """Return the limit that forbids to pull the queue now, as text; None if it may be pulled."""
    if len(queue) > limits.messages_max:
        return f"{len(queue)} messages wait, the limit is {limits.messages_max}"
    if queue.bytes > limits.bytes_max:
        return f"{queue.bytes} bytes wait, the limit is {limits.bytes_max}"
    if not orderly and queue.span > limits.span_max:
        return f"offset {queue.min_offset} is {queue.span} behind the newest, the limit is {limits.span_max}"
    return None
