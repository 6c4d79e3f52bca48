"""The load of a run: sends, keyed sends, batches, transactions, delayed messages, leases, dead letters, ordered messages."""

from __future__ import annotations

from gantry_loadtest.mixed.journeys import (
    Answers,
    Delays,
    Journey,
    Poison,
    Poisoned,
    Transactions,
    Work,
    Workers,
)
from gantry_loadtest.mixed.streams import KEYED, ORDERED, PLAIN, Keyed, Orderly, OrderlyWorkers, Plain

MORE_TOPICS = (PLAIN, KEYED, ORDERED)
PAUSE_SECONDS = 0.1


class SoonDue(Delays):
    longest_ms, pause_seconds = 2000, PAUSE_SECONDS


class Decided(Transactions):
    pause_seconds = PAUSE_SECONDS


class SomeWork(Work):
    pause_seconds = PAUSE_SECONDS


class ShortLeases(Workers):
    lease_seconds, pause_seconds = 2, PAUSE_SECONDS


class ShortPoisonedLeases(Poisoned):
    lease_seconds, pause_seconds = 2, PAUSE_SECONDS


JOURNEYS: tuple[type[Journey], ...] = (
    SoonDue, Decided, Answers, SomeWork, ShortLeases, Poison, ShortPoisonedLeases, Plain, Keyed, Orderly, OrderlyWorkers,
)  # fmt: skip

STREAMS: tuple[type[Journey], ...] = (Plain, Keyed, Orderly, OrderlyWorkers)
"""What needs neither scheduler nor txn-checker."""
