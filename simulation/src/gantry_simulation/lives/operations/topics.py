"""Deletions of topics."""

from __future__ import annotations

from gantry_simulation.lives.operations.doing import Doing, Operation, topic_of
from gantry_simulation.lives.plan import Act

DELETE = "delete topic"


async def delete_topic(doing: Doing, act: Act) -> None:
    """Delete a topic. The next send makes it again."""
    topic = topic_of(act)
    doing.ledger.deleted(act.on, topic)
    try:
        await doing.store(act.on).delete_topic(topic)
        doing.history.add(doing.name, f"deletes {topic} on {act.on}")
    finally:
        doing.ledger.deleted(act.on, topic)


OPERATIONS: dict[str, Operation] = {DELETE: delete_topic}
