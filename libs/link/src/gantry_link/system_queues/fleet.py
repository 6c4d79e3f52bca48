"""Discovers stores: the masters that the nameservers list, by a slow poll and at once after a hint.

A store that no nameserver lists any more is kept for a while: nameservers restart with empty tables, and a store has work
to finish even without a route.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import NamedTuple

from gantry_link.clients.nameservers import NameserverClient
from gantry_wire.bodies.cluster import ClusterInfo
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import RequestCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command

POLL_SECONDS = 5.0
FORGET_SECONDS = 600.0
NO_ANSWER = "no nameserver has answered yet"
FIRST_POLL_SECONDS = 0.2
"""Poll interval until a nameserver has answered once."""


class StoreAt(NamedTuple):
    """A store: the broker name and the address of its master."""

    broker: str
    address: str


class Fleet:
    """The known stores. Calls `joined` and `left` on every change; a changed address causes both."""

    def __init__(
        self,
        names: NameserverClient,
        joined: Callable[[StoreAt], None],
        left: Callable[[StoreAt], None],
        *,
        poll_seconds: float = POLL_SECONDS,
        forget_seconds: float = FORGET_SECONDS,
    ) -> None:
        self.stores: dict[str, StoreAt] = {}
        self.unanswered: str | None = NO_ANSWER
        """Why no nameserver has answered since the start; None once one has."""
        self._names = names
        self._joined, self._left = joined, left
        self._poll_seconds, self._forget_seconds = poll_seconds, forget_seconds
        self._seen: dict[str, float] = {}
        self._wake = asyncio.Event()

    @property
    def addresses(self) -> list[str]:
        """The addresses of the known stores."""
        return [store.address for store in self.stores.values()]

    def hint(self) -> None:
        """Poll now, because routes may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Poll until cancelled. Run it as a supervised, named loop."""
        while True:
            self._wake.clear()
            await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_POLL_SECONDS if self.unanswered else self._poll_seconds):
                    await self._wake.wait()

    async def look(self) -> None:
        """Ask every nameserver once. Never raises. If none answers, no store gets closer to being forgotten."""
        found: dict[str, str] = {}
        is_answered = False
        failures: list[str] = []
        answers = await self._names.ask_each(RequestCode.GET_BROKER_CLUSTER_INFO)
        for answer in answers.values():
            if not isinstance(answer, Command):
                failures.append(str(answer))
                continue
            try:
                table = decode_body(answer.body, ClusterInfo).broker_addr_table
            except WireError:
                continue
            self.unanswered, is_answered = None, True
            found.update(
                {name: data.broker_addrs[0] for name, data in table.items() if 0 in data.broker_addrs}
            )
        now = asyncio.get_running_loop().time()
        if is_answered:
            self.take(found, now)
        else:
            self._seen = dict.fromkeys(self._seen, now)
            if self.unanswered and failures:
                self.unanswered = f"{NO_ANSWER} ({'; '.join(failures)})"

    def take(self, found: dict[str, str], now: float) -> None:
        """Apply the nameservers' answers of `now` (seconds of any monotonic clock)."""
        for broker, address in found.items():
            self._seen[broker] = now
            known = self.stores.get(broker)
            if known is not None and known.address == address:
                continue
            if known is not None:
                self._left(known)
            self.stores[broker] = store = StoreAt(broker, address)
            self._joined(store)
        for broker, seen in list(self._seen.items()):
            if broker not in found and now - seen > self._forget_seconds:
                del self._seen[broker]
                self._left(self.stores.pop(broker))
