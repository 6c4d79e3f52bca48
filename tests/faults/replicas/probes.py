"""Clients of each replica, beside the load: who acknowledges, how long nobody does, who holds the lease, where committed offsets are.

Each replica gets sends all the time, whether it leads or not: a replica that should not acknowledge is asked to.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from gantry_loadtest.mixed.calling import Http
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import (
    QueryConsumerOffsetHeader,
    SendHeaderV2,
    SendReplyHeader,
    UpdateConsumerOffsetHeader,
)

from .group import NAMES

if TYPE_CHECKING:
    from .group import Group

TOPIC, GROUP = "mixed-direct", "mixed-direct-reader"
ANSWER_SECONDS_MAX = 1.0
PAUSE_SECONDS, REFUSED_SECONDS = 0.01, 0.04
LOOK_SECONDS = 0.1


class Acknowledged(NamedTuple):
    """One acknowledged send of a probe. Times are of the steady clock."""

    replica: str
    name: str
    sent: float
    at: float
    queue_offset: int
    position: int
    """In the CommitLog."""


class Look(NamedTuple):
    """What a replica said of itself between two moments."""

    replica: str
    began: float
    ended: float
    view: dict[str, Any]


class Commit(NamedTuple):
    """A committed offset that was answered."""

    offset: int
    at: float


class Query(NamedTuple):
    """An offset that a leader answered."""

    replica: str
    offset: int
    began: float


@dataclass
class Seen:
    """What the probes saw."""

    attempted: set[str] = field(default_factory=set[str])
    acknowledged: list[Acknowledged] = field(default_factory=list[Acknowledged])
    looks: list[Look] = field(default_factory=list[Look])
    commits: list[Commit] = field(default_factory=list[Commit])
    queries: list[Query] = field(default_factory=list[Query])
    over_http: list[float] = field(default_factory=list[float])
    """When the gateway acknowledged a send."""
    wall_offset_s: float = field(default_factory=lambda: time.time() - time.monotonic())
    """Wall time is the steady clock and this: the machine's clock stays right."""


class Probes:
    """The threads of the probes."""

    def __init__(self, system: Group) -> None:
        self.seen = Seen()
        self._system = system
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=work, args=words, daemon=True, name=work.__name__)
            for work, *words in (
                (self._send_all,), (self._send_over_http,), *((self._look, name) for name in NAMES)
            )
        ]  # fmt: skip
        self._failure: BaseException | None = None

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all; raise what ended one of them."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
        if self._failure is not None:
            raise self._failure

    def _look(self, name: str) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            view = self._system.view(name)
            if view:
                self.seen.looks.append(Look(name, began, time.monotonic(), view))
            time.sleep(LOOK_SECONDS)

    def _send_over_http(self) -> None:
        http = Http(self._system.http)
        for number in itertools.count():
            if self._stopping.is_set():
                http.close()
                return
            name = f"http-{number}"
            self.seen.attempted.add(name)
            body = {"messages": [{"body": name, "idempotencyKey": name}]}
            status, _ = http.insist("POST", f"/v1/topics/{TOPIC}/messages", body)
            if status == 200:
                self.seen.over_http.append(time.monotonic())
            time.sleep(PAUSE_SECONDS * 3)

    def _send_all(self) -> None:
        try:
            asyncio.run(self._send_to_all())
        except BaseException as error:  # noqa: BLE001 - stop() raises it
            self._failure = error

    async def _send_to_all(self) -> None:
        await asyncio.gather(
            *(self._send_to(name) for name in NAMES), *(self._commit_at(name) for name in NAMES)
        )

    async def _send_to(self, replica: str) -> None:
        line = Line(*self._system.address(replica))
        for number in itertools.count():
            if self._stopping.is_set():
                line.close()
                return
            name = f"direct-{replica}-{number}"
            self.seen.attempted.add(name)
            sent = time.monotonic()
            header = SendHeaderV2(
                producer_group="direct", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0,
                sys_flag=0, born_timestamp=1, flag=0, properties=f"KEYS\x01{name}\x02",
            )  # fmt: skip
            answer = await line.call(RequestCode.SEND_MESSAGE_V2, header, name.encode())
            if answer is not None and answer.code == 0:
                reply = answer.read(SendReplyHeader)
                position = int(reply.msg_id[-16:], 16)
                self.seen.acknowledged.append(
                    Acknowledged(replica, name, sent, time.monotonic(), reply.queue_offset, position)
                )
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                await asyncio.sleep(REFUSED_SECONDS)

    async def _commit_at(self, replica: str) -> None:
        """Commit growing offsets, and ask for them. All replicas' probes share the numbers."""
        line = Line(*self._system.address(replica))
        while not self._stopping.is_set():
            began = time.monotonic()
            asked = QueryConsumerOffsetHeader(consumer_group=GROUP, topic=TOPIC, queue_id=0)
            answer = await line.call(RequestCode.QUERY_CONSUMER_OFFSET, asked)
            if answer is None or answer.code not in {0, 22}:
                await asyncio.sleep(REFUSED_SECONDS)
                continue
            if answer.code == 0:
                self.seen.queries.append(Query(replica, int(answer.fields["offset"]), began))
            offset = len(self.seen.acknowledged)
            header = UpdateConsumerOffsetHeader(
                consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=offset
            )
            answer = await line.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)
            if answer is not None and answer.code == 0:
                self.seen.commits.append(Commit(offset, time.monotonic()))
            await asyncio.sleep(LOOK_SECONDS)
        line.close()


class Line:
    """One connection, one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._decoder = FrameDecoder()
        self._opaques = itertools.count(1)

    async def call(self, code: int, header: Any, body: bytes = b"") -> Command | None:
        """Return the answer, None for none."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                if self._writer is None:
                    self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
                    self._decoder = FrameDecoder()
                self._writer.write(encode_request(code, next(self._opaques), header, body))
                assert self._reader is not None
                while data := await self._reader.read(1 << 16):
                    for raw in self._decoder.receive(data):
                        command = decode_command(raw)
                        if command.is_response:
                            return command
        except (OSError, TimeoutError):
            pass
        self.close()
        await asyncio.sleep(REFUSED_SECONDS)
        return None

    def close(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.close()
        self._reader = self._writer = None
