"""Calls of the gateway, one after the other. Every failure is a Stop with a message.

Uses http.client, because a command finishes before httpx is imported (230 ms of CPU against 50).
"""

from __future__ import annotations

import json
import re
import select
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from gantrymq.cli.stops import UNREACHABLE, WRONG_USE, Stop, status_of
from gantrymq.cli.wording import problem_words
from gantrymq.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPConnection

    from gantry_link.connections.client_tls import ClientTlsFiles

DEFAULT_HTTP = "http://127.0.0.1:8080"
CALL_SECONDS = 60.0
"""The gateway answers every call except held ones well within this; a held call gets its hold time on top."""
LARGE_BYTES = 1 << 20
"""The gateway never refuses a smaller request for its size."""
PLAIN_ADDRESS = re.compile(r"[\w.-]+:\d+")
NO_GATEWAY = "check the address, another port or program has it (./gantry status shows the gateway's)"
Query = str | int | bool | None


def path_of(*parts: str) -> str:
    """Return the path /v1/… of these parts; parts from a user are quoted, a verb (`:pause`) is not."""
    return "/v1/" + "/".join(quote(part, safe=":") for part in parts)


def base_of(address: str) -> str:
    """Return the gateway's address without a final slash, its scheme in lower case; `host:port` is http. Raises Stop for an invalid address."""
    if PLAIN_ADDRESS.fullmatch(address):
        address = f"http://{address}"
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_address = urlsplit(""), False
    if not is_address:
        raise Stop(f"{address!r} is not the address of a gateway: write it like {DEFAULT_HTTP}", WRONG_USE)
    return parts.geturl().rstrip("/")


def query_of(query: Mapping[str, Query]) -> dict[str, str]:
    """Return the given parameters in the gateway's format."""
    written = {True: "true", False: "false"}
    return {
        name.rstrip("_"): written[value] if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None and value != ""
    }


def answer_of(status: int, content_type: str, content: bytes, base: str) -> Any:
    """Return the JSON of an answer. Raises Stop for a problem, and for an answer that is not a gateway's."""
    kind = content_type.partition(";")[0]
    is_well = 200 <= status < 300
    if kind != ("application/json" if is_well else "application/problem+json"):
        words = f"{base} answers, but not as a gateway of Gantry (status {status}, {kind or 'no type'})"
        raise Stop(f"{words}: {NO_GATEWAY}", UNREACHABLE)
    body: Any = json.loads(content)
    if is_well:
        return body
    raise problem_stop(body, status)


def problem_stop(body: dict[str, Any], http_status: int) -> Stop:
    """Return the Stop for a problem: the gateway's message, the option, and what to type."""
    return Stop(problem_words(body, http_status), status_of(http_status))


def unreached(error: Exception, base: str, sent_bytes: int = 0) -> Stop:
    """Return the Stop for a call without an answer."""
    if isinstance(error, TimeoutError):
        words = f"the gateway at {base} does not answer in time; gantrymq doctor looks for the reason"
        return Stop(words, UNREACHABLE)
    if sent_bytes > LARGE_BYTES and isinstance(error, BrokenPipeError | ConnectionResetError):
        words = f"the gateway at {base} took no more of a request of {sent_bytes} bytes: it is over its limit"
        return Stop(
            f"{words}; a message has at most 4 MiB, where the broker's maxMessageSize is not larger",
            WRONG_USE,
        )
    if "http.client" in sys.modules and isinstance(error, sys.modules["http.client"].HTTPException):
        return Stop(f"{base} answers nothing, or not in HTTP: {NO_GATEWAY}", UNREACHABLE)
    if type(error).__module__ == "ssl":
        return Stop(
            f"no secure connection to {base} ({error}): write http:// where it speaks no TLS", UNREACHABLE
        )
    why = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    words = f"cannot reach the gateway at {base} ({why}): start a system with ./gantry up"
    return Stop(f"{words}, or name its address with --http or GANTRY_HTTP", UNREACHABLE)


class Calls:
    """Calls of one gateway, one after the other, over a persistent connection."""

    def __init__(self, base: str, authorization: str, files: ClientTlsFiles | None = None) -> None:
        """Use the header `authorization`, if it is not empty, and for https the TLS `files`. Raises Stop for an invalid address."""
        self.base: str = base_of(base)
        self.files: ClientTlsFiles | None = files
        self.headers: dict[str, str] = {"authorization": authorization} if authorization else {}
        self._connection: HTTPConnection | None = None

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        hold_seconds: float = 0,
        is_report: bool = False,
        **query: Query,
    ) -> Any:
        """Return the JSON of the answer. Raises Stop, unless `is_report` accepts the answer of any status."""
        import http.client

        content = None if body is None else json.dumps(body).encode()
        headers = self.headers if content is None else {**self.headers, "content-type": "application/json"}
        given = urlencode(query_of(query))
        try:
            connection = self._connected(CALL_SECONDS + hold_seconds)
            target = urlsplit(self.base).path + path + (f"?{given}" if given else "")
            connection.request(method, target, content, headers)
            response = connection.getresponse()
            answered = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise unreached(error, self.base, len(content or b"")) from error
        status = 200 if is_report else response.status
        return answer_of(status, response.headers.get("content-type", ""), answered, self.base)

    def status(self, path: str) -> int:
        """Return the HTTP status of GET. Raises Stop if there is no answer."""
        import http.client

        try:
            connection = self._connected(CALL_SECONDS)
            connection.request("GET", urlsplit(self.base).path + path, headers=self.headers)
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise unreached(error, self.base) from error
        return response.status

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self, seconds: float) -> HTTPConnection:
        """Return the connection; a new one if there is none, or if the gateway has closed it meanwhile."""
        import http.client

        kept = self._connection
        if kept is not None and kept.sock is not None and not select.select([kept.sock], [], [], 0)[0]:
            kept.sock.settimeout(seconds)
            return kept
        self.close()
        place = urlsplit(self.base)
        host = place.hostname or ""
        if place.scheme == "https":
            self._connection = http.client.HTTPSConnection(
                host, place.port, timeout=seconds, context=self._context()
            )
        else:
            self._connection = http.client.HTTPConnection(host, place.port, timeout=seconds)
        return self._connection

    def verification(self) -> ssl.SSLContext | bool:
        """Return what httpx takes as `verify`. Raises Stop if a file cannot be used."""
        return self.base.startswith("https:") and (self._context() or True)

    def _context(self) -> ssl.SSLContext | None:
        from gantrymq.tls import http_context, tls_defaults

        try:
            if self.files is None:
                return None
            return http_context(replace(self.files, verify_name=tls_defaults().get("tls_verify_name", True)))
        except ConfigurationError as error:
            raise Stop(str(error), WRONG_USE) from None
