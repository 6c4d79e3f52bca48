"""Requests to delete old segments, and where queues begin and end."""

from __future__ import annotations

from gantry_simulation.lives.operations.doing import Doing, Operation, topic_of
from gantry_simulation.lives.operations.reading import pull_header
from gantry_simulation.lives.plan import Act
from gantry_wire.codes import RequestCode, ResponseCode


async def delete_old(doing: Doing, act: Act) -> None:
    """Ask a store to delete expired segments now, at any hour."""
    await doing.store(act.on).ask(RequestCode.DELETE_EXPIRED_COMMITLOG, None)
    doing.history.add(doing.name, f"has {act.on} delete old segments")


async def read_bounds(doing: Doing, act: Act) -> None:
    """Read where a queue begins and ends, and pull below its begin."""
    store, topic = doing.store(act.on), topic_of(act)
    since, queue = doing.ledger.since(act.on, topic), (act.on, topic, act.queue)
    known = doing.ledger.bounds.known(queue)
    least, end = await store.min_offset(topic, act.queue), await store.max_offset(topic, act.queue)
    pulled = await store.pull(pull_header(topic, act.queue, least - 1)) if least > 0 else None
    doing.history.add(doing.name, f"reads that {topic}/{act.queue} of {act.on} has {least} to {end}")
    if doing.ledger.since(act.on, topic) != since:
        return
    doing.ledger.bounds.read(queue, known, least, end)
    if pulled is not None and (pulled.code != ResponseCode.PULL_OFFSET_MOVED or pulled.next_offset < least):
        doing.violate(f"a pull below {least} of {queue} gets the code {pulled.code}, {pulled.next_offset}")


DELETE_OLD, READ_BOUNDS = "delete old", "read bounds"
OPERATIONS: dict[str, Operation] = {DELETE_OLD: delete_old, READ_BOUNDS: read_bounds}
