"""Finds the process that serves a broker (the holder of a claim), and asks again while one takes over from another.

A claim lasts three seconds, so a call waits slightly longer before it reports that there is no holder.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from gantry_wire.codes import ResponseCode
from gateway.http.problems import Problem, away, refused, unanswered
from gateway.ports.stores import Broker, PeerAway, StoreRefused
from gateway.routing.fleet import Fleet

T = TypeVar("T")

CACHE_SECONDS = 2.0
PATIENCE_SECONDS = 5.0
PAUSE_SECONDS = 0.2

FindHolder = Callable[[Broker, str], Awaitable[str | None]]
"""Asks a broker for the address of the holder of queue 0 of a topic."""


class Page(Protocol):
    """A part of a list."""

    brokers: list[str]
    """Those whose claims the process held."""
    incomplete: list[str]
    """Those whose queues it had not read to the end."""


_NOT_SOON = frozenset({"DISK_FULL", "STORE_STOPPED"})
"""Errors that another holder would return too: raised at once."""
_NOT_NOW = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    }
)
"""Errors of a process that no longer serves the broker, or not yet."""


class ClaimHolders:
    """The claim holders by broker, cached for a short time."""

    def __init__(
        self,
        fleet: Fleet,
        find: FindHolder,
        now: Callable[[], float],
        service: str,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """`service` is the service's name in problems."""
        self._fleet, self._find, self._now, self.service = fleet, find, now, service
        self._patience_seconds = patience_seconds
        self._known: dict[tuple[str, str], tuple[str, float]] = {}

    async def broker(self, name: str, field: str = "broker") -> Broker:
        """Return a registered broker; raise 404 if it is unknown, 503 if it is away."""
        return await self._fleet.broker(name, field)

    async def brokers(self, only: str | None = None) -> tuple[list[Broker], list[str]]:
        """Return the brokers to ask (all, or the named one), and those that are away."""
        return ([await self.broker(only)], []) if only else await self._fleet.brokers()

    async def address(self, broker: Broker, topic: str) -> str | None:
        """Return the holder's address, None if there is none; raises the broker's PeerAway or StoreRefused."""
        known = self._known.get((broker.name, topic))
        if known is not None and self._now() < known[1]:
            return known[0]
        address = await self._find(broker, topic)
        if address is not None:
            self._known[broker.name, topic] = (address, self._now() + CACHE_SECONDS)
        return address

    async def is_held(self, broker: Broker, topic: str) -> bool:
        """Return whether the broker has a holder now."""
        try:
            return await self.address(broker, topic) is not None
        except (StoreRefused, PeerAway):
            return False

    def forget(self, broker: Broker, topic: str) -> None:
        """Ask the broker again before the next call."""
        self._known.pop((broker.name, topic), None)

    async def ask(
        self,
        broker: Broker,
        topic: str,
        call: Callable[[str], Awaitable[T]],
        *,
        is_ready: Callable[[T], bool] = lambda _answer: True,
        may_repeat: bool = True,
    ) -> T:
        """Ask the holder; retry while there is none or it is not ready; raise the problem after the time limit.

        A call that must not be repeated is not retried once it may have been received.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_seconds
        while True:
            problem = away(f"no {self.service} works for broker {broker.name} at the moment; try again")
            try:
                address = await self.address(broker, topic)
                if address is not None:
                    answer = await call(address)
                    if is_ready(answer):
                        return answer
                    problem = building(self.service, [broker.name])
            except StoreRefused as error:
                problem = refused(error)
                if error.code not in _NOT_NOW or error.gantry_code in _NOT_SOON:
                    raise problem from error
            except PeerAway as error:
                problem = unanswered(error, is_write=not may_repeat)
                if error.sent and not may_repeat:
                    raise problem from error
            self.forget(broker, topic)
            if loop.time() >= deadline:
                raise problem
            await asyncio.sleep(PAUSE_SECONDS)


def is_whole(page: Page, broker: str) -> bool:
    """Return whether a page lists what a broker has. A process that has just lost the broker's claims lists nothing."""
    return broker in page.brokers and broker not in page.incomplete


def building(service: str, brokers: list[str]) -> Problem:
    """Return 503: the index has not reached the end of the queues."""
    detail = f"the {service} still reads the queues of {', '.join(brokers)}; try again"
    problem = Problem(503, "INDEX_BUILDING", detail, retryable=True, retry_after_ms=500)
    problem.missing = brokers
    return problem
