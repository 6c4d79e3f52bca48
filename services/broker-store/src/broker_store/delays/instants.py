"""Due time of a timed message, from TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS (RocketMQ 5's order). Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.messages.properties import (
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)

_DIGITS_MAX = 19


class Now(NamedTuple):
    """The current times at which a delay begins."""

    store_ms: int
    wall_ms: int


def due_ms(
    properties: Mapping[str, str], now: Now, horizon_ms: int, *, is_committed: bool = False
) -> int | None:
    """Return when a message is due. None without a time, or with one that is not in the future: it is then delivered at once.

    RocketMQ rounds down to `timerPrecisionMs`, a second; here the millisecond is kept. Raises
    RefusedRequest for what is not a number, for an instant beyond the horizon, and for a cancellation that
    comes too late. With `is_committed` the message was accepted in time as a half. Its cancellation then
    keeps its instant, and finds nothing to cancel if it is too late.
    """
    if TIMER_OUT_MS in properties:
        return None  # it was taken from the timer's topic: RocketMQ does not time it again
    deliver_ms = _asked_ms(properties, now.store_ms)
    if deliver_ms is None:
        if TIMER_DEL_UNIQKEY in properties:
            raise _illegal(
                f"a cancelling message ({TIMER_DEL_UNIQKEY}) must give the instant of the recalled one in {TIMER_DELIVER_MS}"
            )
        return None
    # An instant is reached when both clocks have reached it, and too far ahead when it is so for both.
    is_relative = TIMER_DELAY_SEC in properties or TIMER_DELAY_MS in properties
    now_ms = now.store_ms if is_relative else min(now)
    if deliver_ms <= now_ms:
        if TIMER_DEL_UNIQKEY in properties:
            if is_committed:
                return deliver_ms
            raise _illegal(
                "timer message illegal: a cancelling message must arrive before the recalled one is due, "
                f"which was {now_ms - deliver_ms} ms ago"
            )
        return None
    now_ms = now.store_ms if is_relative else max(now)
    if deliver_ms - now_ms > horizon_ms:
        raise RefusedRequest(
            ResponseCode.MESSAGE_ILLEGAL,
            f"timer message illegal, the delay time should not be bigger than the max delay {horizon_ms}ms; "
            f"it is {deliver_ms - now_ms}ms",
            {"gantryCode": "DELAY_TOO_LONG"},
        )
    return deliver_ms


def _asked_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    if (seconds := properties.get(TIMER_DELAY_SEC)) is not None:
        return now_ms + _number(TIMER_DELAY_SEC, seconds) * 1000
    if (delay_ms := properties.get(TIMER_DELAY_MS)) is not None:
        return now_ms + _number(TIMER_DELAY_MS, delay_ms)
    if (deliver_ms := properties.get(TIMER_DELIVER_MS)) is not None:
        return _number(TIMER_DELIVER_MS, deliver_ms)
    return None


def _number(name: str, text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS_MAX:
        raise _illegal(f"the property {name} must be a whole number, it is {text[:64]!r}")
    return int(text)


def _illegal(remark: str) -> RefusedRequest:
    return RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, remark, {"gantryCode": "DELAY_ILLEGAL"})
