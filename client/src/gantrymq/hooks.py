"""User hooks around sends and consumption. An exception of a hook is logged and has no other effect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from gantrymq.errors import GantryError
from gantrymq.message import Message, MessageQueue, ReceivedMessage, SendResult

log: logging.Logger = logging.getLogger("gantrymq")
ContextT = TypeVar("ContextT")


@dataclass(slots=True)
class SendContext:
    """One request. Both calls of a hook get the same object."""

    group: str
    messages: Sequence[Message]
    """One, or those of a batch."""
    broker: str
    address: str
    kind: str
    """"normal", "batch", "half", "reply", "oneway"."""
    started_ms: int
    """The time of the send (ms since 1970)."""
    begun: float
    """The same in the event loop's time."""
    seconds: float = 0.0
    """Its duration, all tries together."""
    results: Sequence[SendResult | None] = ()
    """One for each message, None for one that the broker refused individually; empty if all failed, or it was one-way."""
    error: GantryError | None = None
    notes: dict[str, Any] = field(default_factory=dict[str, Any])
    """For the hook's own use."""

    @property
    def message(self) -> Message:
        """The message, the first of a batch."""
        return self.messages[0]

    @property
    def result(self) -> SendResult | None:
        """The result of the first message; None if it failed, or was one-way."""
        return self.results[0] if self.results else None


@dataclass(slots=True)
class EndContext:
    """A decided transaction."""

    group: str
    message: Message
    address: str
    transaction_id: str
    state: str
    from_check: bool
    """Decided because the broker asked."""
    started_ms: int


class SendHook(Protocol):
    """Called for every message, before it is sent and when its outcome is known. Must not block: it runs in the event loop."""

    def before_send(self, context: SendContext) -> None:
        """Handle a message before it is sent."""
        ...

    def after_send(self, context: SendContext) -> None:
        """Handle the known outcome."""
        ...


def run_hooks(calls: Sequence[Callable[[ContextT], None]], context: ContextT) -> None:
    """Call each with the context; exceptions are logged."""
    for call in calls:
        try:
            call(context)
        except Exception:
            log.exception("a hook failed")


@dataclass(slots=True)
class ConsumeCall:
    """A call of a listener, for hooks."""

    group: str
    queue: MessageQueue
    messages: Sequence[ReceivedMessage]
    success: bool | None = None
    """None before the call."""
    failure: str | None = None
    seconds: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict[str, Any])
    """For data that a hook needs after the call."""


class ConsumeHook(Protocol):
    """Called for every call of the listener. Its exceptions are logged and have no other effect."""

    def before(self, call: ConsumeCall) -> None:
        """Run before the listener."""
        ...

    def after(self, call: ConsumeCall) -> None:
        """Run after it returned or raised."""
        ...


MessageFilter: TypeAlias = "Callable[[ReceivedMessage], bool]"
"""Whether a pulled message reaches the listener. Excluded messages count as consumed."""


def run_before(hooks: Sequence[ConsumeHook], call: ConsumeCall) -> None:
    """Call every hook before a call of the listener."""
    for hook in hooks:
        try:
            hook.before(call)
        except Exception:
            log.exception("a consume hook failed before a call; the call continues")


def run_after(hooks: Sequence[ConsumeHook], call: ConsumeCall) -> None:
    """Call every hook after a call of the listener."""
    for hook in hooks:
        try:
            hook.after(call)
        except Exception:
            log.exception("a consume hook failed after a call; consumption continues")


def passes(filters: Sequence[MessageFilter], message: ReceivedMessage) -> bool:
    """Whether all filters let a message through; one that raises lets it through, so that a faulty filter loses nothing."""
    for each in filters:
        try:
            if not each(message):
                return False
        except Exception:
            log.exception("a message filter failed at %r; the message is consumed", message)
    return True
