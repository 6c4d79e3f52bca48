"""Code of users that runs around sends and consumption. A hook that raises is logged and changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from gantry.errors import GantryError
from gantry.message import Message, MessageQueue, ReceivedMessage, SendResult

log: logging.Logger = logging.getLogger("gantry")
ContextT = TypeVar("ContextT")


@dataclass(slots=True)
class SendContext:
    """One request on its way. The same object is given to both calls of a hook."""

    group: str
    messages: Sequence[Message]
    """One, or those of a batch."""
    broker: str
    address: str
    kind: str
    """"normal", "batch", "half", "reply", "oneway"."""
    started_ms: int
    """When it was sent (ms since 1970)."""
    begun: float
    """The same in the event loop's time."""
    seconds: float = 0.0
    """How long it took, all tries together."""
    results: Sequence[SendResult | None] = ()
    """One for each message, None for one that the broker refused by itself; empty where all failed, or it was one-way."""
    error: GantryError | None = None
    notes: dict[str, Any] = field(default_factory=dict[str, Any])
    """For the hook itself."""

    @property
    def message(self) -> Message:
        """The message, the first of a batch."""
        return self.messages[0]

    @property
    def result(self) -> SendResult | None:
        """What became of the first message; None where it failed, or was one-way."""
        return self.results[0] if self.results else None


@dataclass(slots=True)
class EndContext:
    """A transaction that was decided."""

    group: str
    message: Message
    address: str
    transaction_id: str
    state: str
    from_check: bool
    """Decided because the broker asked."""
    started_ms: int


class SendHook(Protocol):
    """Told of every message, before it leaves and when its outcome is known. Must not block: it runs in the event loop."""

    def before_send(self, context: SendContext) -> None:
        """Hear that a message is about to leave."""
        ...

    def after_send(self, context: SendContext) -> None:
        """Hear what became of it."""
        ...


def run_hooks(calls: Sequence[Callable[[ContextT], None]], context: ContextT) -> None:
    """Call each with the context; what one raises is logged."""
    for call in calls:
        try:
            call(context)
        except Exception:
            log.exception("a hook failed")


@dataclass(slots=True)
class ConsumeCall:
    """One call of a listener, as hooks see it."""

    group: str
    queue: MessageQueue
    messages: Sequence[ReceivedMessage]
    success: bool | None = None
    """None before the call."""
    failure: str | None = None
    seconds: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict[str, Any])
    """For a hook to keep what it needs again after the call."""


class ConsumeHook(Protocol):
    """Told of every call of the listener. What it raises is logged and changes nothing."""

    def before(self, call: ConsumeCall) -> None:
        """Before the listener is called."""
        ...

    def after(self, call: ConsumeCall) -> None:
        """After it returned or raised."""
        ...


MessageFilter: TypeAlias = "Callable[[ReceivedMessage], bool]"
"""Whether a pulled message reaches the listener. What is kept away counts as consumed."""


def tell_before(hooks: Sequence[ConsumeHook], call: ConsumeCall) -> None:
    """Tell every hook that a call begins."""
    for hook in hooks:
        try:
            hook.before(call)
        except Exception:
            log.exception("a consume hook failed before a call; it goes on")


def tell_after(hooks: Sequence[ConsumeHook], call: ConsumeCall) -> None:
    """Tell every hook that a call ended."""
    for hook in hooks:
        try:
            hook.after(call)
        except Exception:
            log.exception("a consume hook failed after a call; it goes on")


def passes(filters: Sequence[MessageFilter], message: ReceivedMessage) -> bool:
    """Whether all filters let a message through; one that raises lets it through: nothing is lost by a faulty filter."""
    for each in filters:
        try:
            if not each(message):
                return False
        except Exception:
            log.exception("a message filter failed at %r; the message is consumed", message)
    return True
