"""POST /v1/groups/{group}/offsets:reset: resets a group's offsets in a topic."""

from gateway.admin.offset_reset import OffsetReset, ResetTo
from gateway.admin.schemas import QueueResetShown, ResetBody, ResetShown
from gateway.http.problems import invalid
from gateway.requests.checks import number, time_ms, topic_of
from gateway.requests.fields import OFFSET_MAX, GroupName
from gateway.requests.operations import Operation, Operations


def reset_routes(resetting: OffsetReset) -> list[Operation]:
    """Return the route."""
    calls = Operations("groups")

    @calls.post("/v1/groups/{group:plain}/offsets:reset", 400, 403, 404, 413, 415)
    async def reset_offsets(group: GroupName, body: ResetBody) -> ResetShown:
        """Reset a group's offsets in a topic, with clients or without; durable when answered, safe to repeat."""
        resets = await resetting.reset(
            group,
            topic_of(body.topic),
            reset_to(body.to),
            broker=body.broker,
            queue_id=body.queue_id,
            is_dry=body.dry_run,
        )
        queues = [
            QueueResetShown(
                topic=body.topic, broker=one.broker, queue_id=one.queue_id, from_=one.begin, to=one.end
            )
            for one in resets
        ]
        return ResetShown(
            group=group,
            topic=body.topic,
            dry_run=body.dry_run,
            queues=queues,
            skipped=sum(max(one.moved, 0) for one in resets),
            replayed=sum(max(-one.moved, 0) + one.given_again for one in resets),
        )

    return calls.all


def reset_to(to: str | int) -> ResetTo:
    """Parse `to`: a number, also in quotes, is an offset; raise 400 if it is neither that nor a time nor `earliest` or `latest`."""
    if isinstance(to, int):
        return ResetTo(offset=to)
    if to in {"earliest", "latest"}:
        return ResetTo(is_earliest=to == "earliest")
    if to.removeprefix("-").isdigit():
        return ResetTo(offset=number(to, "to", 0, OFFSET_MAX))
    if "T" not in to.upper():
        detail = "to is earliest, latest, a time in RFC 3339 or an offset"
        raise invalid("to", detail, "earliest, latest, a time, an offset")
    return ResetTo(time_ms=time_ms(to, "to"))
