"""All subjects of the ledger together."""

from __future__ import annotations

from gantry_simulation.ledger.bounds import QueueBounds
from gantry_simulation.ledger.consumption import Groups
from gantry_simulation.ledger.delays import Delays
from gantry_simulation.ledger.leases import Leases
from gantry_simulation.ledger.messages import Messages
from gantry_simulation.ledger.offsets import Cell, Offsets
from gantry_simulation.ledger.places import Losses, Place, Since
from gantry_simulation.ledger.tasks import Tasks
from gantry_simulation.ledger.transactions import Transactions
from gantry_simulation.ledger.values import Values
from gantry_simulation.world.world import World


class Ledger:
    """Collects the knowledge of all clients. Each contradiction is a violation in the World."""

    def __init__(self, world: World) -> None:
        def violate(what: str) -> None:
            world.violate("ledger", what)

        def now_ns() -> int:
            return world.now_ns

        self.losses = Losses()
        self.messages = Messages(self.losses, violate)
        self.groups = Groups(self.messages, now_ns, violate)
        self.delays = Delays(now_ns, violate)
        self.tasks = Tasks(self.losses, self.messages, self.delays, violate)
        self.transactions = Transactions(now_ns, violate)
        self.leases = Leases(now_ns, violate)
        self.offsets = Offsets(now_ns, violate)
        self.values = Values(violate)
        self.bounds = QueueBounds(violate)

    def since(self, store: str, topic: str) -> Since:
        """Return the state now, for an operation that begins."""
        return self.losses.since(store, topic)

    def read(self, message: str, place: Place, since: Since, *, is_durable: bool, store_ms: int) -> None:
        """Record that a message was delivered from a place."""
        self.messages.read(message, place, since, is_durable=is_durable, store_ms=store_ms)
        if place not in self.messages.copies and not place.is_copy:
            self.delays.read(message, place, store_ms)
        self.transactions.read(message)

    def read_offset(self, cell: Cell, offset: int | None, since: Since, began_ns: int) -> None:
        """Record what the store answered to a query for a group's offset, unless a deletion of the topic met the query."""
        if self.since(cell.store, cell.topic).deletions == since.deletions:
            self.offsets.read(cell, offset, began_ns)

    def lost_undurable(self, store: str) -> None:
        """Forget what is not durable: a power cut or a disk error may take it from the store."""
        self.losses.lost(store)
        self.messages.lost(store)
        self.bounds.lost(store)
        if self.losses.is_doubtful(store):
            self.delays.lost(store)
            self.leases.lost(store)
            self.transactions.lost(store)

    def expired(self, message: str, place: Place) -> None:
        """Forget what must be at a place: retention deletes its segment. Another message may never be there."""
        self.messages.expired(place)
        self.delays.expired(message)
        self.transactions.expired(message)

    def deleted(self, store: str, topic: str) -> None:
        """Forget what a topic must hold, because it is being deleted or was."""
        self.losses.deleted(store, topic)
        self.messages.deleted(store, topic)
        self.delays.deleted(store, topic)
        self.leases.deleted(store, topic)
        self.transactions.deleted(store, topic)
        self.offsets.deleted(store, topic)
        self.bounds.deleted(store, topic)

    def deletion_begins(self, store: str, topic: str) -> None:
        """Record a request to delete a topic. Until its answer, what the store answers about the topic binds it to nothing."""
        self.losses.open_deletions.append((store, topic))
        self.deleted(store, topic)

    def deletion_ends(self, store: str, topic: str) -> None:
        """Record the answer to a request to delete a topic."""
        self.losses.open_deletions.remove((store, topic))
        self.deleted(store, topic)

    def _forget_open_deletions(self) -> None:
        for store, topic in self.losses.open_deletions:
            self.deleted(store, topic)

    def check(self, found: dict[Place, str], delivered: set[Place]) -> None:
        """Compare with everything that is readable in the end. `delivered` is what `messages.delivered` returned before the reading."""
        self._forget_open_deletions()
        self.messages.check(found, delivered)
        self.leases.check()
        self.tasks.check(found)

    def awaited(self, found: dict[Place, str], *, is_scheduled: bool) -> list[str]:
        """Return what must be readable beside what is found: delayed messages, if a scheduler works, and committed ones.

        Messages that were answered before their flush are readable after it, which a slow disk delays.
        """
        self._forget_open_deletions()
        wanted = self.transactions.required() | self.messages.unflushed()
        if is_scheduled:
            wanted |= self.delays.required()
        return sorted(wanted - set(found.values()) - self.messages.damaged)
