"""Which brokers this gateway knows: those of the latest answers, and for a while those that went away since.

A name that is not in here is unknown (404); one that is, but is gone from the routes, is away (503). Pure.
"""

from collections.abc import Iterable

from gateway.ports import Broker

BROKERS_MAX = 10_000


class KnownBrokers:
    """Remembers brokers by name for `remember_seconds` after they were last seen."""

    def __init__(self, remember_seconds: float) -> None:
        self._remember_seconds = remember_seconds
        self._seen: dict[str, tuple[Broker, float]] = {}

    def saw(self, brokers: Iterable[Broker], now: float) -> None:
        """Note brokers as alive at `now`; forget what was not seen for too long."""
        for broker in brokers:
            before = self._seen.get(broker.name)
            if not broker.cluster and before is not None:  # a route names no cluster
                broker = before[0]._replace(address=broker.address)  # noqa: PLW2901
            self._seen[broker.name] = (broker, now)
        if len(self._seen) > BROKERS_MAX:
            self._seen = dict(list(self._seen.items())[-BROKERS_MAX:])

    def get(self, name: str, now: float) -> Broker | None:
        """Return the broker, alive or lately gone; None: no such broker is known."""
        entry = self._seen.get(name)
        if entry is None or now > entry[1] + self._remember_seconds:
            return None
        return entry[0]

    def all(self, now: float) -> list[Broker]:
        """Return every broker that is known at `now`, by name."""
        return sorted(b for b, seen in self._seen.values() if now <= seen + self._remember_seconds)
