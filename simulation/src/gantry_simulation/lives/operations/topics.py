"""Topics that are deleted, made and given more queues."""

from __future__ import annotations

from gantry_link.errors import BrokerRefused
from gantry_simulation.lives.operations.doing import Doing, Operation, topic_of
from gantry_simulation.lives.plan import Act
from gantry_wire.headers.admin import CreateTopicHeader

DELETE, MAKE = "delete topic", "make topic"
QUEUES_MIN, QUEUES_MORE = 4, 5


async def delete_topic(doing: Doing, act: Act) -> None:
    """Delete a topic. The next send makes it again."""
    topic = topic_of(act)
    doing.ledger.deletion_begins(act.on, topic)
    try:
        await doing.store(act.on).delete_topic(topic)
    except BrokerRefused:
        doing.ledger.deletion_ends(act.on, topic)
        raise
    doing.ledger.deletion_ends(act.on, topic)
    doing.history.add(doing.name, f"deletes {topic} on {act.on}")


async def make_topic(doing: Doing, act: Act) -> None:
    """Make a topic, or change the number of its queues. All queues of the plan stay."""
    topic, queues = topic_of(act), QUEUES_MIN + act.number % QUEUES_MORE
    header = CreateTopicHeader(topic=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6)
    await doing.store(act.on).create_topic(header)
    doing.history.add(doing.name, f"gives {topic} on {act.on} {queues} queues")


OPERATIONS: dict[str, Operation] = {DELETE: delete_topic, MAKE: make_topic}
