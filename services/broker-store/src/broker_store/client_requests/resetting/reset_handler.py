"""Request 222: sets a group's offsets in a topic, or in one of its queues, and makes its clients continue there.

By default as in RocketMQ 5.x: the store's own offsets change, durably, and each client gets the new one
with its next pull. With useServerSideResetOffset=false as before 5.x: the clients are notified (220) and
commit the new offsets themselves. Gantry adds `dryRun=true`, which returns the offsets and changes nothing,
and `givenAgain`, the number of messages that receivers with leases get again beyond their offset.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from broker_store.groups.clients import Client, ClientTable
from broker_store.groups.groups import GroupTable
from broker_store.groups.offset_keeper import OffsetKeeper
from broker_store.groups.offsets import OffsetTable
from broker_store.groups.pending_resets import PendingResets
from broker_store.ports import Commands, Peer, QueueTable, TopicTable
from broker_store.reading.pull_handler import Pulls
from broker_store.reading.queries.offset_search import Searching
from broker_store.reading.read_settings import ReadSettings
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_chassis.logs.structured import get_logger
from gantry_wire.bodies.clients import QueueOffset, ResetOffsetBody, ResetOffsetListBody
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.headers.admin import ResetOffsetHeader
from gantry_wire.headers.messages import ResetClientOffsetHeader
from gantry_wire.names import GATEWAY_GROUP

LATEST_MS = -1
"""A timestamp below 0 means the end of each queue."""
LANGUAGE_CPP = "CPP"
"""Clients that cannot parse objects as keys, and get a list."""

_log = get_logger()


@dataclass(frozen=True, slots=True, eq=False)
class Resetting:
    """Handles resets. Parts that keep more of a group's position than its offsets are notified by the offset keeper."""

    topics: TopicTable
    groups: GroupTable
    queues: QueueTable
    clients: ClientTable
    offsets: OffsetTable
    keeper: OffsetKeeper
    pulls: Pulls
    pending: PendingResets
    searching: Searching
    settings: ReadSettings
    deferred: DeferredReplies
    broker_name: str
    delivered_from: Callable[[str, str, int, int], int]
    """Returns how many messages a group gets again in a queue from an offset on, beyond its lag."""

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ("adminBroker", self.reset)}

    def reset(self, peer: Peer, command: Command) -> None:
        """Handle 222: reset offsets. Answers when they are durable."""
        header = command.read(ResetOffsetHeader)
        self._check(header)
        self.deferred.answer(peer, command, self._reset(header, command))

    def _check(self, header: ResetOffsetHeader) -> None:
        topic, group = header.topic, header.group
        config = self.topics.find(topic)
        if config is None:
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        if self.groups.find(group) is None or group == GATEWAY_GROUP:
            remark = f"Group {group} does not exist"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if header.queue_id >= config.read_queue_nums:
            remark = (
                f"queueId {header.queue_id} of {topic} does not exist: it has {config.read_queue_nums} queues"
            )
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)

    async def _reset(self, header: ResetOffsetHeader, command: Command) -> bytes:
        targets = await self._targets(header)
        self._check(header)  # the topic or the group may be gone: offsets would come back with it
        delivered_from = self.delivered_from
        again = sum(delivered_from(header.group, header.topic, *target) for target in targets.items())
        if header.dry_run:
            return self._answer(header, command, targets, again)
        if self.settings.server_side_reset:
            await self._assign(header.group, header.topic, targets)
        else:
            targets, again = self._push(header, targets), 0
        return self._answer(header, command, targets, again)

    async def _targets(self, header: ResetOffsetHeader) -> dict[int, int]:
        """Return the new offset by queue. Raises RefusedRequest for an offset outside the queue."""
        topic, queue_id = header.topic, header.queue_id
        if queue_id >= 0 and header.offset is not None and header.offset != -1:
            queue = self.queues.find(topic, queue_id)
            low, high = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
            if not low <= header.offset <= high:
                remark = f"Target offset {header.offset} not in consume queue range [{low}-{high}]"
                raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)
            return {queue_id: header.offset}
        config = self.topics.find(topic)
        count = 0 if config is None else config.read_queue_nums
        chosen = [queue_id] if queue_id >= 0 else range(count)
        return {number: await self._offset_at(topic, number, header.timestamp) for number in chosen}

    async def _offset_at(self, topic: str, queue_id: int, time_ms: int) -> int:
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return 0
        if time_ms <= LATEST_MS:
            return queue.max_offset
        return await self.searching.offset_at(queue, time_ms, upper=False)

    async def _assign(self, group: str, topic: str, targets: dict[int, int]) -> None:
        """Set the offsets. Connected clients get them with their next pull; held pulls are answered now."""
        is_online = group in self.clients.consumers
        durable = [self._commit(group, topic, queue_id, offset) for queue_id, offset in targets.items()]
        for queue_id, offset in targets.items():
            if is_online:
                self.pending.assign(group, topic, queue_id, offset)
        self.pulls.group_reset(topic, group)
        await asyncio.gather(*durable)
        _log.info("offsets reset", group=group, topic=topic, queues=len(targets), online=is_online)

    def _commit(self, group: str, topic: str, queue_id: int, offset: int) -> "asyncio.Future[None]":
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answer(error: OSError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                remark = f"offsets are set but not durable, reset them again: {error}"
                done.set_exception(RefusedRequest(ResponseCode.SYSTEM_ERROR, remark))

        self.keeper.commit(group, topic, queue_id, offset, answer)
        return done

    def _push(self, header: ResetOffsetHeader, targets: dict[int, int]) -> dict[int, int]:
        """Notify the group's clients (220). Without force no queue moves forward. Returns the offsets sent."""
        group, topic = header.group, header.topic
        new_offsets: dict[int, int] = {}
        for queue_id, offset in targets.items():
            known = self.offsets.find(group, topic, queue_id)
            if known is None:
                raise RefusedRequest(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{group}> not exist")
            new_offsets[queue_id] = offset if header.is_force or offset < known else known
        entry = self.clients.consumers.get(group)
        if entry is None:
            remark = (
                f"Consumer not online, so can not reset online client offset: group {group}, topic {topic}"
            )
            raise RefusedRequest(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        for client in entry.clients.values():
            client.peer.send(self._order(client, header, new_offsets))
        return new_offsets

    def _order(self, client: Client, header: ResetOffsetHeader, new_offsets: dict[int, int]) -> bytes:
        fields = ResetClientOffsetHeader(
            topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=header.is_force
        )
        name = self.broker_name
        if client.language == LANGUAGE_CPP:
            body = ResetOffsetListBody(
                offset_table=[
                    QueueOffset(broker_name=name, offset=offset, queue_id=queue_id, topic=header.topic)
                    for queue_id, offset in new_offsets.items()
                ]
            )
            return _oneway(fields, encode_body(body))
        return _oneway(fields, encode_body(self._table(header.topic, new_offsets)))

    def _answer(
        self, header: ResetOffsetHeader, command: Command, targets: dict[int, int], again: int
    ) -> bytes:
        body = self._table(header.topic, targets)
        body.given_again = again or None
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    def _table(self, topic: str, offsets: dict[int, int]) -> ResetOffsetBody:
        name = self.broker_name
        return ResetOffsetBody(
            offset_table={
                MessageQueue(broker_name=name, queue_id=queue_id, topic=topic): offset
                for queue_id, offset in offsets.items()
            }
        )


def _oneway(header: ResetClientOffsetHeader, body: bytes) -> bytes:
    return encode_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, 0, header, body, oneway=True)
