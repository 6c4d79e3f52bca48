"""One call of the gateway: made over httpx, which is imported with the first one; every way it fails is a Stop with words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from gantry.cli.stops import FAILED, HINTS, UNREACHABLE, WRONG_USE, Stop, status_of

if TYPE_CHECKING:
    import httpx

DEFAULT_HTTP = "http://127.0.0.1:8080"
CALL_SECONDS = 60.0
"""The gateway answers everything but held calls well within; a held one is given its hold on top."""
Query = str | int | bool | None


def path_of(*parts: str) -> str:
    """Return /v1/… of these parts; those that come from a user are quoted, a verb (`:pause`) is not."""
    return "/v1/" + "/".join(quote(part, safe=":") for part in parts)


def base_of(address: str) -> str:
    """Return the gateway's address without a slash at its end. Raises Stop for what is none."""
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise Stop(f"{address!r} is no address of a gateway: write it like {DEFAULT_HTTP}", WRONG_USE)
    return address.rstrip("/")


def query_of(query: Mapping[str, Query]) -> dict[str, str]:
    """Return the parameters that were given, as the gateway reads them."""
    written = {True: "true", False: "false"}
    return {
        name.rstrip("_"): written[value] if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None and value != ""
    }


def answer_of(response: httpx.Response, base: str) -> Any:
    """Return the JSON of an answer. Raises Stop for a problem, and for what is no answer of a gateway."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    if kind not in {"application/json", "application/problem+json"}:
        words = f"{base} answers, but not as a gateway of Gantry (status {response.status_code}, {kind or 'no type'})"
        raise Stop(f"{words}: check the address", UNREACHABLE)
    body: Any = json.loads(response.content)
    if response.is_success:
        return body
    raise problem_stop(body, response.status_code)


def problem_stop(body: dict[str, Any], http_status: int) -> Stop:
    """Return the Stop for a problem: what the gateway says, the field, and what to type."""
    detail = str(body.get("detail") or body.get("title") or f"status {http_status}")
    code = str(body.get("code", ""))
    words = detail.partition("; create it with PUT")[0]
    expected = body.get("expected")
    if expected and str(expected) not in words:
        words += f": expected {expected} at column {body.get('column')}"
    if code in HINTS:
        words += f"; {HINTS[code]}"
    elif body.get("retryable") and "again" not in words and "retry" not in words:
        words += "; try again"
    return Stop(words, status_of(http_status))


def unreached(error: Exception, base: str) -> Stop:
    """Return the Stop for a call without an answer."""
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return Stop(
            f"the gateway at {base} does not answer in time; gantry doctor looks for the reason", FAILED
        )
    why = str(error).strip() or type(error).__name__
    words = f"cannot reach the gateway at {base} ({why}): start a system with ./gantry up"
    return Stop(f"{words}, or name its address with --http or GANTRY_HTTP", UNREACHABLE)


class Calls:
    """Calls of one gateway, one after the other, over connections that are kept."""

    def __init__(self, base: str, token: str | None) -> None:
        self.base = base_of(base)
        self.headers = {"authorization": f"Bearer {token}"} if token else {}
        self._client: httpx.Client | None = None

    def call(
        self, method: str, path: str, body: Any = None, *, hold_seconds: float = 0, **query: Query
    ) -> Any:
        """Return the JSON that is answered. Raises Stop."""
        import httpx

        client = self._client = self._client or httpx.Client(base_url=self.base, headers=self.headers)
        try:
            response = client.request(
                method, path, json=body, params=query_of(query), timeout=CALL_SECONDS + hold_seconds
            )
        except httpx.TransportError as error:
            raise unreached(error, self.base) from error
        return answer_of(response, self.base)

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
