"""Topics: list, show, create or change, delete."""

from typing import Annotated

from msgspec import Meta

from gateway.admin.schemas import (
    QueueShown,
    Status,
    TopicBody,
    TopicHolder,
    TopicList,
    TopicListed,
    TopicPut,
    TopicShown,
)
from gateway.admin.topics import TopicAdmin, TopicView, is_system_topic, perm_bits, perm_name
from gateway.http.problems import forbidden
from gateway.ports.stores import TopicSettings
from gateway.requests.checks import topic_of
from gateway.requests.fields import TopicName
from gateway.requests.operations import Operation, Operations


def topic_routes(admin: TopicAdmin) -> list[Operation]:
    """Return the routes."""
    calls = Operations("topics")

    @calls.get("/v1/topics", 400)
    async def list_topics(
        system: Annotated[
            bool, Meta(description="Also RocketMQ's system, retry and dead-letter topics.")
        ] = False,
    ) -> TopicList:
        """List the topics."""
        found, missing = await admin.all(with_system=system)
        return TopicList(topics=[_listed(topic, held) for topic, held in found.items()], missing=missing)

    @calls.get("/v1/topics/{topic}", 400, 403, 404)
    async def show_topic(topic: TopicName) -> TopicShown:
        """Show a topic with the offsets of its queues."""
        return _shown(await admin.view(topic_of(topic)))

    @calls.put("/v1/topics/{topic}", 400, 403, 413, 415)
    async def put_topic(topic: TopicName, body: TopicBody | None = None) -> TopicPut:
        """Create a topic or change it, on every broker; answered when every broker and nameserver has it."""
        wanted = body or TopicBody()
        refuse_to_change(topic)
        brokers = await admin.put(topic_settings(topic, wanted))
        return TopicPut(
            topic=topic,
            read_queues=wanted.read_queues,
            write_queues=wanted.write_queues,
            perm=wanted.perm,
            message_type=wanted.message_type,
            brokers=brokers,
        )

    @calls.delete("/v1/topics/{topic}", 400, 403, 404)
    async def delete_topic(topic: TopicName) -> Status:
        """Delete a topic with its messages and its groups' offsets, everywhere."""
        refuse_to_change(topic)
        await admin.delete(topic)
        return Status(status="deleted")

    return calls.all


def topic_settings(topic: str, wanted: TopicBody) -> TopicSettings:
    """Return the settings that a body asks for."""
    perm = perm_bits(wanted.perm)
    return TopicSettings(topic, wanted.read_queues, wanted.write_queues, perm, wanted.message_type or "")


def refuse_to_change(topic: str) -> None:
    """Raise 403 for topics of the system."""
    topic_of(topic)
    if is_system_topic(topic):
        raise forbidden(f"topic {topic} belongs to the system", "topic")


def _shown(view: TopicView) -> TopicShown:
    holders = [
        TopicHolder(
            broker=data.broker,
            read_queues=data.read_queues,
            write_queues=data.write_queues,
            perm=perm_name(data.perm),
        )
        for data in view.brokers
    ]
    queues = [
        QueueShown(broker=broker, queue_id=q.queue_id, min_offset=q.min_offset, max_offset=q.max_offset)
        for broker, q in view.bounds
    ]
    return TopicShown(
        topic=view.topic,
        perm=holders[0].perm if holders else "none",
        message_type=view.message_type or None,
        brokers=holders,
        queues=queues,
        missing=view.missing,
    )


def _listed(topic: str, held: dict[str, TopicSettings]) -> TopicListed:
    return TopicListed(
        topic=topic,
        perm=perm_name(max((one.perm for one in held.values()), default=0)),
        read_queues=max((one.read_queues for one in held.values()), default=0),
        write_queues=max((one.write_queues for one in held.values()), default=0),
        message_type=next((one.message_type for one in held.values() if one.message_type), None),
        brokers=sorted(held),
    )
