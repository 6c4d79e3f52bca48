"""What groups consumed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from gantry_simulation.ledger.messages import Messages
from gantry_simulation.ledger.ordering import OrderlyQueues
from gantry_simulation.ledger.places import Place
from gantry_wire.names import RETRY_PREFIX


class Groups:
    """What the listeners of each group were called with."""

    def __init__(self, messages: Messages, now_ns: Callable[[], int], violate: Callable[[str], None]) -> None:
        self._messages, self._now_ns, self._violate = messages, now_ns, violate
        self.consumed: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """How often each message was consumed with success, by group."""
        self.failed: int = 0
        """Calls of listeners that failed."""
        self.redelivered: int = 0
        """Messages that were consumed from a retry topic."""
        self.orderly: dict[str, OrderlyQueues] = {}
        """By group."""

    def in_order(self, group: str) -> OrderlyQueues:
        """Return the queues of a group that consumes in order."""
        queues = self.orderly.get(group)
        if queues is None:
            queues = self.orderly[group] = OrderlyQueues(
                self._now_ns, lambda what: self._violate(f"{group}: {what}")
            )
        return queues

    def succeeded(self, group: str, message: str, place: Place) -> None:
        """Record that a listener consumed a message."""
        self.consumed[group][message] += 1
        self.redelivered += place.topic.startswith(RETRY_PREFIX)

    def missing(self, group: str, topic: str) -> list[str]:
        """Return the acknowledged messages of a topic that the group has not consumed."""
        consumed = self.consumed[group]
        return [
            f"{message} at {place}"
            for place, message in self._messages.required.items()
            if place.topic == topic and not consumed[message]
        ]
