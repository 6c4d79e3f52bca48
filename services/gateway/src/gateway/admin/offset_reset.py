"""Resets a group's offsets in a topic by time, offset, earliest or latest, in every queue or in one; or only computes the result."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from gantry_wire.codes import ResponseCode
from gateway.admin.groups import GroupAdmin, refuse_to_change
from gateway.http.problems import broker_away, broker_missing, invalid, refused
from gateway.ports.stores import PeerAway, QueueBounds, Store, StoreRefused, Stores
from gateway.routing.fleet import demand_all
from gateway.routing.holders import Holders
from gateway.routing.route_cache import Route, RouteCache

T = TypeVar("T")

AT_ONCE_MAX = 32
_NO_PROGRESS = frozenset({ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, ResponseCode.TOPIC_NOT_EXIST})


class ResetTo(NamedTuple):
    """The target: an offset, a time (ms since 1970), the earliest or the latest offset."""

    offset: int | None = None
    time_ms: int | None = None
    is_earliest: bool = False


class QueueReset(NamedTuple):
    """One queue: the group's current and its new offset."""

    broker: str
    queue_id: int
    begin: int
    end: int
    bounds: QueueBounds
    given_again: int = 0
    """Messages from `end` on that are acknowledged out of order, or leased: they are delivered again, even if the offset moves forward."""

    @property
    def moved(self) -> int:
        """Messages that are skipped (above 0) or replayed (below 0); counts only messages that the queue still has."""
        low, high = self.bounds.min_offset, self.bounds.max_offset
        return self.end - min(max(self.begin, low), high)


class OffsetReset:
    """Resets offsets of groups, with clients or without."""

    def __init__(self, groups: GroupAdmin, routes: RouteCache, stores: Stores, holders: Holders) -> None:
        self._groups, self._routes, self._stores, self._holders = groups, routes, stores, holders

    async def reset(
        self,
        group: str,
        topic: str,
        to: ResetTo,
        *,
        broker: str | None,
        queue_id: int | None,
        is_dry: bool,
    ) -> list[QueueReset]:
        """Return the offsets that were reset, or would be. Safe to repeat: 503 names the brokers where the reset may be incomplete."""
        refuse_to_change(group)
        await self._groups.get(group)
        route = await self._routes.get(topic)
        stores = await self._asked(route, broker)
        parts = await self._of_each(route, stores, lambda store: _plan(store, group, topic, to, queue_id))
        resets = [reset for part in parts for reset in part]
        if queue_id is not None:
            _check_queue(resets, to, queue_id)
        parts = await self._of_each(
            route,
            stores,
            lambda store: _carry_out(
                store, group, topic, [one for one in resets if one.broker == store.broker], is_dry=is_dry
            ),
        )
        resets = [reset for part in parts for reset in part]
        return sorted(resets, key=lambda one: (one.broker, one.queue_id))

    async def _asked(self, route: Route, broker: str | None) -> list[Store]:
        """Return the stores that hold the queues; raise 503 if one of them is away."""
        if broker is not None:
            address = route.addresses.get(broker)
            if address is None:
                missing = await self._holders.missing(route)
                raise broker_away(broker) if broker in missing else broker_missing(broker)
            return [self._stores.at(broker, address)]
        demand_all(await self._holders.missing(route), f"topic {route.topic} cannot be reset as a whole")
        return [self._stores.at(name, address) for name, address in sorted(route.addresses.items())]

    async def _of_each(
        self, route: Route, stores: list[Store], do: Callable[[Store], Awaitable[T]]
    ) -> list[T]:
        answers = await asyncio.gather(*(do(store) for store in stores), return_exceptions=True)
        missing: list[str] = []
        done: list[T] = []
        for store, answer in zip(stores, answers, strict=True):
            if isinstance(answer, StoreRefused):
                raise refused(answer)
            if isinstance(answer, PeerAway):
                self._routes.forget(route.topic)
                missing.append(store.broker)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                done.append(answer)
        demand_all(missing, f"offsets in topic {route.topic} are not reset everywhere")
        return done


async def _plan(store: Store, group: str, topic: str, to: ResetTo, queue_id: int | None) -> list[QueueReset]:
    try:
        progress = {one.queue_id: one.offset for one in await store.progress(group, topic)}
    except StoreRefused as error:
        if error.code not in _NO_PROGRESS:
            raise
        progress = {}
    wanted = [one for one in await store.queue_bounds(topic) if queue_id in {None, one.queue_id}]
    slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def plan(bounds: QueueBounds) -> QueueReset:
        begin = max(progress.get(bounds.queue_id, 0), 0)
        async with slots:
            end = await _target(store, topic, bounds, to)
        return QueueReset(store.broker, bounds.queue_id, begin, end, bounds)

    return list(await asyncio.gather(*map(plan, wanted)))


async def _target(store: Store, topic: str, bounds: QueueBounds, to: ResetTo) -> int:
    """Return the new offset, clamped to the queue's bounds."""
    if to.offset is not None:
        offset = to.offset
    elif to.time_ms is not None:
        offset = await store.offset_at(topic, bounds.queue_id, to.time_ms)
    else:
        offset = bounds.min_offset if to.is_earliest else bounds.max_offset
    return min(max(offset, bounds.min_offset), bounds.max_offset)


async def _carry_out(
    store: Store, group: str, topic: str, resets: list[QueueReset], *, is_dry: bool
) -> list[QueueReset]:
    return [await _carry_out_one(store, group, topic, one, is_dry=is_dry) for one in resets]


async def _carry_out_one(
    store: Store, group: str, topic: str, one: QueueReset, *, is_dry: bool
) -> QueueReset:
    """Reset one queue: to its beginning, if retention has meanwhile removed the message at the new offset."""
    while True:
        try:
            again = await store.reset_offset(group, topic, one.queue_id, one.end, dry=is_dry)
        except StoreRefused as error:
            if is_dry and error.code in _NO_PROGRESS:
                return one
            bounds = one.bounds
            if error.code == ResponseCode.INVALID_PARAMETER:
                now = {bounds.queue_id: bounds for bounds in await store.queue_bounds(topic)}
                bounds = now.get(one.queue_id, bounds)
            if bounds.min_offset <= one.end:
                raise
            one = one._replace(end=bounds.min_offset, bounds=bounds)
        else:
            return one._replace(given_again=again)


def _check_queue(resets: list[QueueReset], to: ResetTo, queue_id: int) -> None:
    """Refuse a queue that does not exist, and an offset outside the requested queue."""
    if not resets:
        raise invalid("queueId", f"the topic has no queue {queue_id} there")
    bounds = resets[0].bounds
    if len(resets) == 1 and to.offset is not None and to.offset != resets[0].end:
        limit = f"{bounds.min_offset}…{bounds.max_offset}"
        raise invalid("to", f"the queue has the offsets {limit}", limit)
