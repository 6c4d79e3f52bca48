"""All brokers and nameservers at once: what must be done on every one of them, and who was missing.

A change is done only when every known broker took it; a broker that is away counts as missing, not as unknown.
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
    """Every broker that is expected."""

    def __init__(self, names: Names, stores: Stores, known: KnownBrokers, now: Callable[[], float]) -> None:
        self._names, self._stores, self._known, self._now = names, stores, known, now

    async def brokers(self) -> tuple[list[Broker], list[str]]:
        """Return the brokers that are registered, and the names of expected ones that are not. 503 when there is none."""
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
        """Return a registered broker; 503 for one that is expected and away, 404 for one that nobody heard of."""
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
        """Ask every broker at once; return answers by name and the names of those away.

        A refusal with a code of `absent` means that this broker lacks the thing: it is in neither. Another refusal
        that the client caused is raised, any other counts as missing.
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
    """Raise 503 that names who is missing."""
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
