"""A blocking remoting client, one request at a time, and raw frames for invalid ones. Knows frames, not the guarantees of a store."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from typing import Self

from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import PullHeader, PullReplyHeader, SendHeaderV2, SendReplyHeader
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import scan_records

KEY_PROPERTY = "__GANTRY_KEY"
ANSWER_SECONDS_MAX = 90.0
OK = 0
FOUND = 0
NO_MATCHED = 20


def frame(header: bytes, body: bytes = b"", *, length: int | None = None, mark: int | None = None) -> bytes:
    """A frame with any header; `length` and `mark` (serialize type and header length) may be wrong."""
    true_length = 4 + len(header) + len(body)
    words = [true_length if length is None else length, len(header) if mark is None else mark]
    return b"".join(word.to_bytes(4, "big", signed=word < 0) for word in words) + header + body


class Client:
    """One connection to a port of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX)
        self._decoder = FrameDecoder()
        self._answers: list[Command] = []
        self._opaques = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> Command | None:
        """The next frame; None if the peer closes."""
        while not self._answers:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionError:
                return None
            if not data:
                return None
            self._answers += [decode_command(raw) for raw in self._decoder.receive(data)]
        return self._answers.pop(0)

    def ask(self, code: int, header: object = None, body: bytes = b"") -> Command:
        """The response to one request; an error if the connection closes."""
        opaque = next(self._opaques)
        self.write(encode_request(code, opaque, header, body))  # pyright: ignore[reportArgumentType]
        answer = self.answer()
        if answer is None:
            raise ConnectionError("the peer closed the connection without a response")
        assert answer.opaque == opaque
        return answer

    def try_send(self, body: bytes, topic: str = "faults", queue_id: int = 0, key: str = "") -> Command:
        """The response to one send, with any code."""
        properties = {"KEYS": body[:40].decode("latin-1"), **({KEY_PROPERTY: key} if key else {})}
        header = SendHeaderV2(
            producer_group="faults",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=1,
            flag=0,
            properties=format_properties(properties).decode(),
        )
        return self.ask(RequestCode.SEND_MESSAGE_V2, header, body)

    def send(self, body: bytes, topic: str = "faults", queue_id: int = 0, key: str = "") -> int:
        """Send one message that must be stored; return its queue offset."""
        answer = self.try_send(body, topic, queue_id, key)
        assert answer.code == OK, (answer.code, answer.remark)
        return answer.read(SendReplyHeader).queue_offset

    def pull(
        self, offset: int, topic: str = "faults", queue_id: int = 0, wait_ms: int = 0, count: int = 32
    ) -> Command:
        header = PullHeader(
            consumer_group="faults-reader",
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=6 if wait_ms else 4,
            commit_offset=0,
            suspend_timeout_millis=wait_ms,
            subscription="*",
            sub_version=0,
        )
        return self.ask(RequestCode.PULL_MESSAGE, header)

    def read_all(self, topic: str = "faults", queue_id: int = 0) -> dict[int, bytes]:
        """Offset → body of everything that a reader gets when it follows nextBeginOffset from 0 to the end."""
        return dict(self._read(topic, queue_id))

    def _read(self, topic: str, queue_id: int) -> Iterator[tuple[int, bytes]]:
        offset = 0
        while True:
            answer = self.pull(offset, topic, queue_id)
            if answer.code not in (FOUND, NO_MATCHED):
                return
            for record in scan_records(answer.body):
                yield record.queue_offset, record.body
            reply = answer.read(PullReplyHeader)
            assert reply.next_begin_offset > offset, f"a reader makes no progress at {offset}"
            offset = reply.next_begin_offset
