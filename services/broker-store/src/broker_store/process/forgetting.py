"""Forgets what points into deleted segments: units of queues, keys of the index."""

import asyncio

from broker_store.opening.opened_store import OpenedStore

QUEUES_PER_SLICE = 16


async def forget_before(store: OpenedStore, minimum: int) -> None:
    """Delete the entries of queues and index below the log's first position, some queues in each turn of the loop."""
    queues = list(store.queues.all())
    for first in range(0, len(queues), QUEUES_PER_SLICE):
        for queue in queues[first : first + QUEUES_PER_SLICE]:
            queue.units.delete_before(minimum)
        await asyncio.sleep(0)
    if store.index is not None:
        store.index.delete_before(minimum)
    store.queues.note_cut(minimum)
    store.events.log_cut()
