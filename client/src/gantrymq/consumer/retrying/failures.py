"""Log lines of failed messages: one line each, with everything to find the message, and when it is delivered again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gantrymq.consumer.retrying.outcomes import ATTEMPTS_MAX, Outcome
from gantrymq.message import ReceivedMessage

log: logging.Logger = logging.getLogger("gantrymq")

TRACEBACK_SECONDS = 1.0
"""Each failure is logged; the traceback of an exception at most once in this time, so that a listener that always fails does not fill the disk."""
DELAYS = [
    "1s",
    "5s",
    "10s",
    "30s",
    "1m",
    "2m",
    "3m",
    "4m",
    "5m",
    "6m",
    "7m",
    "8m",
    "9m",
    "10m",
    "20m",
    "30m",
    "1h",
    "2h",
]
"""The durations of the delay levels, from 1 on: RocketMQ's, and those of Gantry's brokers unless `messageDelayLevel` changes them."""
FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry: brokers add the number of attempts to it."""


def next_delivery(delay_level: int, reconsume_times: int, attempts_max: int | None) -> str:
    """Return when a message that is sent back is delivered again. `attempts_max` None: the group's configuration at the broker decides."""
    limit = ATTEMPTS_MAX if attempts_max is None else attempts_max
    if delay_level < 0 or reconsume_times >= limit >= 0:
        return "it becomes a dead letter"
    level = min(delay_level or FIRST_RETRY_LEVEL + reconsume_times, len(DELAYS))
    return f"it is delivered again in {DELAYS[level - 1]} (delay level {level})"


class FailureLog:
    """Writes the log lines of a consumer."""

    def __init__(self, group: str, steady: Callable[[], float]) -> None:
        """`steady` is a monotonic clock in seconds."""
        self._steady = steady
        self._group = group
        self._last_traceback = float("-inf")

    def write(self, messages: Sequence[ReceivedMessage], outcome: Outcome, then: Sequence[str]) -> None:
        """Log failed messages, and what happens to each (`then`)."""
        error, now = outcome.error, self._steady()
        if error is not None and now - self._last_traceback < TRACEBACK_SECONDS:
            error = None
        if error is not None:
            self._last_traceback = now
        for message, next_step in zip(messages, then, strict=True):
            log.warning(
                "group %s: attempt %d of %s failed: %s; %s",
                self._group, message.reconsume_times + 1, named(message), outcome.failure, next_step,
                exc_info=error,
            )  # fmt: skip
            error = None


def named(message: ReceivedMessage) -> str:
    """Return the fields by which a message can be found."""
    where = f"{message.topic} (queue {message.broker}:{message.queue_id}, offset {message.queue_offset})"
    keys = f", keys {_on_one_line(' '.join(message.keys))}" if message.keys else ""
    return f"message {_on_one_line(message.message_id)} of {where}{keys}"


def _on_one_line(text: str) -> str:
    """Return untrusted text as part of a line: its control characters cannot start another line."""
    return text if text.isprintable() else repr(text)
