"""Requests 324 and 325: sends a reply to the client that made the request (326), and stores it in the cluster's reply topic.

As in RocketMQ, the client's answer decides the code, not the storing. The answer names where the reply is
stored. The request itself was a plain message: only its properties (CORRELATION_ID, REPLY_TO_CLIENT, TTL)
mark it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from broker_store.client_requests.relays.client_calls import ask_client
from broker_store.commit.appends import Appends
from broker_store.commit.message import Message
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import RecordWriter
from broker_store.commit.stamp import Stamp
from broker_store.commit.targets import Target, Targets
from broker_store.groups.clients import ClientTable
from broker_store.ports import Commands, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_chassis.logs.structured import get_logger
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.messages import PushReplyHeader, SendHeader, SendHeaderV2
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.ids import offset_message_id, pack_host, unpack_host
from gantry_wire.messages.properties import (
    KEYS,
    MSG_REGION,
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    TAGS,
    TRACE_ON,
    format_properties,
    parse_properties,
    tags_code,
)
from gantry_wire.names import REPLY_TOPIC_SUFFIX

_log = get_logger()
_ECHOED = (MSG_REGION, TRACE_ON)
"""Added to a reply, and returned to its sender."""


class ReplySettings(Protocol):
    """Settings of replies."""

    @property
    def store_replies(self) -> bool:
        """Whether replies are stored in the reply topic."""
        ...


class _Reply(NamedTuple):
    """A reply in flight."""

    header: SendHeader
    queue_id: int
    properties: dict[str, str]
    body: bytes


class _KeptReply(Message):
    """A reply on the way into the reply topic."""

    __slots__ = ("stored_at",)

    def __init__(self, *fields: Any) -> None:
        super().__init__(*fields)
        self.stored_at: asyncio.Future[dict[str, str] | None] = asyncio.get_running_loop().create_future()
        """Its place, for its sender. None when it was refused."""

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        del code  # a late flush does not matter: the reply is delivered
        place = {"msgId": offset_message_id(at.store_host, self.position)}
        place |= {"queueId": str(self.queue.queue_id), "queueOffset": str(self.offset)}
        self._finish(place)

    def refuse(self, refusal: RefusedRequest) -> None:
        _log.warning("a reply is not stored", topic=self.queue.topic, reason=str(refusal))
        self._finish(None)

    def _finish(self, place: dict[str, str] | None) -> None:
        if not self.stored_at.done():
            self.stored_at.set_result(place)


@dataclass(frozen=True, slots=True, eq=False)
class Replies:
    """Handles replies. Those in flight wait in the class of replies, which bounds them."""

    clients: ClientTable
    targets: Targets
    appends: Appends
    stamp: Stamp
    settings: ReplySettings
    deferred: DeferredReplies
    now_ms: Callable[[], int]
    body_bytes_max: int

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.SEND_REPLY_MESSAGE: ("reply", self.reply),
            RequestCode.SEND_REPLY_MESSAGE_V2: ("reply", self.reply),
        }

    def reply(self, peer: Peer, command: Command) -> None:
        """Handle 324 and 325: push a reply. Answers when the client has accepted it, or has not."""
        is_short = command.code == RequestCode.SEND_REPLY_MESSAGE_V2
        header = command.read(SendHeaderV2 if is_short else SendHeader)
        if len(command.body) > self.body_bytes_max:
            remark = f"the reply has {len(command.body)} bytes, the limit is {self.body_bytes_max}"
            raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, remark)
        _check_reply_topic(header.topic)
        _target, queue = self._place(header, header.queue_id, peer.remote)
        reply = _Reply(header, queue.queue_id, parse_properties(header.properties or ""), command.body)
        self.deferred.answer(peer, command, self._deliver(peer, command.opaque, reply))

    def _place(self, header: SendHeader, queue_id: int, remote: tuple[str, int]) -> tuple[Target, Queue]:
        """Return the topic of a reply and its queue as they are now. Raises RefusedRequest or IllegalName."""
        target = self.targets.known.get(header.topic) or self.targets.admit(header, remote)
        return target, self.targets.queue(target, queue_id, remote)

    async def _deliver(self, peer: Peer, opaque: int, reply: _Reply) -> bytes:
        nowhere = {"msgId": "0", "queueId": str(reply.queue_id), "queueOffset": "0"}
        try:
            await self._push(peer, reply)
        except RefusedRequest as refusal:
            self._store(peer, reply)
            return encode_response(refusal.code, opaque, nowhere, remark=refusal.remark)
        kept = self._store(peer, reply)
        place = (await kept.stored_at) if kept is not None else None
        fields = (place or nowhere) | {name: reply.properties[name] for name in _ECHOED}
        return encode_response(ResponseCode.SUCCESS, opaque, fields)

    async def _push(self, peer: Peer, reply: _Reply) -> None:
        """Push the reply to the client that made the request. Raises SYSTEM_ERROR when it did not accept it."""
        client_id = reply.properties.get(REPLY_TO_CLIENT)
        if client_id is None:
            raise _failed(f"reply message properties[{REPLY_TO_CLIENT}] is null")
        client = self.clients.find_producer(client_id)
        if client is None:
            raise _failed(f"push reply message fail, channel of <{client_id}> not found.")
        fields = self._push_header(peer, reply).to_fields()
        try:
            answer = await ask_client(client, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, reply.body)
        except RefusedRequest as error:
            raise _failed(f"push reply message to {client_id}fail.") from error
        if answer.code != ResponseCode.SUCCESS:
            raise _failed(f"push reply message to {client_id}fail.")

    def _push_header(self, peer: Peer, reply: _Reply) -> PushReplyHeader:
        header, now_ms = reply.header, self.now_ms()
        added = parse_properties(self.stamp.suffix.decode())
        for name in _ECHOED:
            reply.properties.setdefault(name, added[name])
        reply.properties[PUSH_REPLY_TIME] = str(now_ms)
        host, port = peer.remote
        store_host, store_port = unpack_host(self.appends.store_host)
        return PushReplyHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=reply.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=format_properties(reply.properties).decode(),
            reconsume_times=header.reconsume_times or 0,
            unit_mode=bool(header.unit_mode),
            born_host=f"{host}:{port}",
            store_host=f"{store_host}:{store_port}",
            store_timestamp=now_ms,
        )

    def _store(self, peer: Peer, reply: _Reply) -> _KeptReply | None:
        """Store the reply in its topic. The result is its place. A full disk is not reported."""
        header = reply.header
        if not self.settings.store_replies:
            return None
        raw, unique_key = self.stamp.finish_bytes(format_properties(reply.properties), reply.properties)
        if len(raw) > PROPERTIES_BYTES_MAX:
            _log.warning("a reply is not stored: its properties are too long", topic=header.topic)
            return None
        tag = reply.properties.get(TAGS)
        try:
            # The topic may have been deleted since: its queue of then would give offsets that are used again.
            target, queue = self._place(header, reply.queue_id, peer.remote)
        except WireError as error:
            _log.warning("a reply is not stored", topic=header.topic, reason=str(error))
            return None
        message = _KeptReply(
            queue, reply.body, raw, tags_code(tag) if tag else 0, unique_key,
            reply.properties.get(KEYS), target.mode, None, 0, header.flag, 0, header.born_timestamp,
            pack_host(*peer.remote), header.reconsume_times or 0,
        )  # fmt: skip
        try:
            self.appends.submit(message, len(reply.body))
        except WireError as error:
            _log.warning("a reply is not stored", topic=header.topic, reason=str(error))
            return None
        return message


def _check_reply_topic(topic: str) -> None:
    """Raise NO_PERMISSION for a topic that holds no replies: send requests check more than this one."""
    if not topic.endswith(f"_{REPLY_TOPIC_SUFFIX}"):
        remark = f"a reply topic is named <cluster>_{REPLY_TOPIC_SUFFIX}, not {topic}: use a send request"
        raise RefusedRequest(ResponseCode.NO_PERMISSION, remark)


def _failed(remark: str) -> RefusedRequest:
    return RefusedRequest(ResponseCode.SYSTEM_ERROR, remark)
