"""Answers to our requests: brokers push them (326), each goes to who waits for its correlation id."""

from __future__ import annotations

import asyncio
import logging
import uuid

from gantry.connection.pushes import PushReply
from gantry.errors import TimedOut
from gantry.message import ReceivedMessage
from gantry_link.connection import split_address
from gantry_link.errors import LinkError
from gantry_wire.frame import Command
from gantry_wire.headers import PushReplyHeader
from gantry_wire.ids import pack_host
from gantry_wire.properties import CORRELATION_ID
from gantry_wire.record import MAGIC_V1, Record

log: logging.Logger = logging.getLogger("gantry")
Reply = ReceivedMessage
"""The answer of a consumer. It lies in no queue: its offset and position mean nothing."""


class PendingReply:
    """One request that waits for its answer."""

    __slots__ = ("_answer", "_replies", "_topic", "correlation_id")

    def __init__(self, replies: Replies, topic: str) -> None:
        self.correlation_id: str = str(uuid.uuid4())
        self._replies = replies
        self._topic = topic
        self._answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    async def wait(self, seconds: float) -> Reply:
        """Return the answer; TimedOut when there is none within the time."""
        try:
            async with asyncio.timeout(max(seconds, 0)):
                return await self._answer
        except TimeoutError:
            raise TimedOut(
                f"no answer to the request to topic {self._topic} within its time: "
                "the message is stored, but no consumer has answered it",
                sent=True,
            ) from None

    def take(self, reply: Reply) -> None:
        """Hear the answer; of several, the first counts."""
        if not self._answer.done():
            self._answer.set_result(reply)

    def forget(self) -> None:
        """Wait no longer."""
        self._replies.forget(self.correlation_id)


class Replies:
    """All requests of one client that wait."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._waiting: dict[str, PendingReply] = {}

    def expect(self, topic: str) -> PendingReply:
        """Start waiting; to be forgotten by who asked."""
        pending = PendingReply(self, topic)
        self._waiting[pending.correlation_id] = pending
        return pending

    def forget(self, correlation_id: str) -> None:
        """Stop waiting for an answer."""
        self._waiting.pop(correlation_id, None)

    def receive(self, command: Command, address: str) -> PushReply:
        """326: hand an answer over. One nobody waits for any more is taken all the same."""
        reply = Reply(_record(command), "", namespace=self._namespace)
        pending = self._waiting.get(reply.properties.get(CORRELATION_ID, ""))
        if pending is None:
            log.info("%s brings the answer to a request nobody waits for any more", address)
        else:
            pending.take(reply)
        return PushReply()


def _record(command: Command) -> Record:
    """Return a pushed answer as a record."""
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
    """`ip:port`, with a slash in front where Java wrote it."""
    try:
        return pack_host(*split_address(text.rpartition("/")[2]))
    except (LinkError, ValueError):
        return pack_host("0.0.0.0", 0)  # noqa: S104 - an address nobody knows
