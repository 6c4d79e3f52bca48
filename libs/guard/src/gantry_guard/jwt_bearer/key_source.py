"""Follows the key set of an identity provider, in a file or at an address. A bad one is reported, and the keys before it stay in use."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Awaitable, Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gantry_chassis.logs.structured import get_logger
from gantry_guard.jwt_bearer.key_set import SET_BYTES_MAX, KeySet, MalformedKeySet

FILE_SECONDS = 1.0
"""Time between two looks at a file."""
URL_SECONDS = 300.0
RETRY_SECONDS = 10.0
"""Time until the next attempt after one that failed."""
FETCH_SECONDS_MAX = 10.0
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_log = get_logger()


class FollowedKeys:
    """The latest good key set of a source."""

    def __init__(self, source: str, read: Callable[[], Awaitable[bytes]], every_seconds: float) -> None:
        """`source` is the name in log lines. `read` returns the set; it raises OSError."""
        self._source, self._read, self._every_seconds = source, read, every_seconds
        self._data: bytes | None = None
        self.keys = KeySet()
        """Without a key before the first good set."""
        self.version = 0
        """Grows with every other set: what was verified before may not verify now."""

    async def look(self) -> bool:
        """Read the source once; return whether it holds a good set. Never raises."""
        try:
            data = await self._read()
            if data != self._data:
                self.keys, self._data = KeySet.parse(data), data
                self.version += 1
                _log.info("keys of JWT read", source=self._source, keys=len(self.keys))
        except (OSError, HTTPException, MalformedKeySet) as error:
            _log.warning("the keys of JWT cannot be read; those before stay in use", source=self._source, error=str(error), keys=len(self.keys))  # fmt: skip
            return False
        return True

    async def run(self, sleep: Callable[[float], Awaitable[bool]]) -> None:
        """Look again and again until `sleep` returns True, at the end of the process."""
        is_good = await self.look()
        while not await sleep(self._every_seconds if is_good else min(self._every_seconds, RETRY_SECONDS)):
            is_good = await self.look()


def keys_of_file(path: str) -> FollowedKeys:
    """Return the keys in a file."""
    file = Path(path)

    async def read() -> bytes:
        return await asyncio.to_thread(file.read_bytes)

    return FollowedKeys(path, read, FILE_SECONDS)


def keys_at_url(url: str) -> FollowedKeys:
    """Return the keys at an address. Raises ValueError unless it is https, or http on this machine: who answers may name any user."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise ValueError(f"{url} is not https: anyone on the way could publish keys")

    async def read() -> bytes:
        return await asyncio.to_thread(_fetch, url)

    return FollowedKeys(url, read, URL_SECONDS)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Another address than the configured one publishes no keys."""

    def redirect_request(self, *_arguments: Any, **_options: Any) -> None:
        return None


def _fetch(url: str) -> bytes:
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=FETCH_SECONDS_MAX) as answer:
        return answer.read(SET_BYTES_MAX + 1)
