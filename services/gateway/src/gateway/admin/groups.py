"""Consumer groups: created, changed, paused, deleted on every broker; their offsets and lag."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from gantry_wire import names as wire_names
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedRecord
from gantry_wire.records.message_record import decode_record
from gateway.http.problems import (
    Problem,
    broker_missing,
    forbidden,
    group_missing,
    invalid,
    refused,
    unanswered,
)
from gateway.ports.stores import GroupSettings, PeerAway, QueueProgress, Store, StoreRefused, Stores
from gateway.requests.checks import not_derived
from gateway.routing.fleet import Fleet, demand_all
from gateway.routing.route_cache import RouteCache

ASKED_AT_ONCE_MAX = 16
_PRESET = frozenset((*wire_names.PRESET_GROUPS, wire_names.GATEWAY_GROUP))
_SYSTEM_PREFIXES = (wire_names.SYSTEM_GROUP_PREFIX, wire_names.GANTRY_SYSTEM_PREFIX)
_ABSENT = frozenset({int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST), int(ResponseCode.TOPIC_NOT_EXIST)})


class OffsetChange(NamedTuple):
    """A group's new offset in one queue."""

    topic: str
    broker: str
    queue_id: int
    offset: int


class Lag(NamedTuple):
    """A group's lag in one queue; the age is that of the oldest message it has not consumed."""

    broker: str
    progress: QueueProgress
    oldest_unacked_age_ms: int


def is_system_group(group: str) -> bool:
    """Return whether a group belongs to the system: hidden from lists, not to be changed."""
    return group in _PRESET or group.startswith(_SYSTEM_PREFIXES)


class GroupAdmin:
    """Changes and shows consumer groups."""

    def __init__(self, fleet: Fleet, routes: RouteCache, stores: Stores, wall_ms: Callable[[], int]) -> None:
        self._fleet, self._routes, self._stores, self._wall_ms = fleet, routes, stores, wall_ms

    async def all(self) -> tuple[dict[str, dict[str, GroupSettings]], list[str]]:
        """Return every group of clients with its settings by broker, and the brokers that could not be asked."""
        found, missing = await self._fleet.each(lambda store: store.groups())
        groups: dict[str, dict[str, GroupSettings]] = {}
        for broker, held in sorted(found.items()):
            for settings in held:
                if not is_system_group(settings.group):
                    groups.setdefault(settings.group, {})[broker] = settings
        return dict(sorted(groups.items())), sorted(set(missing))

    async def get(self, group: str) -> dict[str, GroupSettings]:
        """Return a group's settings by broker; raise 404 if no broker has the group."""
        found, missing = await self._fleet.each(lambda store: store.groups())
        held = {
            broker: settings
            for broker, all_groups in sorted(found.items())
            for settings in all_groups
            if settings.group == group
        }
        if not held:
            demand_all(missing, f"group {group} cannot be looked up")
            raise group_missing(group)
        return held

    async def put(self, settings: GroupSettings) -> None:
        """Create or change a group on every broker; raise 503 that names the brokers without the change."""
        refuse_to_change(not_derived(settings.group))
        _done, missing = await self._fleet.each(lambda store: store.put_group(settings))
        demand_all(missing, f"group {settings.group} is not everywhere yet")

    async def set_enabled(self, group: str, *, is_enabled: bool) -> None:
        """Pause (False) or resume (True) a group on every broker."""
        refuse_to_change(group)
        held = await self.get(group)
        default = next(iter(held.values()))

        async def change(store: Store) -> None:
            await store.put_group(held.get(store.broker, default)._replace(is_enabled=is_enabled))

        _done, missing = await self._fleet.each(change)
        demand_all(missing, f"group {group} is not {'resumed' if is_enabled else 'paused'} everywhere")

    async def delete(self, group: str, *, with_offsets: bool) -> None:
        """Delete a group from every broker; raise 404 if none has it."""
        refuse_to_change(group)
        await self.get(group)
        _done, missing = await self._fleet.each(
            lambda store: store.delete_group(group, with_offsets=with_offsets), absent=_ABSENT
        )
        demand_all(missing, f"group {group} is not deleted everywhere")

    async def set_offsets(self, group: str, changes: list[OffsetChange]) -> None:
        """Set offsets of a group, durably. Checks all before it sets any."""
        refuse_to_change(group)
        await self.get(group)
        stores = [await self._checked(number, change) for number, change in enumerate(changes)]
        try:
            for store, change in zip(stores, changes, strict=True):
                await store.set_offset(group, change.topic, change.queue_id, change.offset)
        except StoreRefused as error:
            raise refused(error) from error
        except PeerAway as error:  # setting an offset again is safe, so no result is unknown
            raise unanswered(error, is_write=False) from error

    async def lag(self, group: str, topic: str) -> tuple[list[Lag], list[str]]:
        """Return the group's lag in every queue of a topic, and the brokers that could not be asked.

        `topic` may be "": all topics with an offset of the group on any broker. Raises 404 for an unknown group or topic.
        """
        found, missing = await self._fleet.each(lambda store: store.progress(group, topic), absent=_ABSENT)
        if not topic:
            missing += await self._add_other_topics(group, found)
        rows = [(broker, one) for broker, held in sorted(found.items()) for one in sorted(held)]
        if not rows:
            await self.get(group)
            demand_all(missing if not found else [], f"group {group} cannot be looked up")
            if topic:
                await self._routes.get(topic)
        alive, _gone = await self._fleet.brokers()
        stores = {broker.name: self._fleet.store(broker) for broker in alive}
        rows = [(broker, one) for broker, one in rows if broker in stores]
        missing += found.keys() - stores.keys()  # deleted since it responded
        slots = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

        async def one(broker: str, progress: QueueProgress) -> Lag:
            async with slots:
                return Lag(broker, progress, await self._age_ms(stores[broker], progress))

        lags = await asyncio.gather(*(one(broker, progress) for broker, progress in rows))
        return list(lags), sorted(set(missing))

    async def _add_other_topics(self, group: str, found: dict[str, list[QueueProgress]]) -> list[str]:
        """Add each broker's queues of topics in which only another broker has an offset of the group.

        A broker only reports topics with an offset of the group, but the messages of the others wait there as well.
        Returns the brokers that did not respond.
        """
        topics = {one.topic for held in found.values() for one in held}
        missing: list[str] = []
        for topic in sorted(topics):
            if all(any(one.topic == topic for one in held) for held in found.values()):
                continue
            more, away = await self._fleet.each(
                lambda store, topic=topic: store.progress(group, topic), absent=_ABSENT
            )
            missing += away
            for broker, held in more.items():
                kept = found.setdefault(broker, [])
                known = {(one.topic, one.queue_id) for one in kept}
                kept += [one for one in held if (one.topic, one.queue_id) not in known]
        return missing

    async def _checked(self, number: int, change: OffsetChange) -> Store:
        """Return the store of a change; raise the problem if topic, broker, queue or offset do not exist."""
        try:
            route = await self._routes.get(change.topic)
        except Problem as problem:
            if problem.field:
                problem.field = f"offsets[{number}].{problem.field}"
            raise
        address = route.addresses.get(change.broker)
        if address is None:
            field = f"offsets[{number}].broker"
            await self._fleet.broker(change.broker, field)
            raise broker_missing(change.broker, field)
        store = self._stores.at(change.broker, address)
        bounds = {queue.queue_id: queue for queue in await store.queue_bounds(change.topic)}
        queue = bounds.get(change.queue_id)
        if queue is None:
            limit = f"0…{len(bounds) - 1}"
            raise invalid(f"offsets[{number}].queueId", f"the topic has the queues {limit} there", limit)
        if not queue.min_offset <= change.offset <= queue.max_offset:
            limit = f"{queue.min_offset}…{queue.max_offset}"
            raise invalid(f"offsets[{number}].offset", f"the queue has the offsets {limit}", limit)
        return store

    async def _age_ms(self, store: Store, progress: QueueProgress) -> int:
        """Return the age of the message at the group's offset; 0 if no message waits or it cannot be read."""
        if progress.offset >= progress.max_offset:
            return 0
        try:
            pulled = await store.pull(progress.topic, progress.queue_id, max(progress.offset, 0), 1, 0, "")
            if len(pulled.records) == 0 and pulled.code == ResponseCode.PULL_OFFSET_MOVED:
                pulled = await store.pull(progress.topic, progress.queue_id, pulled.next_offset, 1, 0, "")
            if len(pulled.records) == 0:
                return 0
            return max(0, self._wall_ms() - decode_record(pulled.records).store_timestamp)
        except (StoreRefused, PeerAway, MalformedRecord):
            return 0


def refuse_to_change(group: str) -> None:
    """Raise 403 for groups of the system."""
    if is_system_group(group):
        raise forbidden(f"group {group} belongs to the system", "group")
