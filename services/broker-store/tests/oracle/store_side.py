"""A whole store on a simulated disk, with leases, decisions, transactions and locks: the subject of a life."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from config_side import ConfigSide
from settling_side import SettlingSide

from broker_store.access.change_log import ChangeLog
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.process.parts.transactions import Transactions
from broker_store.transactions.producer_checks import Producers, Relays
from gantry_link.connections.pool import ConnectionPool

KEEP_MS = 30_000
"""Segments older than this are deleted when retention runs."""


class WholeSide(ConfigSide, SettlingSide):
    """Everything that changes the log or its derived state."""

    def __init__(self, files: SimulatedFiles, wall_s: float, **settings: Any) -> None:
        super().__init__(files, wall_s, **settings)
        producers = Producers(self.consuming.clients, lambda _peer, _topic: True, Relays())
        self.transactions = Transactions(
            self.store, self.sending, producers, self.classes["endTransaction"], self._at_once,
            ConnectionPool(), "127.0.0.1:10911", lambda: None,
        )  # fmt: skip
        self.locks = self.foundation.locks
        self.table.add_all({**self.transactions.commands(), **self.locks.commands()})
        self.care = self.foundation.care
        access = self.store.states.access
        self.access_log = ChangeLog(self.appends, self.queues, access, self.clock.now_ms, lambda _entry: None)
        self.care.retention.value = replace(self.care.retention.value, keep_ms=KEEP_MS)

    async def _at_once(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    def pass_time(self, seconds: float) -> None:
        super().pass_time(seconds)
        self.files.now_ms = int(self.wall_s * 1000)
