"""A proxy between a load and a real gateway. It does one kind of damage, seeded, and counts each time it does it.

Honest otherwise: it passes on every call and every answer as they are. What it does to a message follows from the
seed and the message, not from the moment, so that a message that passes twice meets the same harm twice.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
import urllib.parse
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Message = dict[str, Any]
ANSWER_SECONDS_MAX = 60.0
PASSED_ON = ("authorization", "content-type")

_KINDS = {
    "pull": re.compile(r"GET /v1/topics/(?P<topic>[^/]+)/queues/(?P<broker>[^/]+)/(?P<queue>\d+)/messages\?"),
    "receive": re.compile(r"POST /v1/topics/(?P<topic>[^/]+)/groups/(?P<group>[^/]+)/messages:receive$"),
    "ack": re.compile(r"POST /v1/topics/(?P<topic>[^/]+)/groups/(?P<group>[^/]+)/messages:ack$"),
    "send": re.compile(r"POST /v1/topics/(?P<topic>[^/]+)/messages$"),
    "begin": re.compile(r"POST /v1/topics/(?P<topic>[^/]+)/transactions$"),
    "commit": re.compile(r"POST /v1/transactions/(?P<transaction>[^/]+):commit$"),
    "rollback": re.compile(r"POST /v1/transactions/(?P<transaction>[^/]+):rollback$"),
    "checks": re.compile(r"POST /v1/producerGroups/[^/]+/checks:receive$"),
}


@dataclass(frozen=True)
class Call:
    """One call of the load."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    kind: str = "other"
    names: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def read(cls, method: str, path: str, headers: dict[str, str], body: bytes) -> Call:
        for kind, pattern in _KINDS.items():
            if found := pattern.match(f"{method} {path}"):
                return cls(method, path, headers, body, kind, found.groupdict())
        return cls(method, path, headers, body)

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def reader(self) -> str:
        """The reader: a group, or the clients that pull."""
        return self.names.get("group", "pull")

    @property
    def mark(self) -> str:
        """The message of a send or a begin."""
        if self.headers.get("content-type") != "application/json":
            return mark_of(self.body[:64].decode())
        fields = self.json
        return mark_of((fields["message"] if "message" in fields else fields["messages"][0])["body"])


@dataclass(frozen=True)
class Reply:
    """One response of the gateway."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_done(self) -> bool:
        return 200 <= self.status < 300

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    def with_json(self, fields: dict[str, Any]) -> Reply:
        return replace(self, body=json.dumps(fields).encode())

    @classmethod
    def made(cls, status: int, fields: dict[str, Any]) -> Reply:
        return cls(status, {"content-type": "application/json"}, json.dumps(fields).encode())


Forward = Callable[[Call], Reply]


def mark_of(body: str) -> str:
    """The message of the load that a body belongs to: its run, stream and number."""
    return " ".join(body[:64].split(" ", 3)[:3])


class Honest:
    """Passes everything on. Subclasses override what they damage; `count` is how many faults the verdict must report."""

    def __init__(self, seed: int, every: int = 5) -> None:
        self._seed, self._every = seed, every
        self._lock = threading.Lock()
        self._done: Counter[tuple[str, str]] = Counter()
        """How often this damage was done, by reader and message."""

    def answer(self, call: Call, forward: Forward) -> Reply:
        """Answer a call."""
        return forward(call)

    @property
    def harmed(self) -> set[tuple[str, str]]:
        """The reader and the mark of each damaged message."""
        with self._lock:
            return set(self._done)

    @property
    def messages(self) -> int:
        """How many messages were damaged, counted per reader."""
        return len(self.harmed)

    @property
    def times(self) -> int:
        """How often messages were damaged, counted per reader."""
        with self._lock:
            return self._done.total()

    def picks(self, mark: str) -> bool:
        """Whether to damage this message: every fifth of a stream, or as configured; the seed chooses which."""
        _run, stream, number = mark.split(" ")
        return (self._seed + int(stream) + int(number)) % self._every == 0

    def did(self, *names: str) -> None:
        """Record damage."""
        reader, message = names
        with self._lock:
            self._done[reader, message] += 1


class LossyGateway(AbstractContextManager["LossyGateway"]):
    """Listens on a free port in front of a gateway."""

    def __init__(self, gateway: str, harm: Honest) -> None:
        self._server = _Server(("127.0.0.1", 0), _handler(gateway, harm))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,))
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 256


def _handler(gateway: str, harm: Honest) -> type[BaseHTTPRequestHandler]:
    netloc = urllib.parse.urlsplit(gateway).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            self._upstream = http.client.HTTPConnection(netloc, timeout=ANSWER_SECONDS_MAX)

        def finish(self) -> None:
            self._upstream.close()
            super().finish()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            pass

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            kept = {name: headers[name] for name in PASSED_ON if name in headers}
            reply = harm.answer(Call.read(self.command, self.path, kept, body), self._forward)
            with contextlib.suppress(ConnectionError):  # the reader's run is over
                self._tell(reply)

        def _tell(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
            self.wfile.flush()

        def _forward(self, call: Call) -> Reply:
            self._upstream.request(call.method, call.path, call.body or None, call.headers)
            got = self._upstream.getresponse()
            headers = {"content-type": got.headers.get("content-type", "application/json")}
            return Reply(got.status, headers, got.read())

        do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815 - the names that http.server calls

    return Handler
