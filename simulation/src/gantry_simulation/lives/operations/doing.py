"""What every operation needs: its client, the names of topics and messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from gantry_link.clients.nameservers import NameserverClient
from gantry_link.clients.store import StoreClient
from gantry_simulation.clients.http_client import HttpClient
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.lives.history import History
from gantry_simulation.lives.plan import Act, topic_name
from gantry_simulation.processes.threads import Pace
from gantry_simulation.world.world import SECOND_NS

GROUP = "G"
ANSWER_SECONDS: float = 2 * Pace().stall_ns[1] / SECOND_NS + 0.5
"""Most time for an answer before the first fault: two of the calls in threads that it waits for may stall."""


class Doing(Protocol):
    """What an operation needs from its client."""

    ledger: Ledger
    history: History
    name: str
    is_harmed: Callable[[], bool]
    """Whether something happened that requests may fail for."""

    def store(self, name: str) -> StoreClient:
        """Return the client of a store."""
        ...

    def fast_port(self, name: str) -> AbstractAsyncContextManager[StoreClient]:
        """Connect to the fast port of a store for a while."""
        ...

    def nameservers(self, address: str = "") -> NameserverClient:
        """Return a client of the nameserver with this address, or of all."""
        ...

    def stores(self) -> Sequence[str]:
        """Return the names of all stores."""
        ...

    def is_sync(self, store: str) -> bool:
        """Whether a store delivers only what is durable."""
        ...

    def lives_of(self, store: str) -> int:
        """How often what a store keeps in memory was lost, at most."""
        ...

    def replicas(self, store: str) -> Sequence[StoreClient]:
        """Return a client of each replica of a store."""
        ...

    def is_group(self, store: str) -> bool:
        """Whether a store has replicas."""
        ...

    def confirms_all(self, store: str) -> bool:
        """Whether the replicas of a store have everything that it acknowledges."""
        ...

    def http(self) -> HttpClient:
        """Return the client of the gateways."""
        ...

    def violate(self, what: str) -> None:
        """Record a violation."""
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
    return topic_name(act.topic)


def body_of(message: str, size: int) -> bytes:
    """Return a body that begins with the name of its message, and of which every byte is known."""
    return f"{message}|{size}|".encode() + b"x" * size


def message_of(body: bytes) -> str:
    """Return the name that a body begins with, or a description that no message has if a byte of it is wrong."""
    name, separator, rest = bytes(body).partition(b"|")
    size, _, filling = rest.partition(b"|")
    message = name.decode(errors="replace")
    is_whole = not separator or (size.isdigit() and filling == b"x" * int(size))
    return message if is_whole else f"{message} with a wrong body"
