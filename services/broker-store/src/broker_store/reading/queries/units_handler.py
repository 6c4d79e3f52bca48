"""Request 321: raw units of a queue, and whether a group's filter passes them. For tools. Never changes anything."""

from dataclasses import dataclass

import msgspec

from broker_store.filters.table import FilterTable
from broker_store.groups.clients import ClientTable
from broker_store.ports import Commands, Peer, QueueReader, QueueTable, TopicTable
from broker_store.reading.pull_admission import tag_filter_of
from gantry_wire.bodies.admin import ConsumeQueueData, QueryConsumeQueueResponseBody
from gantry_wire.bodies.clients import SubscriptionData
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import QueryConsumeQueueHeader
from gantry_wire.records.units import CONSUME_QUEUE_UNIT
from gantry_wire.subscription import TAG

UNITS_MAX = 4096
"""Most units per answer. RocketMQ sets no bound."""


@dataclass(frozen=True, slots=True)
class UnitHandlers:
    """Shows queues for diagnosis."""

    topics: TopicTable
    queues: QueueTable
    clients: ClientTable
    filters: FilterTable

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {RequestCode.QUERY_CONSUME_QUEUE: ("adminBroker", self.units)}

    def units(self, _peer: Peer, command: Command) -> bytes:
        """Handle 321: up to `count` units of a queue from offset `index` on."""
        header = command.read(QueryConsumeQueueHeader)
        topic, queue_id = header.topic or "", header.queue_id or 0
        config = self.topics.find(topic)
        if (
            config is None
            or self.topics.is_internal(topic)
            or not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums)
        ):
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        queue = self.queues.find(topic, queue_id)
        body = QueryConsumeQueueResponseBody(
            min_queue_index=0 if queue is None else queue.min_offset,
            max_queue_index=0 if queue is None else queue.max_offset,
        )
        if header.consumer_group:
            self._add_filter(body, header.consumer_group, topic)
        remark = None
        index, count = header.index or 0, min(header.count or 0, UNITS_MAX)
        if queue is None or not queue.min_offset <= index < queue.max_offset:
            remark = f"Index {index} of {queue_id}@{topic} is not exist!"
        else:
            body.queue_data = _read(queue, index, count, body.subscription_data)
        return encode_response(ResponseCode.SUCCESS, command.opaque, remark=remark, body=encode_body(body))

    def _add_filter(self, body: QueryConsumeQueueResponseBody, group: str, topic: str) -> None:
        entry = self.clients.consumers.get(group)
        body.subscription_data = None if entry is None else entry.subscriptions.get(topic)
        if body.subscription_data is None:
            body.filter_data = f"{group}@{topic} is not online!"
            return
        data = self.filters.find(topic, group)
        body.filter_data = msgspec.json.encode(data).decode()


def _read(
    queue: QueueReader, index: int, count: int, subscription: SubscriptionData | None
) -> list[ConsumeQueueData]:
    """Return units from an offset on. `eval` says whether a tag subscription passes the unit."""
    wanted = None if subscription is None or subscription.expression_type != TAG else subscription.sub_string
    tags = None if wanted is None else tag_filter_of(wanted)
    found: list[ConsumeQueueData] = []
    while len(found) < count:
        units = queue.read(index + len(found), count - len(found))
        if not units:
            break
        for position, size, code in CONSUME_QUEUE_UNIT.iter_unpack(units):
            passes = tags is not None and tags.matches(code)
            found.append(
                ConsumeQueueData(physic_offset=position, physic_size=size, tags_code=code, eval=passes)
            )
    return found
