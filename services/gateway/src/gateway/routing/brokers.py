"""The expected brokers: the registered ones, those that left recently, and those in the topics' queue lists.

Thanks to the queue lists, even a gateway that started while a broker was away knows it. An unknown name is 404; a known
broker that is not registered is 503. Pure.
"""

from collections.abc import Iterable

from gateway.ports.stores import Broker

BROKERS_MAX = 10_000
LISTS_SECONDS = 5.0
"""How long the queue lists of all topics stay valid."""


class KnownBrokers:
    """Remembers brokers by name for `remember_seconds` after they were last seen, and as long as a queue list names them."""

    def __init__(self, remember_seconds: float) -> None:
        self._remember_seconds = remember_seconds
        self._seen: dict[str, tuple[Broker, float]] = {}
        self._holders: frozenset[str] = frozenset()
        self._read: float | None = None

    def record_alive(self, brokers: Iterable[Broker], now: float) -> None:
        """Record brokers as alive at `now`; forget those not seen for too long."""
        for broker in brokers:
            before = self._seen.get(broker.name)
            if not broker.cluster and before is not None:  # a route has no cluster name
                broker = before[0]._replace(address=broker.address)  # noqa: PLW2901
            self._seen[broker.name] = (broker, now)
        if len(self._seen) > BROKERS_MAX:
            self._seen = dict(list(self._seen.items())[-BROKERS_MAX:])

    @property
    def has_lists(self) -> bool:
        """Whether the queue lists have ever been read."""
        return self._read is not None

    def are_lists_old(self, now: float) -> bool:
        """Return whether the queue lists are due to be read again."""
        return self._read is None or now > self._read + LISTS_SECONDS

    def listed(self, names: Iterable[str], now: float) -> None:
        """Record the brokers in the topics' queue lists, as read at `now`."""
        self._holders = frozenset(sorted(names)[:BROKERS_MAX])
        self._read = now

    def get(self, name: str, now: float) -> Broker | None:
        """Return a broker that is alive or left recently; None if none was seen."""
        entry = self._seen.get(name)
        if entry is None or now > entry[1] + self._remember_seconds:
            return None
        return entry[0]

    def is_expected(self, name: str, now: float) -> bool:
        """Return whether a broker of this name belongs to the cluster, alive or away."""
        return name in self._holders or self.get(name, now) is not None

    def all(self, now: float) -> list[Broker]:
        """Return every expected broker at `now`, by name; one that was never seen has no cluster and no address."""
        seen = [
            broker
            for broker, when in self._seen.values()
            if now <= when + self._remember_seconds or broker.name in self._holders
        ]
        unseen = [Broker(name, "", "") for name in self._holders if name not in self._seen]
        return sorted(seen + unseen)
