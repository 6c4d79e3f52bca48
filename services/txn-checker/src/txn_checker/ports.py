"""What the checker needs of a store. Adapter: link_store.py over gantry_link; tests use memory."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gantry_wire.private_requests.settling import SettleItem, SettleResult
from gantry_wire.private_requests.transactions import AskProducer
from gantry_wire.records.message_record import Record


class StoreFailed(Exception):
    """A store failed or is unreachable: retry later. The message is the store's."""


class ClaimLost(StoreFailed):
    """The store refused our epoch: another checker holds the claim."""


class Settled(NamedTuple):
    """The decided offsets of a system queue: all below `cursor`, and the ranges above it."""

    cursor: int
    max_offset: int
    store_time_ms: int
    ranges: list[tuple[int, int]]


class Store(Protocol):
    """One store. Every call raises StoreFailed."""

    @property
    def broker(self) -> str:
        """Its broker name."""
        ...

    @property
    def address(self) -> str:
        """host:port of its master."""
        ...

    async def settled(self, topic: str) -> Settled:
        """Return the decided offsets of queue 0 of a topic."""
        ...

    async def read(self, topic: str, offset: int, count: int) -> tuple[list[Record], int]:
        """Return up to `count` records of queue 0 from an offset on, and the next offset."""
        ...

    async def record_at(self, position: int) -> bytes:
        """Return the record at a log position."""
        ...

    async def settle(self, topic: str, epoch: int, items: Sequence[SettleItem]) -> list[SettleResult]:
        """Decide items of queue 0 of a topic; return one result each. Also raises ClaimLost."""
        ...

    async def ask_producer(self, ask: AskProducer) -> bool:
        """Ask a client of a producer group; False when none is connected to this store."""
        ...


class Asker(Protocol):
    """Asks producers about halves, through whichever store holds a channel of theirs."""

    async def ask(self, home: Store, group: str, ask: AskProducer) -> bool:
        """Ask one client of the group; False when none is connected anywhere. Never raises."""
        ...
