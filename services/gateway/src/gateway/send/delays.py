"""Delayed delivery of a message: checks the three kinds of delay, and writes RocketMQ's property for the given one.

Pure. A duration is counted from the store's time, so it is sent as a duration; only an instant is compared with the gateway's clock.
"""

from datetime import datetime

from gantry_wire.messages.properties import DELAY, TIMER_DELAY_MS, TIMER_DELIVER_MS
from gateway.http.problems import Problem, invalid
from gateway.messages.message_view import rfc3339
from gateway.messages.schemas import FieldNames, MessageIn

_FIELDS = ("delayLevel", "delayMs", "deliverAt")
_DAY_MS = 24 * 3600 * 1000


def delay_property(item: MessageIn, now_ms: int, horizon_ms: int, place: int, name_of: FieldNames) -> str:
    """Return the property of the delay, as a message stores it.

    Raises the problem 400 for two kinds at once, or a time beyond the horizon. A time in the past is valid: such a message is
    delivered at once.
    """
    given = [
        name
        for name, value in zip(_FIELDS, (item.delay_level, item.delay_ms, item.deliver_at), strict=True)
        if value is not None
    ]
    if len(given) > 1:
        detail = f"a message is delayed in one way: give {' or '.join(given)}, not both"
        raise invalid(name_of(place, given[1]), detail, "one of delayLevel, delayMs, deliverAt")
    if item.delay_level is not None:
        return f"{DELAY}\x01{item.delay_level}\x02"
    if item.delay_ms is not None:
        return (
            f"{TIMER_DELAY_MS}\x01{checked_delay(item.delay_ms, horizon_ms, name_of(place, 'delayMs'))}\x02"
        )
    assert item.deliver_at is not None, "only a delayed message has this property"
    deliver_ms = checked_instant(item.deliver_at, now_ms, horizon_ms, name_of(place, "deliverAt"))
    return f"{TIMER_DELIVER_MS}\x01{deliver_ms}\x02"


def checked_delay(delay_ms: int, horizon_ms: int, field: str) -> int:
    """Return the delay; raise 400 beyond the horizon."""
    if delay_ms > horizon_ms:
        raise _beyond(f"{delay_ms} ms", f"<= {horizon_ms}", horizon_ms, field)
    return delay_ms


def checked_instant(instant: datetime | int, now_ms: int, horizon_ms: int, field: str) -> int:
    """Return an instant as milliseconds since 1970, one before that as 1; raise 400 beyond the horizon."""
    deliver_ms = instant if isinstance(instant, int) else round(instant.timestamp() * 1000)
    if deliver_ms > now_ms + horizon_ms:
        raise _beyond(rfc3339(deliver_ms), f"<= {rfc3339(now_ms + horizon_ms)}", horizon_ms, field)
    return max(deliver_ms, 1)


def _beyond(what: str, limit: str, horizon_ms: int, field: str) -> Problem:
    return invalid(field, f"{what} lies beyond the horizon of {horizon_ms / _DAY_MS:g} days", limit)
