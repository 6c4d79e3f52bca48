"""The port for receives and acknowledgements. Adapter: link_leases.py. Calls fail like those of a Store."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gantry_wire.private_requests.leases import LeasedRun, LeaseItem


class ReceiveAsk(NamedTuple):
    """A receive at one store. An empty `expression_type` means the group's own filter."""

    topic: str
    group: str
    count_max: int
    invisible_ms: int
    expression_type: str = ""
    expression: str = ""
    is_filter_new: bool = False
    start: str = ""
    """Where a group without an offset or a configured start begins: `earliest`, `latest`, or as HTTP clients do (the first message)."""
    attempt_id: str = ""
    """Of a receive that may be repeated: each store gives the same messages while their leases are valid."""


class Leased(NamedTuple):
    """Leased messages: log bytes, the lease of each run of records, and the end of the leases."""

    runs: Sequence[LeasedRun]
    records: bytes | memoryview
    until_ms: int


class LeaseStore(Protocol):
    """One broker-store."""

    def receive(self, ask: ReceiveAsk, on_result: Callable[[Leased | Exception], None]) -> None:
        """Lease messages. Passes the messages or the error to the callback."""
        ...

    def settle(
        self,
        topic: str,
        group: str,
        items: bytes,
        reasons: dict[int, str],
        on_result: Callable[[bytes | Exception], None],
    ) -> None:
        """Acknowledge packed items, give them back, or move them to the dead letters. Passes a durable ItemStatus for each, or the error, to the callback."""
        ...

    async def release(self, topic: str, group: str, items: Sequence[LeaseItem]) -> None:
        """Give back messages that reached no client; raises nothing."""
        ...

    async def extend(
        self, topic: str, group: str, items: Sequence[LeaseItem], invisible_ms: int
    ) -> tuple[bytes, int]:
        """Move the end of leases; return an ItemStatus for each, and the new time."""
        ...

    async def wait(self, topic: str, group: str, wait_ms: int) -> bool:
        """Wait until messages may be available, without leasing them. Cancelling ends the wait at the store too."""
        ...


class LeaseStores(Protocol):
    """Creates store clients."""

    def at(self, broker: str, address: str) -> LeaseStore:
        """Return the client of a broker at an address."""
        ...
