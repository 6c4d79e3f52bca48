"""A program of a user in a simulated process: what all of them have."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod

from gantry_chassis.process import Life
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.ledger.places import Place
from gantry_simulation.processes.process import Process


class Program(ABC):
    """Runs in one life of its process after the other. What it knows goes into the ledger."""

    def __init__(self, process: Process, ledger: Ledger) -> None:
        self.process, self.ledger = process, ledger

    def start(self) -> None:
        """Start it."""
        self.process.start(self._main)

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()

    def lose_power(self) -> None:
        """Switch the machine off."""
        self.process.lose_power()

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

    @abstractmethod
    async def _main(self, life: Life) -> None: ...
