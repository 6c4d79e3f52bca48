"""Code of users that runs around sends and consumption. A hook that raises is logged and changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from gantry.errors import GantryError
from gantry.message import Message, SendResult

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
