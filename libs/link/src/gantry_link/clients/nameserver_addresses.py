"""Addresses of the nameservers: from a fixed list, from DNS, or from an HTTP address server.

Reads the addresses again every two minutes. If that fails, keeps the previous ones.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

from gantry_link.connections.connection import split_address
from gantry_link.errors import NotConnected

REREAD_SECONDS = 120.0
"""RocketMQ's interval."""
HTTP_SECONDS = 3.0
LIST_BYTES_MAX = 64 * 1024
ADDRESSES_MAX = 64
SCHEMES = ("http://", "https://")


class Addresses:
    """The current addresses of one cluster's nameservers."""

    def __init__(self, source: str | Sequence[str]) -> None:
        """`source`: "host:port;host:port", a list of addresses, or one http(s) URL that returns such a list."""
        text = source if isinstance(source, str) else ";".join(source)
        self._url = text if text.startswith(SCHEMES) else None
        self._listed = [] if self._url else split_list(text)
        self._known: list[str] = []
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self.failed_reads: int = 0
        self.last_failure: str = ""

    async def current(self) -> list[str]:
        """Return the addresses; read them again if they are two minutes old. Raises NotConnected if none was ever known.

        Only one caller waits for the read; the others use the previous addresses meanwhile.
        """
        if not self._is_old():
            return self._known
        if self._known and self._reading.locked():
            return self._known
        async with self._reading:
            if self._is_old():
                await self._read()
        if not self._known:
            raise NotConnected(f"no nameserver address is known: {self.last_failure or 'the list is empty'}")
        return self._known

    def _is_old(self) -> bool:
        if self._read_at is None:
            return True
        return asyncio.get_running_loop().time() - self._read_at >= REREAD_SECONDS

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            listed = await self._fetch(self._url) if self._url else self._listed
            found = await self._resolve_all(listed)
        except (OSError, NotConnected) as error:
            self.failed_reads += 1
            self.last_failure = str(error)
            self._read_at = loop.time() if self._known else None
            return
        self._known = found[:ADDRESSES_MAX]
        self._read_at = loop.time()

    async def _resolve_all(self, listed: list[str]) -> list[str]:
        """Return all addresses of all entries. Raises NotConnected only if no name resolves."""
        found: dict[str, None] = {}
        failure = ""
        for entry in listed:
            try:
                found.update(dict.fromkeys(await _resolve(entry)))
            except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
                self.last_failure = failure = f"{entry}: {error}"
        if failure and not found:
            raise NotConnected(failure)
        return list(found)

    async def _fetch(self, url: str) -> list[str]:
        text = await asyncio.to_thread(_get, url)
        listed = split_list(text)
        if not listed:
            raise NotConnected(f"{url} returned no addresses")
        return listed


def split_list(text: str) -> list[str]:
    """Return the addresses of "host:port;host:port"; commas and newlines separate too. Raises NotConnected for an invalid one."""
    entries = text.replace(",", ";").replace("\n", ";").split(";")
    listed = [entry.strip() for entry in entries if entry.strip()]
    for entry in listed:
        split_address(entry)
    return listed


async def _resolve(entry: str) -> list[str]:
    """Return "ip:port" for all addresses of a name (only IPv4 if it has any), or the entry itself if it is an IP address."""
    host, port = split_address(entry)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return [entry]
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    v4 = [str(info[4][0]) for info in infos if info[0] == socket.AF_INET]
    return [f"{ip}:{port}" for ip in v4] or [f"[{info[4][0]}]:{port}" for info in infos]


def _get(url: str) -> str:
    """Return the body from an address server. Raises OSError, also if the answer is not HTTP."""
    import urllib.request  # takes 8 MB of memory with TLS, so only with an address server
    from http.client import HTTPException

    try:
        # The constructor checked the scheme, so no file: or other handlers.
        with urllib.request.urlopen(url, timeout=HTTP_SECONDS) as answer:  # noqa: S310
            return answer.read(LIST_BYTES_MAX).decode("utf-8", "replace")
    except (HTTPException, ValueError) as error:
        raise OSError(f"{url}: {type(error).__name__}: {error}") from error
