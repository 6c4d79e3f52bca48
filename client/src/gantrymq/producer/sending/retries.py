"""Whether a failed send is retried. RocketMQ's rule: temporary failures, on another broker, within the time and the tries. Pure."""

from __future__ import annotations

from gantry_link.errors import BrokerRefused, LinkError, RequestTimedOut
from gantry_wire.codes import RETRYABLE
from gantry_wire.private_requests.leading import NOT_LEADER

WAIT_SECONDS_MAX = 0.1
"""The longest pause while another replica takes over."""
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


def is_never_stored(error: BrokerRefused | LinkError) -> bool:
    """Whether the replica that was sent to certainly has not stored it, and will not: the next leader may be sent it."""
    if isinstance(error, BrokerRefused):
        return error.fields.get("gantryCode") == NOT_LEADER
    return not error.sent


def pause_seconds(tries_done: int, seconds_left: float, waits_done: int = 0) -> float:
    """Return the pause before the same broker is tried again, after this many tries, and waits for another replica to lead it."""
    longest = WAIT_SECONDS_MAX if waits_done else PAUSE_SECONDS_MAX
    growing = PAUSE_SECONDS_MIN * 4 ** min(max(tries_done, waits_done) - 1, 4)
    return max(0.0, min(max(growing, PAUSE_SECONDS_MIN), longest, seconds_left / 2))
