"""Asks a process of the system how it is: one short question over 127.0.0.1, each in its own protocol."""

import json
import socket
from dataclasses import dataclass
from typing import Any, Literal

ANSWER_BYTES_MAX = 65536


@dataclass(frozen=True)
class Check:
    """Whom to ask, and how."""

    kind: Literal["http", "nats", "redis"]
    host: str
    port: int


@dataclass(frozen=True)
class Health:
    """An answer: ready or not, in words, and what a service said of itself."""

    ready: bool
    words: str
    body: dict[str, Any]
    answered: bool = True
    """False when it listens, but said nothing within the time."""


def ask(check: Check, timeout_seconds: float) -> Health:
    """Return how it is; a process that does not answer is not ready, never an exception."""
    try:
        with socket.create_connection((check.host, check.port), timeout_seconds) as connection:
            connection.settimeout(timeout_seconds)
            return _ASK[check.kind](connection)
    except ConnectionRefusedError:
        return Health(ready=False, words="not listening", body={})
    except (OSError, ValueError) as error:
        silent = isinstance(error, TimeoutError)
        return Health(ready=False, words=f"no answer ({error})", body={}, answered=not silent)


def _get(connection: socket.socket, path: str) -> tuple[int, bytes]:
    """Speak just enough HTTP/1.1: http.client would cost the launcher 4 MB of memory."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = b""
    while part := connection.recv(ANSWER_BYTES_MAX):
        answer += part
    head_bytes, _, rest = answer.partition(b"\r\n\r\n")
    _, _, after_version = head_bytes.partition(b" ")
    return int(after_version[:3] or b"0"), rest  # ValueError for what is no HTTP


def _ask_http(connection: socket.socket) -> Health:
    status, rest = _get(connection, "/health/ready")
    body: dict[str, Any] = json.loads(rest) if rest.startswith(b"{") else {}
    ready = status == 200
    return Health(ready, "ready" if ready else _reason(body) or f"HTTP status {status}", body)


def _reason(body: dict[str, Any]) -> str:
    """Return why a service is not ready: its own reason, or those of the stores a gateway waits for."""
    stores: dict[str, str] = body.get("stores") or {}
    waits = [f"{name} {words}" for name, words in stores.items() if words != "ok"]
    return str(body.get("reason") or ", ".join(waits) or body.get("status") or "")


def _ask_nats(connection: socket.socket) -> Health:
    greeted = connection.recv(ANSWER_BYTES_MAX).startswith(b"INFO ")
    return Health(greeted, "ready" if greeted else "no greeting", {})


def _ask_redis(connection: socket.socket) -> Health:
    connection.sendall(b"PING\r\n")
    answer = connection.recv(ANSWER_BYTES_MAX)
    ready = answer.startswith((b"+PONG", b"-NOAUTH"))  # it serves those who know its password
    return Health(ready, "ready" if ready else answer.decode("ascii", "replace").strip(), {})


QUESTIONS = {
    "http": b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "nats": b"",  # it greets whoever comes, and logs an error when one who showed no token asks more
    "redis": b"PING\r\n",
}
"""What each kind of process answers at once, whatever it is busy with."""

_ASK = {"http": _ask_http, "nats": _ask_nats, "redis": _ask_redis}
