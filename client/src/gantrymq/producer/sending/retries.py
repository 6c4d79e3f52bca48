"""Whether a failed send is retried. RocketMQ's rule: temporary failures, on another broker, within the time and the tries. Pure."""

from __future__ import annotations

from gantry_link.errors import BrokerRefused, LinkError, RequestTimedOut
from gantry_wire.codes import RETRYABLE

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.02, 0.5
"""The pause before the same broker is tried again: without another broker, immediate retries would only use up the tries."""


def may_pass(error: BrokerRefused | LinkError) -> bool:
    """Whether the same message may succeed later or elsewhere. A time-out leaves no time for another try."""
    if isinstance(error, BrokerRefused):
        return error.code in RETRYABLE
    return not isinstance(error, RequestTimedOut)


def is_tried_again(error: BrokerRefused | LinkError, tries_left: int, seconds_left: float) -> bool:
    """Whether a failed send is retried now."""
    return tries_left > 0 and seconds_left > 0 and may_pass(error)


def pause_seconds(tries_done: int, seconds_left: float) -> float:
    """Return the pause before the same broker is tried again."""
    return min(PAUSE_SECONDS_MIN * 4 ** max(tries_done - 1, 0), PAUSE_SECONDS_MAX, seconds_left / 2)
