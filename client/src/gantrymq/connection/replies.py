"""Replies to our requests: brokers push them (326), and each goes to the waiter of its correlation id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

from gantry_link.connections.connection import split_address
from gantry_link.errors import LinkError
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import PushReplyHeader
from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import CORRELATION_ID
from gantry_wire.records.message_record import MAGIC_V1, Record
from gantrymq.connection.pushes import PushReply
from gantrymq.errors import TimedOut
from gantrymq.message import ReceivedMessage

log: logging.Logger = logging.getLogger("gantrymq")
Reply = ReceivedMessage
"""A consumer's reply. It is in no queue: its offset and position have no meaning."""


class PendingReply:
    """A request that waits for its reply."""

    __slots__ = ("_answer", "_replies", "_topic", "correlation_id")

    def __init__(self, replies: Replies, topic: str, correlation_id: str) -> None:
        self.correlation_id: str = correlation_id
        self._replies = replies
        self._topic = topic
        self._answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    async def wait(self, seconds: float) -> Reply:
        """Return the reply; TimedOut if none comes within the time."""
        try:
            async with asyncio.timeout(max(seconds, 0)):
                return await self._answer
        except TimeoutError:
            raise TimedOut(
                f"no reply to the request to topic {self._topic} within its time: "
                "the message is stored, but no consumer has answered it",
                sent=True,
            ) from None

    def take(self, reply: Reply) -> None:
        """Take the reply; of several, the first counts."""
        if not self._answer.done():
            self._answer.set_result(reply)

    def forget(self) -> None:
        """Stop waiting."""
        self._replies.forget(self.correlation_id)


class Replies:
    """All waiting requests of a client."""

    def __init__(self, namespace: str, secret_bytes: Callable[[int], bytes]) -> None:
        """`secret_bytes` returns this many unpredictable bytes, for correlation ids."""
        self._secret_bytes = secret_bytes
        self._namespace = namespace
        self._waiting: dict[str, PendingReply] = {}

    def expect(self, topic: str) -> PendingReply:
        """Start waiting; the caller must call `forget`."""
        pending = PendingReply(self, topic, str(UUID(bytes=self._secret_bytes(16), version=4)))
        self._waiting[pending.correlation_id] = pending
        return pending

    def forget(self, correlation_id: str) -> None:
        """Stop waiting for a reply."""
        self._waiting.pop(correlation_id, None)

    def receive(self, command: Command, address: str) -> PushReply:
        """Deliver a reply (326). One without a waiter is accepted too."""
        reply = Reply(_record(command), "", namespace=self._namespace)
        pending = self._waiting.get(reply.properties.get(CORRELATION_ID, ""))
        if pending is None:
            log.info("%s sent a reply to a request that no longer waits", address)
        else:
            pending.take(reply)
        return PushReply()


def _record(command: Command) -> Record:
    """Return a pushed reply as a record."""
    header = command.read(PushReplyHeader)
    return Record(
        size=0,
        magic=MAGIC_V1,
        body_crc=0,
        queue_id=header.queue_id,
        flag=header.flag,
        queue_offset=-1,
        position=-1,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host=_host(header.born_host),
        store_timestamp=header.store_timestamp,
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
        prepared_position=0,
        body=command.body,
        topic=header.topic.encode(),
        properties=(header.properties or "").encode(),
    )


def _host(text: str) -> bytes:
    """Return the host of `ip:port`; Java writes a slash in front."""
    try:
        return pack_host(*split_address(text.rpartition("/")[2]))
    except (LinkError, ValueError):
        return pack_host("0.0.0.0", 0)  # noqa: S104 - an unknown address
