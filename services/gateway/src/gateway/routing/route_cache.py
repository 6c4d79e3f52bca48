"""Routes by topic: read once, cached, refreshed by hints and by a slow poll. A missing route is never cached.

Also tells why a route is missing: no such topic, or all its brokers away.
"""

import asyncio
from collections.abc import Callable, Container, Iterable
from contextlib import suppress

from gateway.http.problems import Problem, away, topic_missing, unanswered
from gateway.ports.stores import Broker, Names, PeerAway, QueueData, RouteData, Unusable
from gateway.routing.brokers import KnownBrokers
from gateway.routing.expected_brokers import see_brokers
from gateway.routing.leaders import Leaders
from gateway.routing.queue_lists import (
    ORDER_NAMESPACE,
    PREVIOUS_NAMESPACE,
    ListHistory,
    Queue,
    QueueList,
    of_counts,
    parse,
    parse_previous,
)

TOPICS_MAX = 10_000
PERM_WRITE = 2
PERM_READ = 4


class Route:
    """Where the queues of a topic are."""

    __slots__ = (
        "addresses",
        "brokers",
        "holders",
        "lately",
        "message_type",
        "next_queue",
        "slaves",
        "topic",
        "used",
        "writable",
    )

    def __init__(self, topic: str, data: RouteData, first_queue: int, now: float) -> None:
        self.topic = topic
        self.addresses = data.addresses
        self.slaves = data.slaves
        """The addresses of a broker's replicas that do not lead, by broker id; no entry for a broker without any."""
        self.brokers: dict[str, QueueData] = {queue.broker: queue for queue in data.queues}
        self.holders: frozenset[str] = frozenset(self.brokers)
        """Every broker that was in a route of this topic while it was cached."""
        self.lately: dict[str, tuple[QueueData, str]] = {}
        """Share and address of brokers that left the route and are unknown to all nameservers: dead, or the nameserver
        has just started and they have not registered again. Only they can tell, so they are still tried."""
        self.writable: list[Queue] = _writable(data, data.addresses) or _writable(data, data.slaves)
        """The queues that take messages; those of brokers that have no leader now, only if no other broker takes any."""
        self.next_queue = first_queue
        self.used = now
        self.message_type: str | None = None
        """What type of messages the topic takes: RocketMQ's attribute, "" if it has none, None if nobody has asked yet."""

    def is_replicated(self, broker: str) -> bool:
        """Whether another replica of the broker may lead after this one."""
        return broker in self.slaves

    def share(self, broker: str) -> QueueData | None:
        """Return a broker's share of the topic, even if nameservers have lost the broker."""
        if broker in self.brokers and (broker in self.addresses or broker in self.slaves):
            return self.brokers[broker]
        return self.lately[broker][0] if broker in self.lately else None

    def shares(self) -> dict[str, QueueData]:
        """Return the shares of all brokers with an address, even of those that nameservers have lost."""
        seen = {
            name: share
            for name, share in self.brokers.items()
            if name in self.addresses or name in self.slaves
        }
        return {name: share for name, (share, _address) in self.lately.items()} | seen

    def address(self, broker: str) -> str:
        """Return the address of a broker with a share: its leader's, else of the last one, else of a replica, which says that it does not lead."""
        return self.addresses.get(broker) or self._last(broker) or next(iter(self.slaves[broker].values()))

    def pull_address(self, broker: str, suggested_id: int) -> str:
        """Return where to pull from, as RocketMQ's clients do: the replica that the broker suggested (0: its master), else the master, else any replica."""
        slaves = self.slaves.get(broker, {})
        if suggested_id in slaves:
            return slaves[suggested_id]
        return self.addresses.get(broker) or next(iter(slaves.values()), "") or self.address(broker)

    def _last(self, broker: str) -> str:
        return self.lately[broker][1] if broker in self.lately else ""

    def round_robin(self) -> Queue | None:
        """Return the next writable queue in turn."""
        if not self.writable:
            return None
        self.next_queue += 1
        return self.writable[self.next_queue % len(self.writable)]


def _writable(data: RouteData, brokers: Container[str]) -> list[Queue]:
    return [
        (queue.broker, queue_id)
        for queue in sorted(data.queues)
        if queue.perm & PERM_WRITE and queue.broker in brokers
        for queue_id in range(queue.write_queues)
    ]


class RouteCache:
    """Routes and queue lists of the topics in use."""

    def __init__(
        self,
        names: Names,
        known: KnownBrokers,
        leaders: Leaders,
        now: Callable[[], float],
        worker: int = 0,
    ) -> None:
        self._names, self._known, self._leaders, self._now = names, known, leaders, now
        self._first_queue = worker
        self._routes: dict[str, Route] = {}
        self._stale: set[str] = set()
        self._lists: dict[str, ListHistory] = {}
        self._stale_lists: set[str] = set()
        self._times_forgotten = 0
        """Counts over all topics. A list requested before the last `forget` may predate a change."""
        self._asking: dict[str, asyncio.Future[Route | None]] = {}
        self._changed_since_asked: set[str] = set()
        self._hinted: dict[str, asyncio.Event] = {}
        """The topics whose hints somebody waits for."""

    def fresh(self, topic: str) -> Route | None:
        """Return the cached route if it is fresh; the hot path calls this before `get`."""
        route = self._routes.get(topic)
        if route is None or topic in self._stale:
            return None
        route.used = self._now()
        return route

    def is_replicated(self, topic: str, brokers: Iterable[str]) -> bool:
        """Whether another replica of one of these brokers may lead next, by the last route of the topic."""
        route = self._routes.get(topic)
        return route is not None and any(broker in route.slaves for broker in brokers)

    async def get(self, topic: str) -> Route:
        """Return the route; raise the problem 404 (no such topic) or 503 (its brokers, or all nameservers, away)."""
        route = self.fresh(topic) or await self._ask_once(topic)
        if route is None:
            if problem := await self._brokers_away(topic):
                raise problem
            # A broker may have returned between the two reads: a topic is missing only if it is missing
            # twice.
            route = await self._ask_once(topic)
        if route is None:
            self._drop(topic)
            raise topic_missing(topic)
        return route

    def forget(self, topic: str) -> None:
        """Read again before the next use; called for a hint, and when a broker of the route did not respond."""
        self._times_forgotten += 1
        if topic in self._asking:
            self._changed_since_asked.add(topic)
        if topic in self._routes:
            self._stale.add(topic)
        if topic in self._lists:
            self._stale_lists.add(topic)

    def hinted(self, topic: str) -> None:
        """Take a hint that the route changed."""
        self._forget_and_wake(topic)
        if self._routes:
            self._leaders.look_soon(self._leader_moved)

    def _forget_and_wake(self, topic: str) -> None:
        self.forget(topic)
        event = self._hinted.pop(topic, None)
        if event is not None:
            event.set()

    async def wait_for_hint(self, topic: str, seconds: float) -> None:
        """Wait until a hint says that the route changed, or another read of routes saw it; at most this long."""
        event = self._hinted.setdefault(topic, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()

    def look_at_leaders(self) -> None:
        """Ask for the leaders if any broker in use has replicas: the poll behind their hints."""
        if any(route.slaves for route in self._routes.values()):
            self._leaders.look_soon(self._leader_moved)

    async def refresh(self, idle_seconds: float) -> None:
        """Read every route and list again; drop those not used for `idle_seconds`. The slow poll behind the hints.

        The cached values serve until the response arrives: a nameserver that hangs blocks nobody.
        """
        if moved := self._leaders.read({one.name: one.address for one in await self._see_brokers()}):
            self._leader_moved(moved)
        for topic, route in list(self._routes.items()):
            if self._now() - route.used > idle_seconds:
                self._drop(topic)
                continue
            used = route.used
            again = await self._ask_once(topic)
            if again is not None:
                again.used = used
            if topic in self._lists:
                await self._refresh_list(topic)

    async def _refresh_list(self, topic: str) -> None:
        """Read a list again. Keep the current one if no nameserver responds; mark it stale if it no longer exists."""
        asked_at = self._times_forgotten
        with suppress(PeerAway, Problem):
            history = await self.read_list(topic)
            if history is None:
                self._stale_lists.add(topic)
            elif topic in self._lists:
                self._lists[topic] = history
                self._list_is_as_of(topic, asked_at)

    def listed(self, topic: str) -> ListHistory | None:
        """Return the configured queue list if it is cached and fresh."""
        return None if topic in self._stale_lists else self._lists.get(topic)

    async def queue_list(self, topic: str) -> ListHistory:
        """Return the configured queue list; create it from the route if the topic has none yet."""
        known = self._lists.get(topic)
        if known is not None and topic not in self._stale_lists:
            return known
        asked_at = self._times_forgotten
        try:
            history = await self.read_list(topic)
        except (PeerAway, Problem):
            if known is not None:  # an old list is better than none: the stores work without nameservers
                self._list_is_as_of(topic, asked_at)
                return known
            raise
        if history is None:
            route = await self.get(topic)
            counts = {name: queue.write_queues for name, queue in (route.shares() | route.brokers).items()}
            current = of_counts(counts)
            if current is None:
                raise away(f"topic {topic} has no queue to write to")
            await self._names.put_value(ORDER_NAMESPACE, topic, current.text())
            # Another gateway may have written at the same moment: the stored list decides.
            history = await self.read_list(topic) or ListHistory(current)
        self._lists[topic] = history
        self._list_is_as_of(topic, asked_at)
        return history

    def _list_is_as_of(self, topic: str, asked_at: int) -> None:
        """Mark a list stale if `forget` was called since it was requested."""
        if asked_at == self._times_forgotten:
            self._stale_lists.discard(topic)
        else:
            self._stale_lists.add(topic)

    async def read_list(self, topic: str) -> ListHistory | None:
        """Read the configured list from the nameservers, bypassing the cache."""
        text = await self._names.value(ORDER_NAMESPACE, topic)
        current: QueueList | None = parse(text) if text else None
        if current is None:
            return None
        before = await self._names.value(PREVIOUS_NAMESPACE, topic)
        previous = parse_previous(before) if before else None
        return ListHistory(current, *previous) if previous else ListHistory(current)

    async def _ask_once(self, topic: str) -> Route | None:
        """Ask the nameservers; concurrent callers for one topic share the response."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = asyncio.ensure_future(self._ask(topic))
            self._asking[topic] = asking
            asking.add_done_callback(lambda _done: self._answered(topic))
        return await asyncio.shield(asking)

    def _answered(self, topic: str) -> None:
        """Finish a read. If the topic was forgotten meanwhile, the response may predate the change."""
        del self._asking[topic]
        if topic in self._changed_since_asked:
            self._changed_since_asked.discard(topic)
            self.forget(topic)

    async def _ask(self, topic: str) -> Route | None:
        old = self._routes.get(topic)
        try:
            data, alive = await self._ask_names(topic, old)
        except PeerAway as error:
            if old is not None:  # an old route is better than none: the stores work without nameservers
                self._stale.discard(topic)
                return old
            raise (
                unanswered(error, is_write=False)
                if isinstance(error, Unusable)
                else away("no nameserver answers; try again")
            ) from error
        if data is None:
            return self._without_route(topic, old, alive)
        self._stale.discard(topic)
        if not self._known.has_lists:
            await self._see_brokers()  # a send or a pull may name a broker that is away
        now = self._now()
        moved = self._leaders.read(data.addresses)
        self._known.record_alive((Broker(name, "", address) for name, address in data.addresses.items()), now)
        route = Route(topic, data, old.next_queue if old else self._first_queue, now)
        if old is not None:
            route.holders |= old.holders
            route.lately = {
                name: (share, old.address(name))
                for name, share in old.shares().items()
                if name not in data.addresses and name not in alive and self._known.get(name, now) is not None
            }
        self._routes[topic] = route
        if moved:
            self._leader_moved(moved)
        if len(self._routes) > TOPICS_MAX:
            self._drop(min(self._routes, key=lambda name: self._routes[name].used))
        return route

    def _leader_moved(self, brokers: set[str]) -> None:
        """Read the routes with another leader of these brokers again before their next use: their hints may be lost."""
        leaders = self._leaders
        for topic, route in self._routes.items():
            if topic not in self._stale and any(
                leaders.has_moved(broker, route.addresses.get(broker)) for broker in brokers
            ):
                self._forget_and_wake(topic)

    async def _ask_names(self, topic: str, old: Route | None) -> tuple[RouteData | None, set[str]]:
        """Return the route and, if a broker of the old route is missing from it, the registered brokers.

        Brokers register one by one with a nameserver that has just started. A missing but registered broker may have
        registered after the route was read, so the route is read again: a broker leaves a topic only if it is alive and
        missing twice.
        """
        data = await self._names.route(topic)
        if old is None:
            return data, set()
        missing = (old.brokers.keys() | old.lately.keys()) - (data.addresses.keys() if data else set[str]())
        if not missing:
            return data, set()
        alive = {broker.name for broker in await self._see_brokers()}
        return (await self._names.route(topic) if missing & alive else data), alive

    def _without_route(self, topic: str, old: Route | None, alive: set[str]) -> Route | None:
        """Keep an old route if none of its brokers is registered: the brokers, or the nameserver, are restarting."""
        if old is not None and alive.isdisjoint(old.brokers):
            self._stale.discard(topic)
            return old
        self.forget(topic)
        return None

    async def _brokers_away(self, topic: str) -> Problem | None:
        """Return the problem 503 if a topic has no route because all its configured brokers are away."""
        listed = await self._names.value(ORDER_NAMESPACE, topic)
        queue_list = parse(listed) if listed else None
        names = {name for name, _count in queue_list.counts} if queue_list else set[str]()
        if names and not await self._are_alive(names):
            return away(f"every broker of topic {topic} is away: {', '.join(sorted(names))}")
        return None

    async def _are_alive(self, names: set[str]) -> bool:
        """Return whether any of these brokers is registered."""
        return not names.isdisjoint({broker.name for broker in await self._see_brokers()})

    async def _see_brokers(self) -> list[Broker]:
        try:
            return await see_brokers(self._names, self._known, self._now)
        except PeerAway:
            return []

    def _drop(self, topic: str) -> None:
        self._hinted.pop(topic, None)
        self._routes.pop(topic, None)
        self._stale.discard(topic)
        self._lists.pop(topic, None)
        self._stale_lists.discard(topic)
