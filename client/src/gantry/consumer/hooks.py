"""What users may put around the consumption of messages: a look before and after each call, and a filter of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from gantry.message import MessageQueue, ReceivedMessage

log: logging.Logger = logging.getLogger("gantry")


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
