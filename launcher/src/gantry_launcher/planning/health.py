"""Checks the health of a process with one short request over 127.0.0.1, in its own protocol."""

import contextlib
import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    import ssl
    from collections.abc import Generator

ANSWER_BYTES_MAX = 65536
HTTP_OK = 200


@dataclass(frozen=True)
class Check:
    """Address and protocol of a health check."""

    kind: Literal["http", "nats", "redis"]
    host: str
    port: int
    certificate: str = ""
    """PEM file of the certificate that is shown where the port speaks TLS alone; empty: none."""
    key: str = ""
    """PEM file of its key; empty: the key is in `certificate`."""


@dataclass(frozen=True)
class Health:
    """The answer to a health check: whether the process is ready, a message, and the body of a service's answer."""

    ready: bool
    message: str
    body: dict[str, Any]
    answered: bool = True
    """False when the process listens but did not answer in time."""
    is_cut: bool = False
    """Whether the process closed the connection without an answer."""


def ask(check: Check, timeout_seconds: float) -> Health:
    """Return the health of a process. One that does not answer is not ready; this never raises."""
    try:
        if check not in _speaks_tls:
            health = _asked(check, timeout_seconds)
            if check.kind != "http" or not health.is_cut:
                return health
            _speaks_tls.add(check)  # it closed a plain connection without a word: tls_mode=enforcing
        return _asked_by_tls(check, timeout_seconds)
    except ConnectionRefusedError:
        return Health(ready=False, message="not listening", body={})
    except (OSError, ValueError) as error:
        _speaks_tls.discard(check)
        silent = isinstance(error, TimeoutError)
        return Health(ready=False, message=f"no answer ({error})", body={}, answered=not silent)


def fetch(check: Check, path: str, timeout_seconds: float) -> dict[str, Any]:
    """Return the JSON object that a service answers at a path with status 200; empty without one. This never raises.

    Whether the port speaks TLS alone is known after `ask`.
    """
    try:
        if check in _speaks_tls:
            with _secure(check, timeout_seconds) as connection:
                status, rest = _get(connection, path)
        else:
            with _plain(check, timeout_seconds) as connection:
                status, rest = _get(connection, path)
        body: Any = json.loads(rest) if status == HTTP_OK else {}
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def _asked(check: Check, timeout_seconds: float) -> Health:
    with _plain(check, timeout_seconds) as connection:
        return _ASK[check.kind](connection)


def _plain(check: Check, timeout_seconds: float) -> socket.socket:
    """Return a connection whose every step waits so long. Raises OSError."""
    return socket.create_connection((check.host, check.port), timeout_seconds)


def speaks_tls(check: Check) -> bool:
    """Return whether the port closed a plain connection and answered over TLS."""
    return check in _speaks_tls


def tls_context(check: Check) -> "ssl.SSLContext":
    """Return how to ask over TLS. Nothing secret is sent, and the certificate names other hosts than this one, so it is not verified.

    Raises OSError, which names the files, if the certificate to show cannot be used.
    """
    import ssl  # 4 MB, for systems that serve TLS alone

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if check.certificate:
        _show(context, check)
    return context


def _asked_by_tls(check: Check, timeout_seconds: float) -> Health:
    with _secure(check, timeout_seconds) as connection:
        return _ASK[check.kind](connection)


@contextlib.contextmanager
def _secure(check: Check, timeout_seconds: float) -> "Generator[ssl.SSLSocket]":
    """Connect over TLS. Raises OSError."""
    context = tls_context(check)
    with _plain(check, timeout_seconds) as connection, context.wrap_socket(connection) as secure:
        yield secure


def _show(context: "ssl.SSLContext", check: Check) -> None:
    """Let a connection show the certificate of a check. Raises OSError, which names its files."""
    try:  # without a password OpenSSL would ask the terminal for one
        context.load_cert_chain(check.certificate, check.key or None, password="")
    except OSError as error:
        named = " and ".join(filter(None, (check.certificate, check.key)))
        raise OSError(f"cannot show the certificate in {named}: {error}") from error


def _get(connection: socket.socket, path: str) -> tuple[int, bytes]:
    """Speak just enough HTTP/1.1: http.client would cost the launcher 4 MB of memory."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = b""
    while part := connection.recv(ANSWER_BYTES_MAX):
        answer += part
    head_bytes, _, rest = answer.partition(b"\r\n\r\n")
    _, _, after_version = head_bytes.partition(b" ")
    return int(after_version[:3] or b"0"), rest  # ValueError when the answer is not HTTP


def _ask_http(connection: socket.socket) -> Health:
    try:
        status, rest = _get(connection, "/health/ready")
    except ConnectionResetError:
        status, rest = 0, b""
    if not status and not rest:
        return Health(ready=False, message="it closes the connection", body={}, is_cut=True)
    body: dict[str, Any] = json.loads(rest) if rest.startswith(b"{") else {}
    ready = status == HTTP_OK
    return Health(ready, "ready" if ready else _reason(body) or f"HTTP status {status}", body)


def _reason(body: dict[str, Any]) -> str:
    """Return why a service is not ready: its own reason, or the reasons of the stores that a gateway waits for."""
    stores: dict[str, str] = body.get("stores") or {}
    waits = [f"{name} {message}" for name, message in stores.items() if message != "ok"]
    return str(body.get("reason") or ", ".join(waits) or body.get("status") or "")


def _ask_nats(connection: socket.socket) -> Health:
    greeted = connection.recv(ANSWER_BYTES_MAX).startswith(b"INFO ")
    return Health(greeted, "ready" if greeted else "no greeting", {})


def _ask_redis(connection: socket.socket) -> Health:
    connection.sendall(b"PING\r\n")
    answer = connection.recv(ANSWER_BYTES_MAX)
    ready = answer.startswith((b"+PONG", b"-NOAUTH"))  # it serves clients that know its password
    return Health(ready, "ready" if ready else answer.decode("ascii", "replace").strip(), {})


QUESTIONS = {
    "http": b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "nats": b"",  # it greets every client, and logs an error when a client without a token sends more
    "redis": b"PING\r\n",
}
"""Requests that each kind of process answers at once, even when it is busy."""

_speaks_tls: set[Check] = set()
"""Checks of ports that closed a plain connection. One that fails over TLS is plain again at the next time."""
_ASK = {"http": _ask_http, "nats": _ask_nats, "redis": _ask_redis}
