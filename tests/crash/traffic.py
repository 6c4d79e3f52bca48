"""Producers that never stop: they send over remoting, report to the history, survive crashes of the store, and retry.

Half of the messages carry an idempotency key and are resent until they are acknowledged; the other half is sent once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field

from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import PullHeader, PullReplyHeader, SendHeaderV2, SendReplyHeader
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import scan_records

from .history import History

KEY_PROPERTY = "__GANTRY_KEY"
ANSWER_SECONDS_MAX = 30.0
PULL_BATCH_COUNT = 32
ACKNOWLEDGED_SECONDS_MAX = 120.0


class NoAnswer(Exception):
    """The connection closed or timed out: the outcome of the request is unknown."""


@dataclass
class Line:
    """One connection, one request at a time."""

    port: int
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None
    _decoder: FrameDecoder = field(default_factory=FrameDecoder)
    _opaques: itertools.count[int] = field(default_factory=itertools.count)

    async def call(self, code: int, header: SendHeaderV2 | PullHeader, body: bytes = b"") -> Command:
        """The store's response, with any code; NoAnswer if there is none."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                if self._writer is None:
                    self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
                    self._decoder = FrameDecoder()
                self._writer.write(encode_request(code, next(self._opaques), header, body))
                return await self._answer()
        except (OSError, TimeoutError) as error:
            self.close()
            raise NoAnswer(str(error)) from error

    async def _answer(self) -> Command:
        assert self._reader is not None
        while data := await self._reader.read(1 << 18):
            for raw in self._decoder.receive(data):
                command = decode_command(raw)
                if command.is_response:
                    return command
        raise ConnectionResetError("the store closed the connection")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


@dataclass
class Traffic:
    """`producers` connections to one store; runs until `stop` is called, across any number of crashes of the store."""

    port: int
    topic: str
    queue_count: int
    history: History
    producers: int = 8
    _stopping: bool = False
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def start(self, run: str) -> None:
        self._stopping = False
        self._tasks = [asyncio.ensure_future(self._produce(f"{run}-{n}", n)) for n in range(self.producers)]

    async def acknowledges(self, count: int) -> None:
        """Wait for this many more acknowledged sends, for as long as a slow machine needs."""
        enough = self.history.acknowledged + count
        async with asyncio.timeout(ACKNOWLEDGED_SECONDS_MAX):
            while self.history.acknowledged < enough:
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Wait until every keyed message is acknowledged, then stop."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def _produce(self, run: str, worker: int) -> None:
        line = Line(self.port)
        for number in itertools.count():
            if self._stopping:
                break
            keyed = number % 2 == 0
            name = f"{run}-{number}"
            self.history.attempt(name, keyed=keyed)
            await self._send(line, name, (worker + number) % self.queue_count, keyed=keyed)
        line.close()

    async def _send(self, line: Line, name: str, queue_id: int, *, keyed: bool) -> None:
        properties = {"KEYS": name, KEY_PROPERTY: name} if keyed else {"KEYS": name}
        header = SendHeaderV2(
            producer_group="crash",
            topic=self.topic,
            default_topic="TBW102",
            default_topic_queue_nums=self.queue_count,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=1,
            flag=0,
            properties=format_properties(properties).decode(),
        )
        while True:
            with contextlib.suppress(NoAnswer):
                answer = await line.call(RequestCode.SEND_MESSAGE_V2, header, name.encode())
                if answer.code == 0:
                    reply = answer.read(SendReplyHeader)
                    self.history.acknowledge(name, (self.topic, reply.queue_id, reply.queue_offset))
                    return
            if not keyed:
                return
            await asyncio.sleep(0.02)


async def read_everything(port: int, topic: str, queue_count: int, history: History) -> None:
    """Read each queue from its first offset to its end, and report each message's position to the history."""
    history.begin_reading()
    line = Line(port)
    for queue_id in range(queue_count):
        offset, end = 0, 1
        while offset < end:
            answer = await line.call(RequestCode.PULL_MESSAGE, _pull(topic, queue_id, offset))
            reply = answer.read(PullReplyHeader)
            for record in scan_records(answer.body):
                history.read(record.body.decode(), (topic, queue_id, record.queue_offset))
            if reply.next_begin_offset <= offset and reply.max_offset > offset:
                msg = f"queue {queue_id} makes no progress at {offset} of {reply.max_offset}: code {answer.code} {answer.remark}"
                raise AssertionError(msg)
            offset, end = reply.next_begin_offset, reply.max_offset
    line.close()


def _pull(topic: str, queue_id: int, offset: int) -> PullHeader:
    return PullHeader(
        consumer_group="crash-reader",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=PULL_BATCH_COUNT,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
