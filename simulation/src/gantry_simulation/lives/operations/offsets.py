"""Offsets of groups."""

from __future__ import annotations

from gantry_simulation.ledger.offsets import Cell
from gantry_simulation.lives.operations.doing import GROUP, Doing, Operation, topic_of
from gantry_simulation.lives.plan import Act


async def commit(doing: Doing, act: Act) -> None:
    """Commit an offset of a group, and read it."""
    store, topic, offsets = doing.store(act.on), topic_of(act), doing.ledger.offsets
    commit = offsets.begin(Cell(act.on, GROUP, topic, act.queue), act.number)
    await store.commit_offset(GROUP, topic, act.queue, act.number)
    offsets.answered(commit)
    await read(doing, act)


async def read(doing: Doing, act: Act) -> None:
    """Read an offset of a group."""
    cell = Cell(act.on, GROUP, topic_of(act), act.queue)
    since, began_ns = doing.ledger.since(act.on, cell.topic), doing.now_ns()
    offset = await doing.store(act.on).consumer_offset(GROUP, cell.topic, act.queue)
    doing.history.add(doing.name, f"reads the offset {offset} of {cell.topic}/{act.queue} on {act.on}")
    if doing.ledger.since(act.on, cell.topic).deletions == since.deletions:
        doing.ledger.offsets.read(cell, offset, began_ns)


OPERATIONS: dict[str, Operation] = {"commit": commit, "read offset": read}
