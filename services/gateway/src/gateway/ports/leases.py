"""What receiving needs of a store, in the gateway's words. Adapter: link_leases.py. Calls fail as those of a Store do."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gantry_wire.lease_headers import LeasedRun, LeaseItem
from gateway.ports.stores import PeerAway, StoreRefused


class ReceiveAsk(NamedTuple):
    """What is asked of one store; `expression_type` "" for the group's own filter."""

    topic: str
    group: str
    count_max: int
    invisible_ms: int
    expression_type: str = ""
    expression: str = ""
    is_filter_new: bool = False


class Leased(NamedTuple):
    """Messages on lease: log bytes, the lease of each stretch of them, and until when."""

    runs: Sequence[LeasedRun]
    records: bytes | memoryview
    until_ms: int


class LeaseStore(Protocol):
    """One broker-store."""

    def receive(self, ask: ReceiveAsk, on_result: Callable[[Leased | StoreRefused | PeerAway], None]) -> None:
        """Lease messages. Passes them to the callback, or why there are none."""
        ...

    def settle(
        self,
        topic: str,
        group: str,
        items: bytes,
        reasons: dict[int, str],
        on_result: Callable[[bytes | StoreRefused | PeerAway], None],
    ) -> None:
        """Acknowledge and give back packed items. Passes an ItemStatus for each, durable, to the callback, or why there is none."""
        ...

    async def release(self, topic: str, group: str, items: Sequence[LeaseItem]) -> None:
        """Give back what reached nobody; nothing is raised."""
        ...

    async def extend(
        self, topic: str, group: str, items: Sequence[LeaseItem], invisible_ms: int
    ) -> tuple[bytes, int]:
        """Let leases end at another time; an ItemStatus for each, and that time."""
        ...

    async def wait(self, topic: str, group: str, wait_ms: int) -> bool:
        """Wait until there may be something, without leasing it. Cancelled: the store is told that nobody waits."""
        ...


class LeaseStores(Protocol):
    """Makes the client of a broker."""

    def at(self, broker: str, address: str) -> LeaseStore:
        """Return the client of a broker at an address."""
        ...
