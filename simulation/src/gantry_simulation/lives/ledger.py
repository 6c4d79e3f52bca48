"""What clients know: which messages were acknowledged where, and what was read there. Finds what contradicts a promise.

The promises are those of ARCHITECTURE.md: an acknowledged message stays readable at its place, a place names one message for ever, and
under sync flush nothing is delivered that a power cut can take. What was acknowledged or read as written only, a power cut may take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple


class Place(NamedTuple):
    """One offset of one queue."""

    store: str
    topic: str
    queue: int
    offset: int

    def __str__(self) -> str:
        return f"{self.store} {self.topic}/{self.queue}@{self.offset}"


class Since(NamedTuple):
    """The state of a store and a topic when an operation began."""

    losses: int
    deletions: int


class Ledger:
    """Collects the knowledge of all clients. `violate` is called with each contradiction."""

    def __init__(self, violate: Callable[[str], None]) -> None:
        self._violate = violate
        self.sent: set[str] = set()
        """Messages that an operation began to send."""
        self.acknowledged: int = 0
        self._names: dict[Place, tuple[str, bool]] = {}
        """Message at a place, and whether it is certainly durable."""
        self._required: dict[Place, str] = {}
        """What must be readable."""
        self._keys: dict[tuple[str, str, str], tuple[Place, bool]] = {}
        self._losses: defaultdict[str, int] = defaultdict(int)
        self._deletions: defaultdict[tuple[str, str], int] = defaultdict(int)

    def since(self, store: str, topic: str) -> Since:
        """Return the state now, for an operation that begins."""
        return Since(self._losses[store], self._deletions[store, topic])

    def stored(self, message: str, place: Place, since: Since, *, is_durable: bool, key: str = "") -> None:
        """Record an acknowledgment. `key`: the idempotency key of the message."""
        self.acknowledged += 1
        now = self.since(place.store, place.topic)
        if not is_durable and since.losses != now.losses:
            return
        self._name(message, place, is_durable=is_durable)
        if since.deletions != now.deletions:
            return
        self._required[place] = message
        if key:
            known, _ = self._keys.setdefault((place.store, place.topic, key), (place, is_durable))
            if known != place:
                self._violate(f"key {key} was stored at {known} and at {place}")

    def read(self, message: str, place: Place, since: Since, *, is_durable: bool) -> None:
        """Record that a message was delivered from a place."""
        if message not in self.sent:
            self._violate(f"{place} delivers {message!r}, which nobody sent")
        if is_durable or since.losses == self._losses[place.store]:
            self._name(message, place, is_durable=is_durable)

    def _name(self, message: str, place: Place, *, is_durable: bool) -> None:
        known, was_durable = self._names.get(place, (message, False))
        if known != message:
            self._violate(f"{place} names {known}, and now {message}")
        self._names[place] = message, is_durable or was_durable

    def lost_undurable(self, store: str) -> None:
        """Forget what is not durable: a power cut or a disk error may take it from the store."""
        self._losses[store] += 1
        gone = [place for place, (_, durable) in self._names.items() if place.store == store and not durable]
        for place in gone:
            del self._names[place]
            self._required.pop(place, None)
        self._keys = {
            key: (place, durable)
            for key, (place, durable) in self._keys.items()
            if place.store != store or durable
        }

    def deleted(self, store: str, topic: str) -> None:
        """Forget what a topic must hold, because it is being deleted or was. Its keys may be stored again."""
        self._deletions[store, topic] += 1
        for place in [place for place in self._required if place[:2] == (store, topic)]:
            del self._required[place]
        self._keys = {key: kept for key, kept in self._keys.items() if key[:2] != (store, topic)}

    def check(self, found: dict[Place, str]) -> None:
        """Compare with everything that is readable in the end."""
        for place, message in self._required.items():
            if found.get(place) != message:
                self._violate(f"{message} was acknowledged at {place}, where now is {found.get(place)}")
        places: defaultdict[tuple[str, str, str], list[Place]] = defaultdict(list)
        for place, message in found.items():
            places[message, place.store, place.topic].append(place)
        for (message, _, _), several in places.items():
            if len(several) > 1 and not self._may_repeat(several):
                self._violate(f"{message} is stored {len(several)} times: {', '.join(map(str, several))}")

    def _may_repeat(self, several: list[Place]) -> bool:
        """Whether a message may lie at several places: after a loss or a deletion its key was free again."""
        store, topic = several[0][:2]
        return bool(self._losses[store] or self._deletions[store, topic])
