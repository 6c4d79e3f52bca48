"""Random traffic from a seed: everything a client may legally write, and some of what it may not.

Faster than drawing by hypothesis by a factor of hundred, so that a million messages can be compared. A head or header is used again and
again with other values in it, as clients do: only then do fast paths recognize it.
"""

import base64
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from gantry_wire.codes import RequestCode
from gantry_wire.errors import WireError
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import BINARY, JSON
from gantry_wire.headers.messages import SendHeader, SendHeaderV2
from gantry_wire.messages.batch import BatchItem, encode_batch

NAME_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%|-_"
LIKE_NUMBERS = ("1000000000001", "0", "-1", "7FFFFFFF", "00000000000000000000", "2111111111", "1000000000")
"""Values that frames, replies and templates hold beside what a user writes."""
STRANGE = (
    "😀" * 4, '"', "\\", "a:b", "{}", "},{", "é", "a b", "\ufeff", "\u2028", "%s", "%d", "\u0085", "\ufb01", "\U0010ffff",
)  # fmt: skip
REFUSED = ("\x00", "\x01", "\x02", "", "\x7f", "\r\n", " ")
"""Separators of properties, controls and nothing: some edges refuse them."""
PROPERTIES = (
    "TAGS", "KEYS", "own", "WAIT", "UNIQ_KEY", "__GANTRY_KEY", "__SHARDINGKEY", "RETRY_TOPIC", "INNER_NUM", "CLUSTER", "TRAN_MSG", "DELAY",
    "TIMER_DELAY_SEC", "BORN_HOST", "MIN_OFFSET", "PGROUP", "__CRC32#", "MSG_REGION", "TRACE_ON", "REAL_TOPIC",
)  # fmt: skip
CODES = (RequestCode.SEND_MESSAGE_V2,) * 4 + (RequestCode.SEND_MESSAGE,)
KNOWN_TOPICS, UNKNOWN_TOPICS = 3, 1
HTTP_HEADERS = (
    "accept: */*",
    "accept-encoding: gzip",
    "connection: keep-alive",
    "x-own: 1",
    "mq-tag: t",
    "Mq-Keys: a b",
    "Mq-Property-Own: 1",
)
REUSED = 6
"""Heads and headers in use at a time."""
RENEWED_EVERY = 40
"""Requests between two new heads."""


@dataclass(frozen=True)
class Requests:
    """Requests over HTTP that arrive in one turn, each on a connection of its own."""

    requests: list[bytes]


@dataclass(frozen=True)
class Frames:
    """Frames of one client over remoting that arrive in one turn."""

    data: bytes


Step = Requests | Frames


class Traffic:
    """Steps from a seed. `topics` exist, `missing` does not."""

    def __init__(self, rng: random.Random, lines: int) -> None:
        """`lines` is the number of HTTP connections."""
        self._rng, self._lines = rng, lines
        names = list({self._name() for _ in range(3 * KNOWN_TOPICS)})
        self.topics, self._missing = names[:KNOWN_TOPICS], names[KNOWN_TOPICS : KNOWN_TOPICS + UNKNOWN_TOPICS]
        self.messages = 0
        """Messages in the steps so far."""
        self._opaque = 0
        self._heads: list[Callable[[], bytes]] = [self._http() for _ in range(REUSED)]
        self._headers: list[Callable[[], bytes]] = [self._remoting() for _ in range(REUSED)]

    def steps(self) -> Iterator[Step]:
        """Generate steps without end."""
        rng = self._rng
        while True:
            if rng.randrange(RENEWED_EVERY) == 0:
                self._heads[rng.randrange(REUSED)] = self._http()
                self._headers[rng.randrange(REUSED)] = self._remoting()
            if rng.random() < 0.5:
                head = rng.choice(self._heads)
                yield Requests([head() for _ in range(rng.randint(1, self._lines))])
            else:
                yield Frames(b"".join(rng.choice(self._headers)() for _ in range(rng.randint(1, 12))))

    # --- values ---

    def _name(self) -> str:
        rng = self._rng
        parts = [rng.choice(LIKE_NUMBERS)] if rng.random() < 0.3 else []
        parts.append("".join(rng.choices(NAME_LETTERS, k=rng.choice((1, 3, 12, 100)))))
        return "".join(parts)

    def _queue(self) -> int:
        return self._rng.choice((0, 0, 1)) if self._rng.random() < 0.98 else self._rng.choice((-1, 2, 12))

    def _text(self) -> str:
        rng = self._rng
        chosen = rng.random()
        if chosen < 0.5:
            return "".join(rng.choices(NAME_LETTERS, k=rng.randint(1, 12)))
        if chosen < 0.6:
            return rng.choice(LIKE_NUMBERS)
        if chosen < 0.7:
            return rng.choice(STRANGE)
        if chosen < 0.705:
            return rng.choice(REFUSED)
        return "".join(self._character() for _ in range(rng.randint(1, 8)))

    def _character(self) -> str:
        return chr(
            self._rng.randrange(*self._rng.choice(((33, 127), (33, 127), (160, 0xD800), (0xE000, 0x110000))))
        )

    def _body(self) -> bytes:
        rng = self._rng
        chosen = rng.random()
        if chosen < 0.004:
            return b"z" * rng.choice((59_000, 70_000))
        if chosen < 0.2:
            return self._text().encode()
        return rng.randbytes(rng.choice((0, 1, 20, 128, 300)))

    # --- over HTTP ---

    def _http(self) -> Callable[[], bytes]:
        """Return a writer of requests with one head, whose length alone varies."""
        rng = self._rng
        topic = quote(rng.choice(self._missing if rng.random() < 0.05 else self.topics), safe="")
        is_json = rng.random() < 0.7
        kind = "application/json" if is_json else rng.choice(("text/plain", "application/octet-stream"))
        headers = [f"host: {rng.choice(('127.0.0.1:8080', 'localhost'))}", f"content-type: {kind}"]
        headers += rng.sample(HTTP_HEADERS[:4] if is_json else HTTP_HEADERS, rng.randint(0, 2))
        rng.shuffle(headers)
        place, length = rng.randint(0, len(headers)), rng.choice(("content-length", "Content-Length"))
        several = rng.choice((1, 1, 1, 3, 20))
        fields = rng.sample(
            ("tag", "keys", "properties", "shardingKey", "queueId", "idempotencyKey", "broker"),
            rng.randint(0, 3),
        )

        def write() -> bytes:
            body = self._json(rng.randint(1, several), fields) if is_json else self._body()
            self.messages += 0 if is_json else 1
            lines = [
                f"POST /v1/topics/{topic}/messages HTTP/1.1",
                *headers[:place],
                f"{length}: {len(body)}",
                *headers[place:],
            ]
            return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

        return write

    def _json(self, count: int, fields: list[str]) -> bytes:
        rng = self._rng
        self.messages += count
        content = json.dumps(
            {"messages": [self._message(fields) for _ in range(count)]}, ensure_ascii=rng.random() < 0.5
        ).encode()
        return content if rng.random() < 0.98 else rng.choice((content[:-1], rng.randbytes(20)))

    def _message(self, fields: list[str]) -> dict[str, object]:
        rng = self._rng
        body = self._body()
        message: dict[str, object] = (
            {"bodyBase64": base64.b64encode(body).decode()} if rng.random() < 0.5 else {"body": self._text()}
        )
        for name in fields:
            match name:
                case "keys":
                    message[name] = [self._text() for _ in range(rng.randint(0, 3))]
                case "properties":
                    message[name] = {self._property(): self._text() for _ in range(rng.randint(0, 3))}
                case "queueId":
                    message[name] = self._queue()
                case "broker":
                    message[name] = "broker-a" if rng.random() < 0.98 else "broker-b"
                case "idempotencyKey":
                    message[name] = (
                        rng.choice("kl") if rng.random() < 0.05 else self._text() + str(rng.random())
                    )
                case _:
                    message[name] = self._text()
        return message

    def _property(self) -> str:
        return self._rng.choice(PROPERTIES) if self._rng.random() < 0.02 else self._text()

    # --- over remoting ---

    def _remoting(self) -> Callable[[], bytes]:
        """Return a writer of sends with one header, in which opaque, queue, born time and the values of properties vary."""
        rng = self._rng
        refused = (*self._missing, "%RETRY%g", "t" * 130)
        topic = rng.choice(refused if rng.random() < 0.05 else self.topics)
        rare = rng.random() < 0.3
        common = {
            "producer_group": self._name(), "topic": topic, "default_topic": "TBW102", "default_topic_queue_nums": 4,
            "sys_flag": rng.choice((0, 1, 4, 0x30, 0x101)) if rare else 0, "flag": rng.randint(-(2**31), 2**31 - 1) if rare else 0,
            "reconsume_times": rng.choice((0, 2)) if rare else 0,
        }  # fmt: skip
        is_half = rng.random() < 0.15
        if is_half:
            common["sys_flag"] = 4
        names = [
            "UNIQ_KEY",
            "WAIT",
            *(("TRAN_MSG", "PGROUP") if is_half else ()),
            *rng.sample(PROPERTIES, rng.choice((0, 0, 0, 1, 3))),
        ]
        kind, code = rng.choice((JSON, BINARY, BINARY)), rng.choice(CODES)
        kind_of_header = SendHeader if code == RequestCode.SEND_MESSAGE else SendHeaderV2
        is_batch, oneway = code != RequestCode.SEND_MESSAGE and rng.random() < 0.2, rng.random() < 0.1

        def write() -> bytes:
            header = kind_of_header(
                **common, queue_id=self._queue(), born_timestamp=rng.choice((1_699_999_999_000, 1_700_000_000_123, -1)),
                properties=self._properties(names), batch=is_batch,
            )  # fmt: skip
            self._opaque += 1
            body = self._batch() if is_batch else self._body()
            self.messages += 0 if is_batch else 1
            asked = RequestCode.SEND_BATCH_MESSAGE if is_batch else code
            return encode_request(asked, self._opaque, header, body, oneway=oneway, serialize_type=kind)

        return write

    def _properties(self, names: list[str]) -> str:
        rng = self._rng
        text = ""
        for name in names:
            value = (
                self._text()
                if name not in {"UNIQ_KEY", "WAIT"} or rng.random() < 0.02
                else rng.choice(("true", "false"))
            )
            if name == "UNIQ_KEY" and rng.random() < 0.95:
                value = rng.randbytes(16).hex().upper()
            elif name == "TRAN_MSG" and rng.random() < 0.95:
                value = "true"
            elif name == "DELAY" and rng.random() < 0.95:
                value = str(rng.randint(0, 19))
            text += f"{name}\x01{value}\x02"
        return text

    def _batch(self) -> bytes:
        rng = self._rng
        count = rng.choice((1, 2, 32))
        self.messages += count
        items = [
            BatchItem(
                0, self._body(), f"UNIQ_KEY\x01{rng.randbytes(16).hex().upper()}\x02WAIT\x01true\x02".encode()
            )
            for _ in range(count)
        ]
        try:
            content = encode_batch(items)
        except WireError:  # larger than a batch may be
            return b""
        return content if rng.random() < 0.97 else content[:-3]
