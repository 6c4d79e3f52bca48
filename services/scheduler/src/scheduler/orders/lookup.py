"""Finds delayed messages of one store by id: in the due queues, else in the log, which also has decided and unread ones."""

from __future__ import annotations

import asyncio

from gantry_link.errors import BrokerRefused
from gantry_wire.errors import MalformedRecord, WireError
from gantry_wire.headers.messages import QueryMessageHeader
from gantry_wire.limits import INT64_MAX
from gantry_wire.messages.ids import parse_offset_message_id
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.records.message_record import Record, decode_record, scan_records
from scheduler.index.entries import COPIES_MAX, Entry, entry_of, source_of
from scheduler.system_names import PARKED_TOPIC
from scheduler.terms.term import Term


async def find_waiting(term: Term, message_id: str, topic: str | None) -> list[Entry]:
    """Return the waiting messages with an id, as far as the index was read."""
    found = await term.due_queues.find(message_id.encode())
    return [entry for entry in found if topic in (None, entry.topic)]


async def find_stored(term: Term, message_id: str, topic: str | None) -> list[Entry]:
    """Return the messages with an id in the store's system queues, decided or not. Raises LinkError or BrokerRefused."""
    records = [
        record
        for found in await asyncio.gather(*(_by_key(term, name, message_id) for name in _TOPICS))
        for record in found
    ]
    if not records:
        records = await _by_position(term, message_id)
    entries = (_entry(term, record) for record in records)
    return [entry for entry in entries if entry is not None and topic in (None, entry.topic)]


async def was_delivered(term: Term, entry: Entry) -> bool:
    """Return whether a message lies in its own topic. Raises LinkError or BrokerRefused."""
    return bool(await _by_key(term, entry.topic, entry.uniq.decode("utf-8", "replace")))


_TOPICS = (TIMER_TOPIC, SCHEDULE_TOPIC, PARKED_TOPIC)


async def _by_key(term: Term, system_topic: str, message_id: str) -> list[Record]:
    header = QueryMessageHeader(
        topic=system_topic,
        key=message_id,
        max_num=COPIES_MAX,
        begin_timestamp=0,
        end_timestamp=INT64_MAX,
        unique_key_query=True,
    )
    return list(scan_records(await term.client.query_messages(header)))


async def _by_position(term: Term, message_id: str) -> list[Record]:
    """Return the record an offset message id names."""
    try:
        _, _, position = parse_offset_message_id(message_id)
    except (ValueError, WireError):
        return []
    try:
        record = decode_record(await term.client.view_message(position))
    except (BrokerRefused, MalformedRecord):
        return []
    return [record] if record.message_id == message_id else []


def _entry(term: Term, record: Record) -> Entry | None:
    source = source_of(record.topic.decode("utf-8", "replace"), record.queue_id)
    if source is None or source not in term.catching_up.sources:
        return None
    raw = record.queue_offset, record.position, record.store_timestamp, record.properties
    entry = entry_of(raw, source, term.level_ms)
    return None if entry.cancels else entry
