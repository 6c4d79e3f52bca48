"""Begins a term with the index an earlier one left on disk, as far as the store's log confirms it.

The store reports what is decided; those rows are deleted. Undecided messages without a row are read again by the
queue readers. The first and last row of each queue are compared with the log. A log only loses its end, so if the
last row matches, all before it do. If anything differs, the file is rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from gantry_chassis.logs.structured import get_logger
from gantry_link.clients.store import StoreClient
from gantry_wire.errors import MalformedRecord
from gantry_wire.headers.messages import PullHeader
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import Entry, entry_of, queue_of, scan_items
from scheduler.index.kept_rows import Kept
from scheduler.index.known_offsets import KnownOffsets, QueueState
from scheduler.system_names import SCHEDULER_GROUP

FLAG_SUBSCRIPTION = 4

_log = get_logger()


async def resume(
    broker: str,
    store: StoreClient,
    due_queues: DueQueues,
    states: Mapping[int, QueueState],
    level_ms: Sequence[int],
) -> dict[int, KnownOffsets]:
    """Take the kept rows into the due queues; return the known offsets of each queue. Raises LinkError or BrokerRefused."""
    known = {source: KnownOffsets(state.settled) for source, state in states.items()}
    if not due_queues.far.is_old:
        return known
    kept = await due_queues.far.keep(states)
    if kept is None or not await _is_confirmed(store, kept, level_ms):
        _log.warning("the due index on disk does not match the store's log: rebuilding it", broker=broker)
        await due_queues.far.reset()
        return known
    due_queues.kept(kept.counts)
    known.update({source: KnownOffsets(one.known) for source, one in kept.queues.items()})
    _log.info("took over the due index", broker=broker, messages=sum(kept.counts.values()))
    return known


async def _is_confirmed(store: StoreClient, kept: Kept, level_ms: Sequence[int]) -> bool:
    found = await asyncio.gather(*(_read(store, entry, level_ms) for entry in kept.witnesses))
    return found == kept.witnesses


async def _read(store: StoreClient, entry: Entry, level_ms: Sequence[int]) -> Entry | None:
    """Return the current message at the offset of a row."""
    topic, queue_id = queue_of(entry.source)
    header = PullHeader(
        consumer_group=SCHEDULER_GROUP,
        topic=topic,
        queue_id=queue_id,
        queue_offset=entry.offset,
        max_msg_nums=1,
        sys_flag=FLAG_SUBSCRIPTION,
        subscription="*",
        wide=True,
        browse=True,
    )
    try:
        items = list(scan_items((await store.pull(header)).records))
    except MalformedRecord:
        return None
    return entry_of(items[0], entry.source, level_ms) if items else None
