"""What follows from a listener's answer: which messages are done, which come again, and when. Pure.

RocketMQ's rules: `ConsumeMessageConcurrentlyService` and `ConsumeMessageOrderlyService`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gantry.message import MessageQueue, ReceivedMessage

SUSPEND_SECONDS_MIN, SUSPEND_SECONDS_MAX = 0.01, 30.0
"""How long an orderly queue rests after a failure is kept within these."""
ATTEMPTS_MAX = 16
"""How often brokers give a message again to a group that is not configured otherwise."""
DEAD_LETTER_LEVEL = -1
"""The delay level that sends a message to the dead letters at once."""


class ConsumeResult(StrEnum):
    """What a listener may return. None counts as SUCCESS, an exception as RECONSUME_LATER."""

    SUCCESS = "SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    """Concurrent: the messages come again after a delay that grows. Orderly: the queue rests, then the same ones come again."""


@dataclass(slots=True)
class ConsumeContext:
    """What a listener that takes a second argument gets: where the messages came from, and what it may decide beyond its result."""

    queue: MessageQueue
    ack_index: int | None = None
    """Index of the last message that was consumed; those behind it come again. None: all of them. Concurrent only."""
    delay_level: int = 0
    """When messages come again: 0 the broker decides, by their attempts; -1 never, they become dead letters; 1 to 18 a delay level."""
    suspend_seconds: float | None = None
    """How long an orderly queue rests after a failure, 0.01 to 30 s; None: as the consumer is set."""


@dataclass(slots=True, frozen=True)
class Outcome:
    """A listener's answer, understood: `failure` says in words why the messages come again, None for success."""

    failure: str | None
    error: BaseException | None = None


SUCCEEDED = Outcome(None)


def understand(returned: object) -> Outcome:
    """Return what a listener's return value means. What is no result means failure: nothing may be lost for it."""
    if returned is None or returned is ConsumeResult.SUCCESS:
        return SUCCEEDED
    if returned is ConsumeResult.RECONSUME_LATER:
        return Outcome("the listener wants them later")
    return Outcome(
        f"the listener returned {returned!r:.100}: return None, ConsumeResult.SUCCESS or ConsumeResult.RECONSUME_LATER"
    )


@dataclass(slots=True, frozen=True)
class Split:
    """Messages of one call, parted: done, and again."""

    done: Sequence[ReceivedMessage]
    again: Sequence[ReceivedMessage]


def split(
    outcome: Outcome, messages: Sequence[ReceivedMessage], ack_index: int | None, *, broadcasting: bool
) -> Split:
    """Return which messages of a concurrent call are done. Broadcast messages never come again: no broker keeps count."""
    if broadcasting:
        return Split(messages, ())
    if outcome.failure is not None:
        return Split((), messages)
    if ack_index is None or ack_index >= len(messages) - 1:
        return Split(messages, ())
    first_again = max(ack_index + 1, 0)
    return Split(messages[:first_again], messages[first_again:])


@dataclass(slots=True, frozen=True)
class OrderlyPlan:
    """What an orderly queue does after a call: bury the messages, or rest so long and try again, or go on."""

    rest_seconds: float | None = None
    bury: bool = False


def plan_orderly(
    outcome: Outcome, messages: Sequence[ReceivedMessage], attempts_max: int, rest_seconds: float
) -> OrderlyPlan:
    """Return what follows from an orderly call. `attempts_max` -1: tried for ever.

    Messages that were all tried so often become dead letters; otherwise all come again after the rest, one attempt more.
    """
    if outcome.failure is None:
        return OrderlyPlan()
    if 0 <= attempts_max <= min([message.reconsume_times for message in messages], default=0):
        return OrderlyPlan(bury=True)
    return OrderlyPlan(min(max(rest_seconds, SUSPEND_SECONDS_MIN), SUSPEND_SECONDS_MAX))


def attempts_max_of(configured: int | None, *, orderly: bool) -> int:
    """Return how often a message is tried again: 16 for concurrent consumers, for ever (-1) for orderly ones, if not set."""
    if configured is not None:
        return configured
    return -1 if orderly else ATTEMPTS_MAX
