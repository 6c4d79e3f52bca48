"""Offsets of groups."""

from __future__ import annotations

from gantry_simulation.lives.operations.doing import GROUP, Doing, Operation, topic_of
from gantry_simulation.lives.plan import Act


async def commit(doing: Doing, act: Act) -> None:
    """Commit an offset of a group, and read it."""
    store, topic = doing.store(act.on), topic_of(act)
    await store.commit_offset(GROUP, topic, act.queue, act.number)
    offset = await store.consumer_offset(GROUP, topic, act.queue)
    doing.history.add(doing.name, f"commits {act.number} of {topic}/{act.queue} on {act.on}, reads {offset}")


OPERATIONS: dict[str, Operation] = {"commit": commit}
