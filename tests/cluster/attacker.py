"""A stranger's walk through the ports of a host: what each listener answers to somebody without credentials.

Speaks with plain sockets and knows nothing of Gantry's code, so that it cannot share a mistake with it. As a program: `attacker.py HOST` scans all
ports of the host and prints a line for each answer.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 5.0
SILENT_SECONDS = 0.5
"""Wait for an answer that nobody should get."""
SHOWN_BYTES = 100
WALKS_AT_ONCE = 8
CODES = 10_000
CODES_AT_ONCE = 500
PRIVATE_CODES = range(200_000, 200_200)
ANSWER_FLAG, ONE_WAY_FLAG = 1, 2

PATHS = (
    "/", "/docs", "/openapi.json", "/health/live", "/health/ready", "/metrics", "/figures", "/snapshots", "/snapshots/1", "/v1/topics", "/v1/topics/orders",
    "/v1/topics/orders/queues/broker-a/0/messages?offset=0", "/v1/cluster", "/v1/groups", "/v1/groups/billing", "/v1/users", "/v1/policies", "/v1/tokens",
    "/v1/access:whoami", "/v1/messages/0A0A0A0A00002A9F0000000000000000", "/v1/brokers", "/v1/nothing", "/../../etc/passwd", "/admin", "/.env", "//v1/topics",
    "/v1/topics/orders;x", "/V1/TOPICS", "/v1/%74opics",
)  # fmt: skip
POSTED = (
    "/v1/topics/orders/messages", "/v1/topics/orders/groups/billing/messages:receive", "/v1/access:explain", "/v1/access:reseal", "/v1/users", "/v1/tokens",
    "/v1/groups/billing/offsets:reset",
)  # fmt: skip
SERVICE = "/apache.rocketmq.v2.MessagingService/"
METHODS = (
    "QueryRoute", "Heartbeat", "SendMessage", "QueryAssignment", "ReceiveMessage", "AckMessage", "ForwardMessageToDeadLetterQueue", "EndTransaction", "Telemetry",
    "NotifyClientTermination", "ChangeInvisibleDuration", "RecallMessage", "SyncLiteSubscription", "PullMessage", "UpdateOffset", "GetOffset", "QueryOffset",
)  # fmt: skip
FORGED_SIGNATURE = "MQv2-HMAC-SHA1 Credential=root, SignedHeaders=x-mq-date-time, Signature=00"
FORGED = {
    "AccessKey": "root", "Signature": "", "SecurityToken": "x", "inner": "true", "gantryInner": "true", "rpc_inner": "1", "SYS_user": "root",
    "broker_name": "broker-a", "bname": "broker-a", "topic": "orders", "group": "billing", "consumerGroup": "billing", "queueId": "0", "username": "root",
}  # fmt: skip
"""Fields that servers of this kind have trusted."""


@dataclass(frozen=True)
class Answer:
    """What a port answered to one kind of attempt; `got` is empty where it closed the connection or stayed silent."""

    port: int
    attempt: str
    got: str

    def __str__(self) -> str:
        return f"{self.port:>5}  {self.attempt:<44} {self.got or '(nothing)'}"


def open_ports(host: str, ports: Iterable[int]) -> list[int]:
    """Return the ports that accept a connection."""
    found: list[int] = []
    for port in ports:
        with contextlib.suppress(OSError), socket.create_connection((host, port), CONNECT_SECONDS):
            found.append(port)
    return found


def walk(host: str, ports: Iterable[int]) -> list[Answer]:
    """Try everything on each port."""
    with ThreadPoolExecutor(WALKS_AT_ONCE) as threads:
        walked = threads.map(lambda port: list(_walk(host, port)), ports)
        return [answer for answers in walked for answer in answers]


def _walk(host: str, port: int) -> Iterator[Answer]:
    yield Answer(port, "connect and wait", _printable(_exchange(host, port, b"", None)))
    secure = _certificate(host, port)
    yield Answer(port, "TLS without a certificate", secure)
    for tls in (False, True) if secure else (False,):
        over = " over TLS" if tls else ""
        context = _trusting() if tls else None
        yield from (
            Answer(port, attempt + over, got) for attempt, got in _remoting(host, port, context).items()
        )
        yield from (Answer(port, attempt + over, got) for attempt, got in _http(host, port, context))
        yield from (Answer(port, attempt + over, got) for attempt, got in _grpc(host, port, is_tls=tls))
        for attempt, sent in (
            ("NATS", b"CONNECT {}\r\nPING\r\nSUB > 1\r\n"),
            ("Redis", b"PING\r\nCONFIG GET *\r\nKEYS *\r\n"),
        ):
            yield Answer(port, attempt + over, _printable(_exchange(host, port, sent, context)))


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _certificate(host: str, port: int) -> str:
    """Return the version and cipher of a handshake; empty where the port speaks no TLS, or demands a certificate before it answers."""
    try:
        with socket.create_connection((host, port), CONNECT_SECONDS) as plain:
            plain.settimeout(ANSWER_SECONDS)
            with _trusting().wrap_socket(plain) as secure:
                return f"{secure.version()} {(secure.cipher() or ('?',))[0]}"
    except OSError:
        return ""


@contextlib.contextmanager
def _connected(host: str, port: int, context: ssl.SSLContext | None) -> Iterator[socket.socket]:
    with socket.create_connection((host, port), CONNECT_SECONDS) as plain:
        plain.settimeout(ANSWER_SECONDS)
        if context is None:
            yield plain
            return
        with context.wrap_socket(plain) as secure:
            yield secure


def _exchange(
    host: str, port: int, sent: bytes, context: ssl.SSLContext | None, seconds: float = SILENT_SECONDS
) -> bytes:
    """Send, and return what comes back within the time."""
    got = b""
    with contextlib.suppress(OSError), _connected(host, port, context) as connection:
        connection.settimeout(seconds)
        connection.sendall(sent)
        while len(got) < 1 << 20 and (more := connection.recv(65536)):
            got += more
            connection.settimeout(0.3)
    return got


def _printable(got: bytes) -> str:
    shown = got if len(got) <= 2 * SHOWN_BYTES else got[:SHOWN_BYTES] + b" ... " + got[-SHOWN_BYTES:]
    return shown.decode("latin-1").encode("unicode_escape").decode()


# Remoting


def frame(code: int, number: int, fields: dict[str, str], body: bytes = b"", flag: int = 0) -> bytes:
    """Return a request in RocketMQ's protocol with a JSON header."""
    asked = {"code": code, "language": "JAVA", "version": 479, "opaque": number, "flag": flag}
    header = json.dumps({**asked, "extFields": fields}).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def answers(read: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield request number, code and remark of each answer in what was read."""
    while len(read) >= 8:
        length, header = struct.unpack(">II", read[:8])
        if header >> 24 or length > len(read) - 4:
            return
        try:
            found = json.loads(read[8 : 8 + header])
            yield found["opaque"], found["code"], found.get("remark") or ""
        except (ValueError, KeyError):
            return
        read = read[4 + length :]


def _remoting(host: str, port: int, context: ssl.SSLContext | None) -> dict[str, str]:
    """Return attempt → count of each answer's code. All codes, bare and with forged fields; then what pretends to be something else."""
    if not list(answers(_exchange(host, port, frame(105, 1, {"topic": "orders"}), context, ANSWER_SECONDS))):
        return {}
    codes = [*range(CODES), *PRIVATE_CODES]
    proxied = b"PROXY TCP4 127.0.0.1 127.0.0.1 4000 10911\r\n" + frame(105, 1, {"topic": "orders"})
    found = {
        "requests of all codes": _codes(host, port, context, codes, {}),
        "requests of all codes, forged fields": _codes(host, port, context, codes, FORGED),
        "behind a forged PROXY header": _summary(answers(_exchange(host, port, proxied, context))),
    }
    for name, flag in (("answers to nobody", ANSWER_FLAG), ("one-way requests", ONE_WAY_FLAG)):
        sent = b"".join(frame(code, code, FORGED, b"{}", flag) for code in range(400))
        found[name] = _summary(answers(_exchange(host, port, sent, context)))
    return found


def _codes(
    host: str, port: int, context: ssl.SSLContext | None, codes: list[int], fields: dict[str, str]
) -> str:
    found: list[tuple[int, int, str]] = []
    for first in range(0, len(codes), CODES_AT_ONCE):
        some = codes[first : first + CODES_AT_ONCE]
        with contextlib.suppress(OSError), _connected(host, port, context) as connection:
            connection.sendall(b"".join(frame(code, code, fields, b"{}") for code in some))
            found += _read_answers(connection, len(some))
    return _summary(iter(found))


def _read_answers(connection: socket.socket, count: int) -> list[tuple[int, int, str]]:
    read = b""
    found: list[tuple[int, int, str]] = []
    with contextlib.suppress(OSError):
        while len(found) < count and (more := connection.recv(1 << 18)):
            read += more
            found = list(answers(read))
    return found


def _summary(found: Iterator[tuple[int, int, str]]) -> str:
    """Return `16: 9998` and so on; each other answer's request is named, with the beginning of its remark."""
    counted: Counter[int] = Counter()
    others: list[str] = []
    for number, code, remark in found:
        counted[code] += 1
        if code != 16:
            others.append(f"request {number}: {code} {remark[:60]}")
    return "; ".join([f"code {code}: {count}" for code, count in sorted(counted.items())] + others[:20])


# HTTP


def _http(host: str, port: int, context: ssl.SSLContext | None) -> Iterator[tuple[str, str]]:
    wrong = {
        "": "",
        "wrong token": "Authorization: Bearer gantry_x_y\r\n",
        "wrong secret": "Authorization: Basic cm9vdDpyb290\r\n",
    }
    for name, authorization in wrong.items():
        for method, paths, body in (
            ("GET", PATHS, b""),
            ("POST", POSTED, b"{}"),
            ("DELETE", PATHS[9:11], b""),
        ):
            statuses: dict[str, list[str]] = {}
            for path in paths:
                sent = _request(method, path, host, authorization, body)
                got = _exchange(host, port, sent, context, ANSWER_SECONDS)
                status = got[9:12].decode("latin-1") if got.startswith(b"HTTP/1.") else ""
                statuses.setdefault(status, []).append(path)
            if set(statuses) == {""}:
                return
            for status, same in sorted(statuses.items()):
                yield f"{method}{' with a ' if name else ''}{name} → {status or 'closed'}", " ".join(same)
    foreign = _request("POST", POSTED[0], "evil.example", "Origin: https://evil.example\r\n", b"{}")
    yield (
        "POST of a page of another origin",
        _exchange(host, port, foreign, context, ANSWER_SECONDS)[:12].decode("latin-1"),
    )


def _request(method: str, path: str, host: str, more: str, body: bytes) -> bytes:
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}{kind}Connection: close\r\n\r\n".encode() + body
    )


# gRPC


def _grpc(host: str, port: int, *, is_tls: bool) -> Iterator[tuple[str, str]]:
    """Yield the codes of each method's answer, called without a name, with one, and with a signature of nobody."""
    context = _trusting() if is_tls else None
    if context is not None:
        context.set_alpn_protocols(["h2"])
    client = [("x-mq-client-id", "stranger"), ("x-mq-language", "JAVA")]
    signed = [*client, ("x-mq-date-time", "20260101T000000Z"), ("authorization", FORGED_SIGNATURE)]
    for name, more in (("nothing", []), ("a client id", client), ("a forged signature", signed)):
        with contextlib.suppress(OSError, ProtocolError):
            codes = _calls(host, port, context, more)
            if codes:
                yield f"gRPC of all methods with {name}", "; ".join(codes)


def _calls(host: str, port: int, context: ssl.SSLContext | None, more: list[tuple[str, str]]) -> list[str]:
    """Return "QueryRoute 40100" and so on: the response's code, or the status of gRPC. Nothing from a port that speaks no HTTP/2."""
    with _connected(host, port, context) as connection:
        peer = H2Connection(H2Configuration(header_encoding="utf-8"))
        peer.initiate_connection()
        for method in METHODS:
            stream = peer.get_next_available_stream_id()
            fixed = [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", SERVICE + method),
                (":authority", "x"),
            ]
            peer.send_headers(
                stream, [*fixed, ("content-type", "application/grpc"), ("te", "trailers"), *more]
            )
            peer.send_data(stream, bytes(5), end_stream=True)
        connection.sendall(peer.data_to_send())
        return _codes_of(connection, peer)


def _codes_of(connection: socket.socket, peer: H2Connection) -> list[str]:
    found: dict[int, str] = {}
    ended: set[int] = set()
    until = time.monotonic() + ANSWER_SECONDS
    while len(ended) < len(METHODS) and time.monotonic() < until and (read := connection.recv(65536)):
        for event in peer.receive_data(read):
            if isinstance(event, ResponseReceived | TrailersReceived):
                status = dict(event.headers).get("grpc-status", "0")
                if status != "0":
                    found[event.stream_id] = f"status {status}"
            elif isinstance(event, DataReceived):
                found.setdefault(event.stream_id, _code_in(event.data[5:]))
            elif isinstance(event, StreamEnded | StreamReset):
                ended.add(event.stream_id)
        connection.sendall(peer.data_to_send())
    return [f"{METHODS[stream // 2]} {found.get(stream, 'nothing')}" for stream in sorted(ended)]


def _code_in(message: bytes) -> str:
    """Return the code of a response: field 1 is its status, of which field 1 is the code."""
    if message[:1] != b"\x0a" or message[2:3] != b"\x08":
        return f"no status: {message[:SHOWN_BYTES]!r}"
    code, shift = 0, 0
    for byte in message[3:]:
        code |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return str(code)


if __name__ == "__main__":
    host = sys.argv[1]
    listening = open_ports(host, range(1, 65536))
    print(f"{host}: {len(listening)} ports answer: {listening}")
    for answer in walk(host, listening):
        print(answer)
