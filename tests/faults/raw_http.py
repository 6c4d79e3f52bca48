"""Raw HTTP over a socket: malformed requests, responses read byte by byte. Also one topic and one message of the API."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from typing import Any, Self

ANSWER_SECONDS_MAX = 90.0
TOPIC = "hostile"
ORDERS = f"/v1/topics/{TOPIC}/messages"
JSON = "Content-Type: application/json"
ONE = b'{"messages":[{"body":"x"}]}'


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes = field(repr=False)

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.body)


class HttpLine:
    """One connection to the gateway; `call` reconnects after the gateway announced a close."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_over = False
        self._open()

    def _open(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self._port), timeout=ANSWER_SECONDS_MAX)
        self._reader = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self.socket.close()

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self, *, has_body: bool = True) -> Answer | None:
        """The next response; None if the connection closes."""
        try:
            first = self._reader.readline()
            if not first:
                return None
            headers: dict[str, str] = {}
            while (line := self._reader.readline().rstrip(b"\r\n")) and line:
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
            self._is_over = headers.get("connection") == "close"
            length = int(headers.get("content-length", "0")) if has_body else 0
            return Answer(int(first.split()[1]), headers, self._reader.read(length))
        except ConnectionError:
            return None

    def call(self, method: str, target: str, body: bytes = b"", *headers: str) -> Answer | None:
        if self._is_over:
            self.__exit__()
            self._open()
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
        self.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        return self.answer(has_body=method != "HEAD")


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def check_refused(answer: Answer | None, what: object) -> None:
    """Check a 4xx problem and its fields."""
    assert answer is not None, f"{what}: closed without a response"
    assert 400 <= answer.status < 500, f"{what}: {answer.status} {answer.body[:300]!r}"
    assert answer.headers["content-type"] == "application/problem+json", what
    problem = answer.document
    assert problem["status"] == answer.status
    assert problem["code"]
    assert problem["detail"]


def goes_on(gateway_port: int) -> None:
    with HttpLine(gateway_port) as line:
        answer = line.call("POST", ORDERS, ONE, JSON)
        assert answer is not None
        assert answer.status == 200
