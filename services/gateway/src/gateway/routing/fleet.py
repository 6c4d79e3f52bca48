"""All brokers and nameservers at once: changes that every one of them must make, and which were missing.

A change is complete only if every known broker made it; a broker that is away is missing, not unknown.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from gantry_wire.codes import ResponseCode
from gateway.http.problems import AWAY_RETRY_AFTER_MS, Problem, away, broker_away, broker_missing, refused
from gateway.ports.stores import Broker, Names, PeerAway, Store, StoreRefused, Stores
from gateway.routing.brokers import KnownBrokers
from gateway.routing.expected_brokers import see_brokers

T = TypeVar("T")

_CLIENTS_FAULT = frozenset(
    {
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.NO_PERMISSION,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    }
)


class Fleet:
    """Every expected broker."""

    def __init__(self, names: Names, stores: Stores, known: KnownBrokers, now: Callable[[], float]) -> None:
        self._names, self._stores, self._known, self._now = names, stores, known, now

    async def brokers(self) -> tuple[list[Broker], list[str]]:
        """Return the registered brokers, and the names of expected ones that are not registered. 503 if none is registered."""
        try:
            alive = await see_brokers(self._names, self._known, self._now)
        except PeerAway as error:
            raise away("no nameserver answers; try again") from error
        now = self._now()
        names = {broker.name for broker in alive}
        gone = [broker.name for broker in self._known.all(now) if broker.name not in names]
        if not alive:
            raise away(f"no broker is registered{': ' + ', '.join(gone) + ' away' if gone else ''}")
        return alive, gone

    async def broker(self, name: str, field: str = "broker") -> Broker:
        """Return a registered broker; raise 503 if it is expected but away, 404 if it is unknown."""
        alive, gone = await self.brokers()
        for broker in alive:
            if broker.name == name:
                return broker
        raise broker_away(name) if name in gone else broker_missing(name, field)

    def store(self, broker: Broker) -> Store:
        """Return the client of a broker."""
        return self._stores.at(broker.name, broker.address)

    async def each(
        self, do: Callable[[Store], Awaitable[T]], *, absent: frozenset[int] = frozenset()
    ) -> tuple[dict[str, T], list[str]]:
        """Ask every broker at once; return the responses by name, and the names of those away.

        A broker that refuses with a code of `absent` lacks the thing: it is in neither. Other refusals are raised if the client
        caused them; otherwise the broker is missing.
        """
        alive, missing = await self.brokers()
        answers = await asyncio.gather(*(do(self.store(broker)) for broker in alive), return_exceptions=True)
        found: dict[str, T] = {}
        for broker, answer in zip(alive, answers, strict=True):
            if isinstance(answer, StoreRefused):
                if answer.code in absent:
                    continue
                if answer.code in _CLIENTS_FAULT:
                    raise refused(answer)
                missing.append(broker.name)
            elif isinstance(answer, PeerAway):
                missing.append(broker.name)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[broker.name] = answer
        return found, missing


def demand_all(missing: Sequence[str], what: str) -> None:
    """Raise 503 that names the missing brokers."""
    if not missing:
        return
    problem = Problem(
        503,
        "SERVICE_NOT_AVAILABLE",
        f"{what}; missing: {', '.join(missing)}; safe to repeat",
        retryable=True,
        retry_after_ms=AWAY_RETRY_AFTER_MS,
    )
    problem.missing = list(missing)
    raise problem
