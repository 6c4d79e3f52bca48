"""Sends that are not plain: transactional, delayed and timed messages. Chooses the part that stores each of them.

The hot path calls this only when a sys flag or one of the SPECIAL properties is present. The result is a
message for the same group commit, with another queue and other properties. It is answered like any other.
"""

from collections.abc import Callable

from broker_store.commit.message import Message
from broker_store.commit.targets import Target
from broker_store.config.delay_levels import parse_level
from broker_store.ports import Peer
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import SendHeader
from gantry_wire.messages.properties import (
    DELAY,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
)
from gantry_wire.records.message_record import SYS_TRANSACTION_MASK

TIMERS = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_DEL_UNIQKEY)
DELAYS = frozenset({DELAY, *TIMERS})
SPECIAL = frozenset({TRANSACTION_PREPARED, *DELAYS})
"""Properties that can make a message special."""

Prepare = Callable[[Message, dict[str, str]], Message]
"""Takes a message ready to be stored as plain, and its sender's properties. Returns the message to store. May refuse."""
TakeHalf = Callable[[Peer, Command, SendHeader, Target, Message, dict[str, str]], bool]
"""Stores a half message on the fast path. False when it must be prepared. May refuse."""
TakeKnownHalf = Callable[[Peer, Command, SendHeader, Target, str], bool]
"""As TakeHalf, from unparsed properties. False when they must be parsed."""


class SpecialSends:
    """Passes a special message to the part that handles its kind."""

    def __init__(
        self, delayed: Prepare, half: Prepare, take_half: TakeHalf, take_known_half: TakeKnownHalf
    ) -> None:
        """`half` handles transactional messages and clears the transaction bits of their sys flag.

        `delayed` handles messages with a delay property.
        """
        self.take_half = take_half
        """Stores an ordinary half message. Tried first."""
        self.take_known_half = take_known_half
        """Stores a half message that is like an earlier one. Tried before anything is parsed."""
        self._half = half
        self._delayed = delayed

    def prepare(self, message: Message, properties: dict[str, str]) -> Message:
        """Return what is stored for a message. Raises RefusedRequest."""
        if is_half(properties, message.reconsume_times):
            return self._half(message, properties)
        if message.sys_flag & SYS_TRANSACTION_MASK:
            _clear_transaction(message, properties)
        return message if DELAYS.isdisjoint(properties) else self._delayed(message, properties)


def refuse_in_batch(properties: dict[str, str], sys_flag: int) -> None:
    """Raise MESSAGE_ILLEGAL for a batch, or a message in one, that is not plain: a batch goes to one queue."""
    if is_half(properties, 0) or sys_flag & SYS_TRANSACTION_MASK:
        raise _not_in_batch(f"a transactional message (property {TRANSACTION_PREPARED})")
    if level_of(properties) > 0:
        raise _not_in_batch(f"a delayed message (property {DELAY})")
    for name in TIMERS:
        if name in properties:
            raise _not_in_batch(f"a timed message (property {name})")


def _not_in_batch(what: str) -> RefusedRequest:
    remark = f"{what} cannot be part of a batch; nothing was stored, send it by itself"
    return RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, remark)


def is_half(properties: dict[str, str], reconsume_times: int) -> bool:
    """Whether a send begins a transaction. False for the copies that clients before 4.6.1 send for another try."""
    if properties.get(TRANSACTION_PREPARED, "").lower() != "true":
        return False
    return not (reconsume_times > 0 and level_of(properties) > 0)


def level_of(properties: dict[str, str]) -> int:
    """Return the delay level of a message, 0 for none. Raises RefusedRequest when it is not a number."""
    text = properties.get(DELAY)
    if text is None:
        return 0
    level = parse_level(text)
    if level is None:
        raise RefusedRequest(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the delay level (property {DELAY}) must be a whole number, it is {text[:64]!r}",
        )
    return level


def _clear_transaction(message: Message, properties: dict[str, str]) -> None:
    """Clear transaction bits.

    Only a copy of a transactional message may carry them, and readers would never see it with them.
    """
    if TRANSACTION_PREPARED not in properties:
        raise RefusedRequest(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the sys flag says transaction, the property {TRANSACTION_PREPARED} does not: send both or none",
        )
    message.sys_flag &= ~SYS_TRANSACTION_MASK
