"""Offsets of groups."""

from __future__ import annotations

import msgspec

from gantry_simulation.ledger.offsets import Cell
from gantry_simulation.lives.operations.doing import GROUP, Doing, Operation, topic_of
from gantry_simulation.lives.operations.reading import FLAG_COMMIT, pull_header
from gantry_simulation.lives.plan import Act

PULLING_GROUP, PULL = "GP", "pull with offset"


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
    doing.ledger.read_offset(cell, offset, since, began_ns)


async def pull_with_offset(doing: Doing, act: Act) -> None:
    """Pull with a group's offset, as push consumers do, then read the offset: it is that one, or a higher one that another pull had."""
    topic, offsets, store = topic_of(act), doing.ledger.offsets, doing.store(act.on)
    cell, life = Cell(act.on, PULLING_GROUP, topic, act.queue), doing.lives_of(act.on)
    since = doing.ledger.since(act.on, topic)
    header = msgspec.structs.replace(
        pull_header(topic, act.queue, 0), consumer_group=PULLING_GROUP, commit_offset=act.number
    )
    header = msgspec.structs.replace(header, sys_flag=header.sys_flag | FLAG_COMMIT)
    await store.pull(header)
    if doing.lives_of(act.on) != life or doing.ledger.since(act.on, topic).deletions != since.deletions:
        return
    offsets.carried(cell, act.number, life)
    least = offsets.least(cell, life)
    offset = await store.consumer_offset(PULLING_GROUP, topic, act.queue)
    is_bound = (
        doing.lives_of(act.on) == life and doing.ledger.since(act.on, topic).deletions == since.deletions
    )
    doing.history.add(
        doing.name, f"pulls with the offset {act.number} of {topic}/{act.queue} on {act.on}: {offset}"
    )
    if is_bound and (offset or 0) < least:
        doing.violate(f"{cell} has the offset {offset}, after a pull with {least}")


OPERATIONS: dict[str, Operation] = {"commit": commit, "read offset": read}
PULLS: dict[str, Operation] = {PULL: pull_with_offset}
"""Drawn apart, a few in a row."""
