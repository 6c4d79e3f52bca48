"""Brokers, the cluster, and its configuration (all topics and groups)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from gateway.admin.cluster import BrokerView, ClusterView
from gateway.admin.group_routes import settings_of, shown_options
from gateway.admin.groups import GroupAdmin
from gateway.admin.groups import refuse_to_change as refuse_to_change_group
from gateway.admin.schemas import (
    MESSAGE_TYPES,
    Applied,
    BrokerList,
    BrokerShown,
    ClusterPart,
    ClusterShown,
    Definitions,
    GroupDefinition,
    NameserverShown,
    TopicDefinition,
)
from gateway.admin.topic_routes import refuse_to_change, topic_settings
from gateway.admin.topics import TopicAdmin, perm_name
from gateway.http.problems import invalid
from gateway.ports.stores import GroupSettings, TopicSettings
from gateway.requests.checks import not_derived
from gateway.requests.operations import Operation, Operations

T = TypeVar("T")
APPLIED_AT_ONCE_MAX = 16


def cluster_routes(
    view: ClusterView, topics: TopicAdmin, groups: GroupAdmin, now: Callable[[], float]
) -> list[Operation]:
    """Return the routes."""
    calls = Operations("cluster")

    @calls.get("/v1/brokers")
    async def list_brokers() -> BrokerList:
        """List the brokers with their own metrics."""
        return BrokerList(brokers=[_broker(one) for one in await view.brokers(now())])

    @calls.get("/v1/cluster")
    async def show_cluster() -> ClusterShown:
        """Show clusters, brokers, their replicas and nameservers, and which do not respond."""
        brokers = await view.brokers(now())
        nameservers = await view.nameservers()
        members: dict[str, list[str]] = {}
        for one in [one for one in brokers if one.broker.cluster]:
            members.setdefault(one.broker.cluster, []).append(one.broker.name)
        return ClusterShown(
            clusters=[ClusterPart(name=name, brokers=held) for name, held in sorted(members.items())],
            groups=await view.groups(),
            nameservers=[
                NameserverShown(address=address, alive=alive) for address, alive in nameservers.items()
            ],
            missing=[one.broker.name for one in brokers if not one.is_alive],
        )

    @calls.get("/v1/definitions")
    async def export_definitions() -> Definitions:
        """Export topics and groups, in the format of PUT."""
        held_topics, _missing = await topics.all(with_system=False)
        held_groups, _missing = await groups.all()
        return Definitions(
            topics=[definition for held in held_topics.values() for definition in _topic_definition(held)],
            groups=[_group_definition(next(iter(held.values()))) for held in held_groups.values()],
        )

    @calls.put("/v1/definitions", 400, 403, 413, 415)
    async def apply_definitions(body: Definitions) -> Applied:
        """Create and change the given topics and groups; safe to repeat. Others do not change."""
        for one in body.topics:
            refuse_to_change(one.topic)
        for one in body.groups:
            refuse_to_change_group(not_derived(one.group))
        _refuse_repeated([one.topic for one in body.topics], "topics", "topic")
        _refuse_repeated([one.group for one in body.groups], "groups", "group")
        if body.topics:
            await topics.refuse_own([one.topic for one in body.topics])
        wanted_topics = {one.topic: topic_settings(one.topic, one) for one in body.topics}
        wanted_groups = {one.group: settings_of(one.group, one) for one in body.groups}
        await _each(topics.put, wanted_topics.values())
        await _each(groups.put, wanted_groups.values())
        return Applied(topics=len(wanted_topics), groups=len(wanted_groups))

    return calls.all


def _refuse_repeated(names: list[str], field: str, kind: str) -> None:
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name in seen:
            raise invalid(f"{field}[{place}].{kind}", f"{kind} {name} stands twice", "once")
        seen.add(name)


async def _each(put: Callable[[T], Awaitable[object]], wanted: Iterable[T]) -> None:
    """Put all, several at once; the first problem is raised after all have finished, since the call is safe to repeat."""
    slots = asyncio.Semaphore(APPLIED_AT_ONCE_MAX)

    async def one(settings: T) -> None:
        async with slots:
            await put(settings)

    answers = await asyncio.gather(*map(one, wanted), return_exceptions=True)
    for answer in answers:
        if answer is not None:
            raise answer


def _broker(one: BrokerView) -> BrokerShown:
    runtime = one.runtime
    now, morning = (runtime.get(name, "0") for name in ("msgPutTotalTodayNow", "msgPutTotalTodayMorning"))
    return BrokerShown(
        broker=one.broker.name,
        cluster=one.broker.cluster,
        address=one.broker.address,
        alive=one.is_alive,
        version=runtime.get("brokerVersionDesc", ""),
        put_tps=runtime.get("putTps", ""),
        get_tps=runtime.get("getTransferredTps", ""),
        messages_today=int(now) - int(morning) if now.isdigit() and morning.isdigit() else 0,
        runtime=runtime,
    )


def _topic_definition(held: dict[str, TopicSettings]) -> list[TopicDefinition]:
    """Return a topic with the settings of its first usable broker; nothing if it can be neither read nor written: PUT has no such perm."""
    for settings in held.values():
        perm = perm_name(settings.perm)
        if perm != "none":
            counts = {
                "read_queues": max(1, settings.read_queues),
                "write_queues": max(1, settings.write_queues),
            }
            kind = MESSAGE_TYPES.get(settings.message_type)
            return [TopicDefinition(topic=settings.topic, perm=perm, message_type=kind, **counts)]
    return []


def _group_definition(settings: GroupSettings) -> GroupDefinition:
    return GroupDefinition(
        group=settings.group,
        paused=not settings.is_enabled,
        broadcast=settings.is_broadcast_enabled,
        retry_max_times=settings.retry_max_times,
        retry_queues=settings.retry_queues,
        **shown_options(settings),
    )
