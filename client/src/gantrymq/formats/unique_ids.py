"""Generates unique message ids as RocketMQ's clients do: address, process, salt, time, counter."""

from __future__ import annotations

import os
from collections.abc import Callable
from weakref import WeakSet

from gantry_wire.messages.ids import UniqueIds
from gantrymq.machine import Machine

_IP_BYTES, _SALT_BYTES = 4, 4


class ClientIds:
    """Generates the ids of one client; restarts after a fork, so that no two processes generate the same."""

    __slots__ = ("__weakref__", "_machine", "next")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.renew()
        _alive.add(self)

    def renew(self) -> None:
        """Generate different ids from now on."""
        secret_bytes = self._machine.secret_bytes
        # The address only tells machines apart: random bytes do that too, without network access.
        ids = UniqueIds(
            secret_bytes(_IP_BYTES), self._machine.process_id, int.from_bytes(secret_bytes(_SALT_BYTES))
        )
        self.next: Callable[[int], str] = ids.next
        """Return a new id for a message born now (ms since 1970)."""


_alive: WeakSet[ClientIds] = WeakSet()


def _renew_all() -> None:
    for ids in _alive:
        ids.renew()


os.register_at_fork(after_in_child=_renew_all)
