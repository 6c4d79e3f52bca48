"""Which messages were acknowledged where, and what was read there. Finds what contradicts a promise.

The promises are those of ARCHITECTURE.md: an acknowledged message stays readable at its place, a place names one message for ever, and
under sync flush nothing is delivered that a power cut can take. What was acknowledged or read as written only, a power cut may take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from gantry_simulation.ledger.places import Losses, Place, Since


class Messages:
    """What was sent, acknowledged and read. `violate` is called with each contradiction."""

    def __init__(self, losses: Losses, violate: Callable[[str], None]) -> None:
        self._losses, self._violate = losses, violate
        self.sent: set[str] = set()
        """Messages that a client began to send."""
        self.may_repeat: set[str] = set()
        """Messages that their client sends again after no answer, so that each may be stored several times."""
        self.key_of: dict[str, str] = {}
        """Idempotency keys by message."""
        self.unique_keys: dict[str, str] = {}
        """Unique keys that gateways chose, by message."""
        self.acknowledged: int = 0
        self.required: dict[Place, str] = {}
        """What must be readable."""
        self.positions: dict[Place, int] = {}
        """Where in the log a required message lies."""
        self.times: dict[Place, int] = {}
        """Store times (ms) of messages that were read."""
        self.copies: set[Place] = set()
        """Places of redriven dead letters, which have the body and the unique key of their message."""
        self.doubtful: set[str] = set()
        """Stores that may not find everything by key, tag or time: their disk failed or was damaged."""
        self.damaged_stores: set[str] = set()
        """Stores that lost files, or with a changed byte."""
        self.damaged: set[str] = set()
        """Messages of which bytes changed on the device."""
        self._damaged_places: set[Place] = set()
        self._expired: set[Place] = set()
        self._without_keys: set[str] = set()
        self._names: dict[Place, tuple[str, bool]] = {}
        """Message at a place, and whether it is certainly durable."""
        self._keys: dict[tuple[str, str, str], tuple[Place, bool]] = {}

    def stored(self, message: str, place: Place, since: Since, *, is_durable: bool) -> None:
        """Record an acknowledgment."""
        self.acknowledged += 1
        now = self._losses.since(place.store, place.topic)
        if not is_durable and since.losses != now.losses:
            return
        self._name(message, place, is_durable=is_durable)
        if since.deletions != now.deletions or place in self._damaged_places or place in self._expired:
            return
        self.required[place] = message
        self.positions.pop(place, None)
        self._check_key(message, place, is_durable=is_durable)

    def read(self, message: str, place: Place, since: Since, *, is_durable: bool, store_ms: int) -> None:
        """Record that a message was delivered from a place, with its store time.

        `is_durable` is as of now. A store that shows what it may lose may have done so before a loss, in a life with
        another flush.
        """
        if message not in self.sent:
            self._violate(f"{place} delivers {message!r}, which nobody sent")
        now = self._losses.since(place.store, place.topic)
        may_be_gone = not is_durable or self._losses.is_doubtful(place.store)
        if may_be_gone and since.losses != now.losses:
            return
        self._name(message, place, is_durable=is_durable)
        self.times[place] = store_ms
        if since.deletions == now.deletions:
            self._check_key(message, place, is_durable=is_durable)

    def is_shown(self, place: Place) -> bool:
        """Whether readers see a place under sync flush: what is written only, they do not see yet."""
        return self._names.get(place, ("", False))[1]

    def unflushed(self) -> set[str]:
        """Return what must be readable once it is flushed."""
        return {message for place, message in self.required.items() if not self.is_shown(place)}

    def _name(self, message: str, place: Place, *, is_durable: bool) -> None:
        if place in self._damaged_places:
            return
        known, was_durable = self._names.get(place, (message, False))
        if known != message:
            self._violate(f"{place} names {known}, and now {message}")
        self._names[place] = message, is_durable or was_durable

    def _check_key(self, message: str, place: Place, *, is_durable: bool) -> None:
        key = self.key_of.get(message)
        if (
            key is None
            or place.is_copy
            or place in self.copies
            or place in self._damaged_places | self._expired
        ):
            return
        if place.store in self._without_keys:
            return
        known, _ = self._keys.setdefault((place.store, place.topic, key), (place, is_durable))
        if known != place:
            self._violate(f"key {key} was stored at {known} and at {place}")

    def lost(self, store: str) -> None:
        """Forget what is not durable: a power cut or a disk error may take it from the store."""
        gone = [place for place, (_, durable) in self._names.items() if place.store == store and not durable]
        for place in gone:
            del self._names[place]
            self.required.pop(place, None)
            self.times.pop(place, None)
        self.copies = {place for place in self.copies if place.store != store}
        self._keys = {
            key: (place, durable)
            for key, (place, durable) in self._keys.items()
            if place.store != store or durable
        }

    def was_damaged(self, message: str, place: Place) -> None:
        """Require nothing of a place whose bytes changed on the device, in the log or in the queue. Its key may be stored again."""
        self.damaged.add(message)
        self._damaged_places.add(place)
        self._names.pop(place, None)
        self.required.pop(place, None)
        self._keys = {key: kept for key, kept in self._keys.items() if kept[0] != place}

    def may_be_left_out(self, message: str, place: Place) -> bool:
        """Whether the bytes of a message changed on the device, in its record or its unit.

        With a changed unit it is readable where the records of a read touch: then only the first and the last are compared with
        their units (docs/log-format.md, 5). Another read, with a gap, compares each record, and leaves it out.
        """
        return message in self.damaged and place in self._damaged_places

    def expired(self, place: Place) -> None:
        """Require nothing of a place that retention deletes. Its key may be stored again."""
        self._expired.add(place)
        self.required.pop(place, None)
        self._keys = {key: kept for key, kept in self._keys.items() if kept[0] != place}

    def forget_keys(self, store: str) -> None:
        """Compare the keys of a store no longer: more time has passed than it remembers them for."""
        self._without_keys.add(store)

    def deleted(self, store: str, topic: str) -> None:
        """Forget what a topic must hold, because it is being deleted or was. Its keys may be stored again."""
        for place in [place for place in self.required if place[:2] == (store, topic)]:
            del self.required[place]
        self.copies = {place for place in self.copies if place[:2] != (store, topic)}
        self._keys = {key: kept for key, kept in self._keys.items() if key[:2] != (store, topic)}

    def delivered(self) -> set[Place]:
        """Return the places whose message a client has seen and no power cut may take."""
        return {place for place, (_, is_durable) in self._names.items() if is_durable}

    def check(self, found: dict[Place, str], delivered: set[Place]) -> None:
        """Compare with everything that is readable in the end. `delivered` is as of before the reading.

        A send that had no answer may be stored, and delivered, after the reading has passed its queue.
        """
        for place, message in self.required.items():
            if found.get(place) != message:
                self._violate(f"{message} was acknowledged at {place}, where now is {found.get(place)}")
        self._check_delivered(found, delivered)
        self._check_gaps({place for place in found if place not in self._expired})
        places: defaultdict[tuple[str, str, str], list[Place]] = defaultdict(list)
        for place, message in found.items():
            is_keyed_again = place.store in self._without_keys and message in self.key_of
            if place not in self._expired | self.copies and not is_keyed_again:
                places[message, place.store, place.topic].append(place)
        for (message, store, topic), several in places.items():
            if len(several) > 1 and message not in self.may_repeat and not self._may_repeat(store, topic):
                self._violate(f"{message} is stored {len(several)} times: {', '.join(map(str, several))}")

    def _check_delivered(self, found: dict[Place, str], delivered: set[Place]) -> None:
        """Find what a store under sync flush has delivered and lost. Deleted topics are left out, and copies: nobody reads them again."""
        for place, (message, _) in self._names.items():
            was_there = place in delivered and not place.is_copy
            is_gone = was_there and place not in found and place not in self.required
            may_go = place in self._expired or self._losses.is_deleted(place.store, place.topic)
            if is_gone and not may_go:
                self._violate(f"{message} was delivered from {place}, where now is nothing")

    def _check_gaps(self, found: set[Place]) -> None:
        """Only damage leaves offsets without a message between others."""
        queues: defaultdict[tuple[str, str, int], set[int]] = defaultdict(set)
        for place in found:
            queues[place[:3]].add(place.offset)
        for (store, topic, queue), offsets in queues.items():
            gaps = set(range(min(offsets), max(offsets))) - offsets
            if gaps and store not in self.damaged_stores:
                self._violate(f"{store} {topic}/{queue} has no message at {min(gaps)}, between others")

    def _may_repeat(self, store: str, topic: str) -> bool:
        """Whether messages may lie at several places: after a loss or a deletion a key was free again, a decision open again."""
        return self._losses.has_lost(store) or self._losses.is_deleted(store, topic)
