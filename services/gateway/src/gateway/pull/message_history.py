"""Collects the events of a message: its records by unique key in every topic, and what the stores know of each."""

import asyncio
from collections.abc import Callable, Iterable

from gantry_access.model.needs import TOPICS_OF_ALL
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.names import DLQ_PREFIX, RETRY_PREFIX
from gantry_wire.records.message_record import Record, scan_records
from gateway.http.problems import Problem
from gateway.messages.schemas import MessageOut, TimelineEvent, TimelineReply
from gateway.ports.histories import Histories
from gateway.ports.stores import Broker, PeerAway, Store, StoreRefused
from gateway.pull.queries import FOREVER_MS, Queries
from gateway.pull.timeline import (
    SYSTEM_TOPICS,
    belongs,
    in_order,
    origin_of,
    record_event,
    state_events,
)
from gateway.routing.fleet import Fleet, demand_all

GROUP_TOPICS_MAX = 1024
"""Maximum retry and dead-letter topics of one broker that are searched."""
RECORDS_MAX = 32
"""Maximum records of one topic with one unique key."""
AT_ONCE_MAX = 16
_NOTHING = frozenset(
    {ResponseCode.QUERY_NOT_FOUND, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
)


def topic_of_record(found: MessageOut) -> str:
    """Return the topic whose rights a record needs: of a delayed or half message the one to which it will be delivered.

    Only records of the system topics that hold such messages say so: in another topic the same property is a text of the sender.
    """
    noted = found.system_properties or {}
    return noted.get("REAL_TOPIC", found.topic) if found.topic in TOPICS_OF_ALL else found.topic


class MessageHistory:
    """Builds timelines."""

    def __init__(self, fleet: Fleet, queries: Queries, histories: Histories) -> None:
        self._fleet, self._queries, self._histories = fleet, queries, histories

    async def timeline(self, message_id: str, topic: str, check: Callable[[str], None]) -> TimelineReply:
        """Return the events of a message of a topic, by its unique id or the offset id of any of its records.

        Without `topic` the id must be an offset id. `check` raises the refusal of a client that may not see records of a topic: it gets
        the topic of the record that the id identifies, and the one whose events are shown. Raises 404 if nothing is known; brokers in
        `missing` could not be asked.
        """
        if not topic:
            found = await self._queries.by_id(message_id, "")
            check(topic_of_record(found))
            noted = found.system_properties or {}
            topic = noted.get("REAL_TOPIC") or noted.get("RETRY_TOPIC") or found.topic
            message_id = found.message_id
        check(topic)
        brokers, missing = await self._fleet.brokers()
        answers = await asyncio.gather(
            *(self._of_broker(broker, message_id, topic, check) for broker in brokers), return_exceptions=True
        )
        events: list[TimelineEvent] = []
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, PeerAway | StoreRefused | WireError):
                missing.append(broker.name)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                events += answer
        if not events:
            demand_all(missing, f"what happened to message {message_id} is not known")
            raise Problem(404, "QUERY_NOT_FOUND", f"topic {topic} has no message {message_id}", field="id")
        return TimelineReply(message_id, topic, in_order(events), sorted(set(missing)))

    async def _of_broker(
        self, broker: Broker, message_id: str, topic: str, check: Callable[[str], None]
    ) -> list[TimelineEvent]:
        store = self._fleet.store(broker)
        of_groups = [
            one.topic
            for one in await store.topics()
            if one.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) and one.topic != topic
        ]
        slots = asyncio.Semaphore(AT_ONCE_MAX)

        async def look(held: str) -> list[Record]:
            async with slots:
                return await _records(store, held, message_id)

        topics = (topic, *SYSTEM_TOPICS, *of_groups[:GROUP_TOPICS_MAX])
        parts = await asyncio.gather(*(look(held) for held in dict.fromkeys(topics)))
        records = [
            record
            for part in parts
            for record in part
            if belongs(record, topic) and _is_permitted(origin_of(record) or topic, check)
        ]
        events = [record_event(record, broker.name) for record in records]
        for more in await asyncio.gather(*(self._states(broker, record) for record in records)):
            events += more
        return events

    async def _states(self, broker: Broker, record: Record) -> Iterable[TimelineEvent]:
        topic = record.topic.decode(errors="replace")
        try:
            events = await self._histories.events(broker, topic, record.queue_id, record.queue_offset)
        except StoreRefused as error:
            if error.code in _NOTHING:
                return ()
            raise
        return state_events(record, broker.name, events)


def _is_permitted(topic: str, check: Callable[[str], None]) -> bool:
    """Return whether the client may see records of a topic: those of a group may come from another topic than the asked one."""
    try:
        check(topic)
    except Problem:
        return False
    return True


async def _records(store: Store, topic: str, message_id: str) -> list[Record]:
    """Return the records of a topic with this unique key."""
    try:
        data = await store.messages_by_key(topic, message_id, 0, FOREVER_MS, RECORDS_MAX, is_unique=True)
    except StoreRefused as error:
        if error.code in _NOTHING:
            return []
        raise
    return list(scan_records(data))
