"""Effects of a listener's result: which messages are done, which are delivered again, and when. Pure.

RocketMQ's rules: `ConsumeMessageConcurrentlyService` and `ConsumeMessageOrderlyService`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from numbers import Integral, Real

from gantrymq.message import MessageQueue, ReceivedMessage

SUSPEND_SECONDS_MIN, SUSPEND_SECONDS_MAX = 0.01, 30.0
"""The bounds of the pause of an orderly queue after a failure."""
ATTEMPTS_MAX = 16
"""The number of retries that brokers grant a group by default."""
DEAD_LETTER_LEVEL = -1
"""The delay level that makes a message a dead letter at once."""


class ConsumeResult(StrEnum):
    """The result of a listener. None counts as SUCCESS, an exception as RECONSUME_LATER."""

    SUCCESS = "SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    """Concurrent: the messages are delivered again after an increasing delay. Orderly: the queue pauses, then the same ones are delivered again."""


@dataclass(slots=True)
class ConsumeContext:
    """The second argument of a listener: the origin of the messages, and decisions beyond its result."""

    queue: MessageQueue
    ack_index: int | None = None
    """Index of the last consumed message; later ones are delivered again. None: all are consumed. Concurrent only."""
    delay_level: int = 0
    """When messages are delivered again: 0 the broker decides, by their attempts; -1 never, they become dead letters; 1 to 18 a delay level."""
    suspend_seconds: float | None = None
    """The pause of an orderly queue after a failure, 0.01 to 30 s; None: the consumer's setting."""

    def fault(self) -> str | None:
        """Return which field a listener has set to an impossible value, None if there is none."""
        for name, kind, value, is_needed in (
            ("ack_index", Integral, self.ack_index, False),
            ("delay_level", Integral, self.delay_level, True),
            ("suspend_seconds", Real, self.suspend_seconds, False),
        ):
            given: object = value
            if given is None and not is_needed:
                continue
            if not isinstance(given, kind) or not isfinite(given):
                return f"the listener set {name} to {shown(given):.100}: it must be a number"
        return None


@dataclass(slots=True, frozen=True)
class Outcome:
    """A listener's result, interpreted: `failure` says why the messages are delivered again, None for success."""

    failure: str | None
    error: BaseException | None = None


SUCCEEDED = Outcome(None)


def understand(returned: object) -> Outcome:
    """Return the meaning of a listener's return value. An invalid value means failure, so that nothing is lost."""
    if returned is None or returned is ConsumeResult.SUCCESS:
        return SUCCEEDED
    if returned is ConsumeResult.RECONSUME_LATER:
        return Outcome("the listener returned RECONSUME_LATER")
    return Outcome(
        f"the listener returned {shown(returned):.100}: return None, ConsumeResult.SUCCESS or ConsumeResult.RECONSUME_LATER"
    )


def shown(value: object, as_text: Callable[[object], str] = repr) -> str:
    """Return a listener's object as text. Its own code may raise: that must not end what handles the call."""
    try:
        return as_text(value)
    except Exception as error:  # noqa: BLE001 - as above
        return f"a {type(value).__name__} whose text raises {type(error).__name__}"


@dataclass(slots=True, frozen=True)
class Split:
    """The messages of a call, split: done, and again."""

    done: Sequence[ReceivedMessage]
    again: Sequence[ReceivedMessage]


def split(
    outcome: Outcome, messages: Sequence[ReceivedMessage], ack_index: int | None, *, broadcasting: bool
) -> Split:
    """Return which messages of a concurrent call are done. Broadcast messages are never delivered again: no broker counts their attempts."""
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
    """The next step of an orderly queue after a call: make the messages dead letters, or pause and retry, or continue."""

    rest_seconds: float | None = None
    bury: bool = False


def plan_orderly(
    outcome: Outcome, messages: Sequence[ReceivedMessage], attempts_max: int, rest_seconds: float
) -> OrderlyPlan:
    """Return the effects of an orderly call. `attempts_max` -1: no limit.

    If all messages have used up their attempts they become dead letters; otherwise all are delivered again after the pause, with one attempt more.
    """
    if outcome.failure is None:
        return OrderlyPlan()
    if 0 <= attempts_max <= min([message.reconsume_times for message in messages], default=0):
        return OrderlyPlan(bury=True)
    return OrderlyPlan(min(max(rest_seconds, SUSPEND_SECONDS_MIN), SUSPEND_SECONDS_MAX))


def attempts_max_of(configured: int | None, *, orderly: bool) -> int:
    """Return the number of retries of a message: by default 16 for concurrent consumers, no limit (-1) for orderly ones."""
    if configured is not None:
        return configured
    return -1 if orderly else ATTEMPTS_MAX
