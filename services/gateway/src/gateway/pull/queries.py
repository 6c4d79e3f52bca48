"""Messages by offset id, unique id, key or time. Never connects to the host in an id."""

import asyncio
from collections.abc import Awaitable, Callable

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedMessageId, MalformedRecord
from gantry_wire.messages.ids import parse_offset_message_id
from gateway.http.problems import Problem, away, broker_away, refused, unanswered
from gateway.messages.message_view import messages, rfc3339
from gateway.messages.schemas import MessageOut
from gateway.ports.stores import Broker, PeerAway, Store, StoreRefused, Stores
from gateway.routing.brokers import KnownBrokers
from gateway.routing.fleet import Fleet, demand_all
from gateway.routing.holders import Holders
from gateway.routing.route_cache import PERM_READ, Route, RouteCache

FOREVER_MS = 2**62
ROUNDS_MAX = 256

_NOT_THERE = frozenset(
    {ResponseCode.QUERY_NOT_FOUND, ResponseCode.SYSTEM_ERROR, ResponseCode.TOPIC_NOT_EXIST}
)


class Queries:
    """Finds messages on all brokers."""

    def __init__(
        self, fleet: Fleet, routes: RouteCache, stores: Stores, known: KnownBrokers, now: Callable[[], float]
    ) -> None:
        self._fleet, self._routes, self._stores, self._known, self._now = fleet, routes, stores, known, now
        self._holders = Holders(fleet, routes)

    async def by_id(self, message_id: str, topic: str) -> MessageOut:
        """Return a message by its offset id, or by its unique id if `topic` is given; raise 404 if there is none."""
        if topic:
            found, _more = await self.by_key(topic, message_id, 0, FOREVER_MS, 1, is_unique=True)
            if found:
                return found[0]
        try:
            host, port, position = parse_offset_message_id(message_id)
        except MalformedMessageId as error:
            if topic:
                raise _no_such(message_id) from error
            raise _no_such(message_id, "; it is no offset id, and a unique id needs ?topic=") from error
        try:
            message = await self._at(message_id, host, port, position)
        except Problem as problem:
            if problem.code == "QUERY_NOT_FOUND" and not topic:
                problem.detail += "; if this is a unique id, give ?topic="
            raise
        if topic and message.topic != topic:
            raise _no_such(message_id)
        return message

    async def by_key(
        self, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int, *, is_unique: bool = False
    ) -> tuple[list[MessageOut], bool]:
        """Return messages with a key, oldest first, and whether there are more."""
        route = await self._routes.get(topic)

        async def ask(store: Store) -> list[MessageOut]:
            wanted = count_max + 1
            records = await store.messages_by_key(topic, key, begin_ms, end_ms, wanted, is_unique=is_unique)
            return messages(records, store.broker, with_system=True)

        found, problem = await self._each(route, ask)
        if not (is_unique and found):  # a unique id is complete with one message, even if a broker is away
            await self._demand_whole(route, problem)
        return _cut(found, count_max)

    async def by_time(
        self, topic: str, begin_ms: int, end_ms: int, count_max: int
    ) -> tuple[list[MessageOut], bool]:
        """Return messages stored in [begin, end), oldest first, and whether there are more."""
        route = await self._routes.get(topic)

        async def ask(store: Store) -> list[MessageOut]:
            queues = range(route.brokers[store.broker].read_queues)
            found = [
                await _between(store, topic, queue_id, begin_ms, end_ms, count_max + 1) for queue_id in queues
            ]
            return [message for part in found for message in part]

        found, problem = await self._each(route, ask)
        await self._demand_whole(route, problem)
        return _cut(found, count_max)

    async def _demand_whole(self, route: Route, problem: Problem | None) -> None:
        """Raise `problem`, or 503 if a broker that holds part of the topic is away: the reply would be incomplete."""
        if problem is not None:
            raise problem
        demand_all(await self._holders.missing(route), f"topic {route.topic} cannot be searched as a whole")

    async def _each(
        self, route: Route, ask: Callable[[Store], Awaitable[list[MessageOut]]]
    ) -> tuple[list[MessageOut], Problem | None]:
        """Ask every readable broker of the route; return the messages, and why one did not respond."""
        holders = [
            self._stores.at(data.broker, route.addresses[data.broker])
            for data in sorted(route.brokers.values())
            if data.perm & PERM_READ and data.broker in route.addresses
        ]
        answers = await asyncio.gather(*(ask(store) for store in holders), return_exceptions=True)
        found: list[MessageOut] = []
        problem: Problem | None = None
        for store, answer in zip(holders, answers, strict=True):
            if isinstance(answer, StoreRefused):
                if answer.code != ResponseCode.QUERY_NOT_FOUND:
                    problem = problem or refused(answer)
            elif isinstance(answer, PeerAway):
                self._routes.forget(route.topic)
                problem = problem or unanswered(answer, is_write=False)
            elif isinstance(answer, MalformedRecord):
                problem = problem or away(f"broker {store.broker} answered damaged records: {answer}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer
        return found, problem

    async def _at(self, message_id: str, host: str, port: int, position: int) -> MessageOut:
        alive: set[str] = set()
        no_answer: Problem | None = None
        try:
            brokers, _gone = await self._fleet.brokers()
            alive = {broker.name for broker in brokers}
        except Problem as problem:
            no_answer = problem
        expected = self._known.all(self._now())
        broker = next((one for one in expected if _is_host(one, host, port)), None)
        if broker is None:
            if no_answer is not None:
                raise no_answer
            unseen = [one.name for one in expected if not one.address]
            demand_all(unseen, f"whether {message_id} is of a broker that is away is not known")
            raise _no_such(message_id)
        if broker.name not in alive:
            raise broker_away(broker.name)
        try:
            records = await self._fleet.store(broker).message_at(position)
            return messages(records, broker.name, with_system=True)[0]
        except StoreRefused as error:
            raise _no_such(message_id) if error.code in _NOT_THERE else refused(error) from error
        except PeerAway as error:
            raise unanswered(error, is_write=False) from error
        except (MalformedRecord, IndexError) as error:
            raise _no_such(message_id) from error


async def _between(
    store: Store, topic: str, queue_id: int, begin_ms: int, end_ms: int, count_max: int
) -> list[MessageOut]:
    """Return messages of one queue stored in [begin, end), at most `count_max`."""
    offset = await store.offset_at(topic, queue_id, begin_ms)
    begin, end = rfc3339(begin_ms), rfc3339(end_ms)
    found: list[MessageOut] = []
    for _ in range(ROUNDS_MAX):
        pulled = await store.pull(topic, queue_id, offset, min(count_max - len(found), 1024), 0, "")
        part = messages(pulled.records, store.broker, with_system=True)
        found += [message for message in part if begin <= message.store_timestamp < end]
        offset = pulled.next_offset
        if (
            len(found) >= count_max
            or offset >= pulled.max_offset
            or (part and part[-1].store_timestamp >= end)
        ):
            break
    return found


def _cut(found: list[MessageOut], count_max: int) -> tuple[list[MessageOut], bool]:
    found.sort(key=lambda message: message.store_timestamp)  # fixed length and UTC, so text sorts like time
    return found[:count_max], len(found) > count_max


def _is_host(broker: Broker, host: str, port: int) -> bool:
    """Return whether the host of an id is this broker: by its address, or by the addresses of its host name."""
    name, _, its_port = broker.address.rpartition(":")
    return its_port == str(port) and (host in broker.hosts or name.strip("[]") == host)


def _no_such(message_id: str, why: str = "") -> Problem:
    return Problem(404, "QUERY_NOT_FOUND", f"there is no message {message_id}{why}", field="id")
