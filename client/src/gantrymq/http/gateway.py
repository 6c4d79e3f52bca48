"""Calls of a gateway over httpx, repeated if the caller says that it is safe, within one deadline.

Does not know messages. The caller decides what may be repeated: a send only with idempotency keys.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable
from typing import Any, Self, cast
from urllib.parse import quote

import httpx
import msgspec

from gantrymq.errors import ConnectionFailed, GantryError, NotRunning, TimedOut, in_doubt
from gantrymq.http.problems import error_of, failure_of, problem_of
from gantrymq.http.settings import HttpOptions, HttpSettings
from gantrymq.settings import make_settings
from gantrymq.tls import http_context, http_tls_defaults

FIRST_PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 2.0


def path_of(*parts: str) -> str:
    """Return the path /v1/… of these parts, each quoted; a verb (`messages:ack`) keeps its colon."""
    return "/v1/" + "/".join(quote(part, safe=":") for part in parts)


class Gateway:
    """A gateway, from `start` to `close`."""

    def __init__(self, settings: HttpSettings) -> None:
        self.settings = settings
        self._client: httpx.AsyncClient | None = None

    async def start(self) -> None:
        """Prepare for calls; the first one connects."""
        if self._client is None:
            headers = {"content-type": "application/json"}
            if authorization := self.settings.authorization():
                headers["authorization"] = authorization
            limits = httpx.Limits(
                max_connections=self.settings.connections, max_keepalive_connections=self.settings.connections
            )
            self._client = httpx.AsyncClient(
                base_url=self.settings.http,
                headers=headers,
                limits=limits,
                verify=self._verification(),
            )

    def _verification(self) -> ssl.SSLContext | bool:
        if not self.settings.http.startswith("https:"):
            return False  # an httpx without authorities starts faster
        return http_context(self.settings.tls_files) or True

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def call(  # noqa: PLR0913 - each sets another property of a call
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        doing: str,
        seconds: float,
        params: dict[str, str] | None = None,
        is_send: bool = False,
        is_safe: bool = True,
        other_body: Callable[[], Any] | None = None,
        doubted: Callable[[], None] | None = None,
    ) -> bytes:
        """Return the body of a successful answer; `seconds` is for all tries together.

        Repeats a call that may succeed later; unless `is_safe`, only if it certainly was not carried out. In that case `other_body` makes
        another body for the next try. `doubted` is called when a try got no answer and may have been carried out. Raises GantryError.
        """
        content = None if body is None else msgspec.json.encode(body)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        failure: GantryError | None = None
        is_in_doubt = False
        for attempt in range(self.settings.retries + 1):
            if failure is not None:
                pause = _pause(attempt, failure, self.settings.machine.rng)
                if loop.time() + pause >= deadline:
                    break
                await asyncio.sleep(pause)
                if other_body is not None and not is_in_doubt:
                    content = msgspec.json.encode(other_body())
            left = deadline - loop.time()
            try:
                return await self._once(method, path, content, params, doing, left, is_send=is_send)
            except GantryError as error:
                failure = error
            if was_sent(failure):
                is_in_doubt = True
                if doubted is not None:
                    doubted()
            if not failure.retryable or (was_sent(failure) and not is_safe):
                break
        assert failure is not None
        raise in_doubt(failure) if is_in_doubt and (failure.retryable or is_send) else failure

    async def _once(
        self,
        method: str,
        path: str,
        content: bytes | None,
        params: dict[str, str] | None,
        doing: str,
        seconds: float,
        *,
        is_send: bool,
    ) -> bytes:
        if self._client is None:
            raise NotRunning(f"{doing}: the client is not running; use it in `async with`, or start it")
        try:
            response = await self._client.request(
                method, path, content=content, params=params, timeout=max(0.001, seconds)
            )
        except (
            httpx.TransportError,
            ssl.SSLError,
        ) as error:  # httpx lets errors of TLS after the handshake through
            raise failure_of(error, doing, self.settings.http) from error
        if response.is_success:
            return response.content
        raise error_of(problem_of(response), doing, is_send=is_send)


class GatewayClient:
    """The common part of HTTP clients: their settings, and their life from `start` to `close`, as an `async with` block."""

    def __init__(self, options: HttpOptions) -> None:
        self.settings: HttpSettings = make_settings(
            HttpSettings, http_tls_defaults() | cast("dict[str, Any]", options)
        )
        self._gateway = Gateway(self.settings)

    async def start(self) -> None:
        """Prepare for calls; the first one connects."""
        await self._gateway.start()

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        await self._gateway.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def was_sent(error: GantryError) -> bool:
    """Whether a failed call may have been carried out."""
    return isinstance(error, ConnectionFailed | TimedOut) and error.sent


def _pause(attempt: int, failure: GantryError, rng: random.Random) -> float:
    """Return the pause before another try: the gateway's, else doubled each time, with a random half."""
    pause_ms = getattr(failure, "retry_after_ms", None)
    if pause_ms is not None:
        return pause_ms / 1000
    longest = min(PAUSE_SECONDS_MAX, FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
    return longest * rng.uniform(0.5, 1.0)
