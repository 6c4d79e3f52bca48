"""Begins a term with the index that an earlier one left on disk, as far as the store's log confirms it.

The store says what is decided; rows of that go. What is undecided and has no row is read again by whoever follows the queues. That
a row still is the message at its offset is seen at the first and the last row of each queue: a log only loses its end, so where the
last is as it was, all before it is. Whatever does not fit, the file is begun anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from gantry_chassis.logs import get_logger
from gantry_link.store_client import StoreClient
from gantry_wire.errors import MalformedRecord
from gantry_wire.headers import PullHeader
from scheduler.entries import Entry, entry_of, queue_of, scan_items
from scheduler.kept_rows import Kept
from scheduler.known_offsets import KnownOffsets, QueueState
from scheduler.lanes import Lanes
from scheduler.system_names import SCHEDULER_GROUP

FLAG_SUBSCRIPTION = 4

_log = get_logger()


async def resume(
    broker: str,
    store: StoreClient,
    lanes: Lanes,
    states: Mapping[int, QueueState],
    level_ms: Sequence[int],
) -> dict[int, KnownOffsets]:
    """Take what was kept into the lanes; return what needs not be read of each queue. Raises LinkError or BrokerRefused."""
    known = {source: KnownOffsets(state.settled) for source, state in states.items()}
    if not lanes.far.is_old:
        return known
    kept = await lanes.far.keep(states)
    if kept is None or not await _is_confirmed(store, kept, level_ms):
        _log.warning("the due index on disk does not fit the store's log: made anew", broker=broker)
        await lanes.far.start_anew()
        return known
    lanes.kept(kept.counts)
    known.update({source: KnownOffsets(one.known) for source, one in kept.queues.items()})
    _log.info("due index taken over", broker=broker, messages=sum(kept.counts.values()))
    return known


async def _is_confirmed(store: StoreClient, kept: Kept, level_ms: Sequence[int]) -> bool:
    found = await asyncio.gather(*(_read(store, entry, level_ms) for entry in kept.witnesses))
    return found == kept.witnesses


async def _read(store: StoreClient, entry: Entry, level_ms: Sequence[int]) -> Entry | None:
    """Return what lies at the offset of a row now."""
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
