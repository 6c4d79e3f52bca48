"""What a message may ask for that this version does not do: refused in words, never stored as a plain message. Pure."""

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.properties import (
    DELAY,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
)
from gantry_wire.record import SYS_TRANSACTION_MASK

TIMERS = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_DEL_UNIQKEY)
SPECIAL = frozenset({DELAY, TRANSACTION_PREPARED, *TIMERS})
"""Properties that make a message something other than a plain one."""


def refuse_special(properties: dict[str, str], sys_flag: int) -> None:
    """Raise MESSAGE_ILLEGAL for a transactional, delayed or timed message. A DELAY of 0 or less asks for nothing."""
    if properties.get(TRANSACTION_PREPARED, "").lower() == "true" or sys_flag & SYS_TRANSACTION_MASK:
        raise _refusal("transactional messages are")
    delay = properties.get(DELAY)
    if delay is not None and not _is_at_most_zero(delay):
        raise _refusal(f"delayed messages (property {DELAY}) are")
    for name in TIMERS:
        if name in properties:
            raise _refusal(f"timed messages (property {name}) are")


def _is_at_most_zero(text: str) -> bool:
    try:
        return int(text) <= 0
    except ValueError:
        return False


def _refusal(what: str) -> RefusedRequest:
    return RefusedRequest(
        ResponseCode.MESSAGE_ILLEGAL,
        f"{what} not in this version yet; the message was not stored, send it without",
        {"gantryCode": "NOT_YET"},
    )
