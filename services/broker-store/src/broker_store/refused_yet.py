"""What a message may ask for where it cannot be had: refused in words, never stored as a plain message. Pure."""

from broker_store.message import Message
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

TIMERS = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_DEL_UNIQKEY)
DELAYS = frozenset({DELAY, *TIMERS})


def refuse_special(message: Message, properties: dict[str, str]) -> Message:
    """Raise MESSAGE_ILLEGAL for a transactional, delayed or timed message. A DELAY of 0 or less asks for nothing."""
    if properties.get(TRANSACTION_PREPARED, "").lower() == "true":
        raise _refusal("transactional messages are")
    delay = properties.get(DELAY)
    if delay is not None and not _is_at_most_zero(delay):
        raise _refusal(f"delayed messages (property {DELAY}) are")
    for name in TIMERS:
        if name in properties:
            raise _refusal(f"timed messages (property {name}) are")
    return message


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
