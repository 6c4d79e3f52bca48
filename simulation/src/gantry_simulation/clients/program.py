"""A program of a user in a simulated process: what all of them have."""

from __future__ import annotations

import random

from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.ledger.places import Place
from gantry_simulation.processes.part import Part
from gantry_simulation.processes.process import Process


class Program(Part):
    """Runs in one life of its process after the other. What it knows goes into the ledger."""

    def __init__(self, process: Process, ledger: Ledger) -> None:
        super().__init__(process)
        self.ledger = ledger
        self._is_working = False

    def start(self) -> None:
        """Start it. What its last life had under way has ended."""
        self._is_working = False
        super().start()

    @property
    def is_busy(self) -> bool:
        """Whether an operation is under way, whose acknowledgment may still come."""
        return self._is_working

    def rng(self, subject: str) -> random.Random:
        """Return the random numbers of a subject in the present life."""
        return self.process.rng(subject)

    def violate(self, what: str) -> None:
        """Record a violation."""
        self.process.violate(what)

    def stored(self, message: str, place: Place) -> None:
        """Record an acknowledgment. That of a store which may lose what it shows says nothing."""
        if not self.ledger.losses.is_doubtful(place.store):
            since = self.ledger.since(place.store, place.topic)
            self.ledger.messages.stored(message, place, since, is_durable=True)

    def read(self, message: str, place: Place, store_ms: int) -> None:
        """Record a delivery. That of a store which may lose what it shows says nothing."""
        if not self.ledger.losses.is_doubtful(place.store):
            since = self.ledger.since(place.store, place.topic)
            self.ledger.read(message, place, since, is_durable=True, store_ms=store_ms)
