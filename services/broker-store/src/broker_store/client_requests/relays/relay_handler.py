"""Requests 223, 307 and 309: relays a tool's request to a consumer. The client gets the tool's fields and body, the tool its answer.

RocketMQ refuses clients below 3.1.8 at once. Here the request is sent to them too, and times out if they do
not know it.
"""

import asyncio
from dataclasses import dataclass

from broker_store.client_requests.relays.client_calls import RELAY_SECONDS, Fields, ask_client
from broker_store.groups.clients import Client, ClientTable
from broker_store.log.errors import LogError
from broker_store.ports import Commands, InThread, LogReader, Peer, TopicTable
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.bodies.clients import GetConsumerStatusBody
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import MalformedMessageId, RefusedRequest, WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import ConsumerStatusHeader
from gantry_wire.headers.messages import ConsumeDirectlyHeader, ConsumerRunningInfoHeader
from gantry_wire.messages.ids import parse_offset_message_id
from gantry_wire.records.message_record import decode_record

STATUS_SECONDS = 5.0
"""Longest wait for each client of a group to send its offsets."""


@dataclass(frozen=True, slots=True, eq=False)
class Relays:
    """Relays requests. Each waits in the class of admin requests, which bounds them."""

    clients: ClientTable
    topics: TopicTable
    log: LogReader
    in_thread: InThread
    deferred: DeferredReplies
    broker_name: str

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ("adminBroker", self.status),
            RequestCode.GET_CONSUMER_RUNNING_INFO: ("adminBroker", self.running_info),
            RequestCode.CONSUME_MESSAGE_DIRECTLY: ("adminBroker", self.consume_directly),
        }

    def running_info(self, peer: Peer, command: Command) -> None:
        """Handle 307: a client's running info."""
        header = command.read(ConsumerRunningInfoHeader)
        client = self._client(header.consumer_group, header.client_id)
        self.deferred.answer(peer, command, self._relay(client, command, command.ext, b""))

    def consume_directly(self, peer: Peer, command: Command) -> None:
        """Handle 309: let one client consume one message now, whatever its offsets are."""
        header = command.read(ConsumeDirectlyHeader)
        client = self._client(header.consumer_group, header.client_id or "")
        self.deferred.answer(peer, command, self._consume(client, command, header))

    def status(self, peer: Peer, command: Command) -> None:
        """Handle 223: the offsets of a group's clients in a topic (221 to each of them)."""
        header = command.read(ConsumerStatusHeader)
        entry = self.clients.consumers.get(header.group)
        if entry is None:
            remark = f"No Any Consumer online in the consumer group: [{header.group}]"
            raise RefusedRequest(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        wanted = header.client_addr
        chosen = [client for client in entry.clients.values() if not wanted or client.client_id == wanted]
        self.deferred.answer(peer, command, self._status(chosen, header, command.opaque))

    def _client(self, group: str, client_id: str) -> Client:
        entry = self.clients.consumers.get(group)
        client = None if entry is None else entry.find(client_id)
        if client is None:
            remark = f"The Consumer <{group}> <{client_id}> not online"
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark)
        return client

    async def _relay(self, client: Client, command: Command, fields: Fields, body: bytes) -> bytes:
        answer = await ask_client(client, command.code, fields, body, RELAY_SECONDS)
        return encode_response(answer.code, command.opaque, answer.ext, answer.body, remark=answer.remark)

    async def _consume(self, client: Client, command: Command, header: ConsumeDirectlyHeader) -> bytes:
        record = await self._record(header.msg_id or "")
        fields = {**command.ext, "brokerName": self.broker_name}
        config = self.topics.find(decode_record(record, check_crc=False).topic.decode())
        if config is not None:
            fields["topicSysFlag"] = str(config.topic_sys_flag)
        return await self._relay(client, command, fields, record)

    async def _record(self, message_id: str) -> bytes:
        try:
            _, _, position = parse_offset_message_id(message_id)
            return await self.in_thread(self.log.read_record, position)
        except (MalformedMessageId, LogError) as error:
            remark = f"no message has the offset message id {message_id[:64]!r} here: {error}"
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark) from error

    async def _status(self, clients: list[Client], header: ConsumerStatusHeader, opaque: int) -> bytes:
        """Query all clients at once. A client that does not answer is left out, as in RocketMQ."""
        fields = {"topic": header.topic, "group": header.group, "clientAddr": header.client_addr or ""}
        answers = await asyncio.gather(*(self._offsets(client, fields) for client in clients))
        table = {
            client.client_id: offsets
            for client, offsets in zip(clients, answers, strict=True)
            if offsets is not None
        }
        body = encode_body(GetConsumerStatusBody(consumer_table=table))
        return encode_response(ResponseCode.SUCCESS, opaque, body=body)

    async def _offsets(self, client: Client, fields: Fields) -> dict[MessageQueue, int] | None:
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        try:
            answer = await ask_client(client, code, fields, seconds=STATUS_SECONDS)
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                return None
            return decode_body(answer.body, GetConsumerStatusBody).message_queue_table
        except WireError:
            return None
