"""Consumer groups: list, show, create or change, pause, resume, delete; their offsets and lag."""

from typing import Annotated, Any

from msgspec import Meta

from gateway.admin.group_options import RetryPolicy, read_policy
from gateway.admin.groups import GroupAdmin, Lag, OffsetChange
from gateway.admin.schemas import (
    ExponentialPolicy,
    GroupBody,
    GroupList,
    GroupShown,
    LagQueue,
    LagShown,
    ListPolicy,
    OffsetsBody,
    Policy,
    Status,
)
from gateway.http.problems import invalid
from gateway.ports.stores import GroupSettings
from gateway.requests.fields import GroupName, TopicOrAll
from gateway.requests.operations import Operation, Operations


def group_routes(admin: GroupAdmin) -> list[Operation]:
    """Return the routes."""
    calls = Operations("groups")

    @calls.get("/v1/groups")
    async def list_groups() -> GroupList:
        """List the consumer groups of clients."""
        found, missing = await admin.all()
        return GroupList(groups=[_shown(group, held) for group, held in found.items()], missing=missing)

    @calls.get("/v1/groups/{group:plain}", 400, 404)
    async def show_group(group: GroupName) -> GroupShown:
        """Show a consumer group."""
        return _shown(group, await admin.get(group))

    @calls.put("/v1/groups/{group:plain}", 400, 403, 413, 415)
    async def put_group(group: GroupName, body: GroupBody | None = None) -> GroupShown:
        """Create a consumer group or change it, on every broker."""
        await admin.put(settings_of(group, body or GroupBody()))
        return _shown(group, await admin.get(group))

    @calls.delete("/v1/groups/{group:plain}", 400, 403, 404)
    async def delete_group(
        group: GroupName,
        offsets: Annotated[bool, Meta(description="Also delete the group's offsets.")] = True,
    ) -> Status:
        """Delete a consumer group from every broker."""
        await admin.delete(group, with_offsets=offsets)
        return Status(status="deleted")

    @calls.post("/v1/groups/{group:plain}:pause", 400, 403, 404)
    async def pause_group(group: GroupName) -> Status:
        """Stop deliveries to a group; its offsets stay."""
        await admin.set_enabled(group, is_enabled=False)
        return Status(status="paused")

    @calls.post("/v1/groups/{group:plain}:resume", 400, 403, 404)
    async def resume_group(group: GroupName) -> Status:
        """Resume deliveries to a paused group."""
        await admin.set_enabled(group, is_enabled=True)
        return Status(status="resumed")

    @calls.put("/v1/groups/{group:plain}/offsets", 400, 403, 404, 413, 415)
    async def put_offsets(group: GroupName, body: OffsetsBody) -> Status:
        """Set a group's offsets; durable when answered."""
        changes = [OffsetChange(one.topic, one.broker, one.queue_id, one.offset) for one in body.offsets]
        await admin.set_offsets(group, changes)
        return Status(status="stored")

    @calls.get("/v1/groups/{group:plain}/lag", 400, 404)
    async def lag(group: GroupName, topic: TopicOrAll = "") -> LagShown:
        """Show a group's lag, by queue."""
        lags, missing = await admin.lag(group, topic)
        queues = [_lag_queue(one) for one in lags]
        return LagShown(group=group, total=sum(queue.lag for queue in queues), queues=queues, missing=missing)

    return calls.all


def settings_of(group: str, body: GroupBody) -> GroupSettings:
    """Return the group's settings at the stores."""
    return GroupSettings(
        group,
        not body.paused,
        body.broadcast,
        body.retry_max_times,
        body.retry_queues,
        _policy_text(body.retry_policy),
        "" if body.order == "none" else body.order,
        "" if body.start_at == "earliest" else body.start_at,
    )


def shown_options(settings: GroupSettings) -> dict[str, Any]:
    """Return the fields of a group that the stores keep as attributes, in their HTTP form."""
    return {
        "retry_policy": _shown_policy(settings.retry_policy),
        "order": "shardingKey" if settings.order == "shardingKey" else "none",
        "start_at": "latest" if settings.start == "latest" else "earliest",
    }


def _policy_text(policy: Policy | None) -> str:
    if policy is None:
        return ""
    if isinstance(policy, ListPolicy):
        return RetryPolicy(tuple(policy.delays_ms)).text()
    if policy.max_ms < policy.initial_ms:
        limit = f">= {policy.initial_ms}"
        raise invalid("retryPolicy.maxMs", "maxMs is less than initialMs", limit)
    return RetryPolicy((), policy.initial_ms, policy.multiplier, policy.max_ms, policy.jitter).text()


def _shown_policy(text: str) -> Policy | None:
    policy = read_policy(text)
    if policy is None:
        return None
    if policy.delays_ms:
        return ListPolicy(delays_ms=list(policy.delays_ms))
    return ExponentialPolicy(
        initial_ms=policy.initial_ms,
        multiplier=policy.multiplier,
        max_ms=policy.max_ms,
        jitter=policy.jitter,
    )


def _shown(group: str, held: dict[str, GroupSettings]) -> GroupShown:
    first = next(iter(held.values()))
    return GroupShown(
        group=group,
        paused=not all(one.is_enabled for one in held.values()),
        broadcast=first.is_broadcast_enabled,
        retry_max_times=first.retry_max_times,
        retry_queues=first.retry_queues,
        brokers=sorted(held),
        **shown_options(first),
    )


def _lag_queue(one: Lag) -> LagQueue:
    progress = one.progress
    return LagQueue(
        topic=progress.topic,
        broker=one.broker,
        queue_id=progress.queue_id,
        offset=progress.offset,
        max_offset=progress.max_offset,
        lag=max(0, progress.max_offset - progress.offset),
        oldest_unacked_age_ms=one.oldest_unacked_age_ms,
    )
