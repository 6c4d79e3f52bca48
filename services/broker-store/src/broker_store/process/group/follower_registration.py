"""Registers a replica that follows with the nameservers, as RocketMQ registers a slave: clients see that another one can lead its broker."""

import asyncio
from collections.abc import Callable

from broker_store.process.registration import Registration

LOOK_SECONDS = 0.25


class FollowerRegistration:
    """The registrations of a replica while it does not lead: one for each epoch of a leader."""

    def __init__(self, epoch: Callable[[], int], make: Callable[[int], Registration]) -> None:
        """`epoch`: of the leader that the replica follows, 0 while it follows none. `make`: returns the registration in an epoch."""
        self._epoch, self._make = epoch, make
        self._running: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Register, and again when another replica leads, until cancelled."""
        registered = 0
        try:
            while True:
                epoch = self._epoch()
                if epoch != registered:
                    registered = epoch
                    await self._end()
                    self._running = asyncio.ensure_future(self._make(epoch).run()) if epoch else None
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await self._end()

    async def _end(self) -> None:
        """End the registrations in the epoch before. The nameservers forget them when the next one comes, or the connections end."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])
