"""What every operation needs: its client, the names of topics and messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from gantry_link.clients.nameservers import NameserverClient
from gantry_link.clients.store import StoreClient
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.lives.history import History
from gantry_simulation.lives.plan import Act

GROUP = "G"


class Doing(Protocol):
    """What an operation needs from its client."""

    ledger: Ledger
    history: History
    name: str
    is_sync: Callable[[str], bool]
    """Whether a store delivers only what is durable."""

    def store(self, name: str) -> StoreClient:
        """Return the client of a store."""
        ...

    def nameservers(self, address: str = "") -> NameserverClient:
        """Return a client of the nameserver with this address, or of all."""
        ...

    def now_ns(self) -> int:
        """Return the virtual time."""
        ...

    def wall_ms(self) -> int:
        """Return the client's wall clock."""
        ...


Operation = Callable[[Doing, Act], Awaitable[None]]


def topic_of(act: Act) -> str:
    """Return the topic of an operation."""
    return f"Topic{act.topic}"


def message_of(body: bytes) -> str:
    """Return the name that a body begins with."""
    return bytes(body).partition(b"|")[0].decode(errors="replace")
