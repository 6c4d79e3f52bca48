"""Who leads each broker: a name with several replicas has one address at a time that takes sends. Sees every route that is read.

When another replica leads, calls to the old leader end: it may be paused, with its connections open, and would answer nobody.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from gateway.ports.stores import Names, PeerAway, StoreRefused

LEAVE_SECONDS = 0.1
"""Time for the answers of the old leader that are under way, before its calls end."""


class Leaders:
    """The leaders' addresses by broker, as the nameservers name them."""

    def __init__(self, names: Names, leave: Callable[[str], None]) -> None:
        """`leave` ends the calls to an address: each fails as one that may have been carried out."""
        self._names, self._leave = names, leave
        self._addresses: dict[str, str] = {}
        self._looking: asyncio.Task[None] | None = None
        self._look_again = False

    def read(self, addresses: Mapping[str, str]) -> set[str]:
        """Take the leaders that a nameserver named; return the brokers that another address leads now."""
        moved: set[str] = set()
        for broker, address in addresses.items():
            before = self._addresses.get(broker)
            if before != address:
                self._addresses[broker] = address
                if before is not None:
                    moved.add(broker)
                    asyncio.get_running_loop().call_later(LEAVE_SECONDS, self._leave_if_gone, before)
        return moved

    def has_moved(self, broker: str, address: str | None) -> bool:
        """Whether a broker that was at this address is led by another one."""
        return address is not None and self._addresses.get(broker, address) != address

    def look_soon(self, moved: Callable[[set[str]], None]) -> None:
        """Ask a nameserver for all leaders, and pass on the brokers that moved; many hints at once cause one or two requests.

        Calls in progress wait for answers of the old leader: no use of the route would notice the new one.
        """
        if self._looking is not None:
            self._look_again = True
            return
        self._looking = asyncio.ensure_future(self._look(moved))

    async def _look(self, moved: Callable[[set[str]], None]) -> None:
        try:
            self._look_again = True
            while self._look_again:
                self._look_again = False
                with suppress(PeerAway, StoreRefused):
                    found = {broker.name: broker.address for broker in await self._names.brokers()}
                    if brokers := self.read(found):
                        moved(brokers)
        finally:
            self._looking = None

    def _leave_if_gone(self, address: str) -> None:
        if address not in self._addresses.values():
            self._leave(address)
