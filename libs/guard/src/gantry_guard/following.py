"""Follows the users, policies and tokens of a cluster: asks each store for what changed (9055), and merges it by time.

A store holds the request until there is news, so a change is known within a fraction of a second. While stores are away the last state counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from gantry_access.entries.entry import Entry, decode_entry
from gantry_access.entries.table import AccessTable
from gantry_access.errors import UnreadableRecord
from gantry_chassis.logs.structured import get_logger
from gantry_link.connections.connection import Connection
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError, NotConnected
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command
from gantry_wire.private_requests.access_changes import WAIT_MS_MAX, AccessChanges, AskAccessChanges

STORES_SECONDS = 0.5
"""Interval at which the list of stores is read."""
PAUSE_SECONDS = 0.3
"""Pause after a failure. The pool's own back-off comes on top."""
ANSWER_SECONDS = 5.0
"""Time for an answer beyond the time that the store may hold the request."""
CONNECTION_CLASS = "access"

_log = get_logger()
_encode = msgspec.json.Encoder().encode


class AccessFollower:
    """Keeps an AccessTable up to date with all stores that `stores` returns."""

    def __init__(
        self,
        table: AccessTable,
        stores: Callable[[], Iterable[str]],
        pool: ConnectionPool,
        is_introduced: Callable[[Connection], bool],
        on_news: Callable[[list[Entry]], None] | None = None,
    ) -> None:
        """Follow the addresses that `stores` returns, read twice a second.

        `pool` introduces its connections, `is_introduced` returns whether it did: no other store is believed. `on_news` gets entries that
        replaced others.
        """
        self._table, self._stores, self._pool, self._on_news = table, stores, pool, on_news
        self._is_introduced = is_introduced
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._reasons: dict[str, str] = {}
        self.unreadable = 0
        """Entries that were left out because this process cannot read them."""

    @property
    def following(self) -> list[str]:
        """The addresses of the stores whose last answer came."""
        return sorted(address for address in self._tasks if address not in self._reasons)

    async def run(self) -> None:
        """Follow until cancelled. Run it as a supervised, named loop."""
        try:
            while True:
                self._look()
                await asyncio.sleep(STORES_SECONDS)
        finally:
            tasks = list(self._tasks.values())
            self._tasks.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _look(self) -> None:
        """Follow the stores that are there now, and no others. A task that failed begins again."""
        wanted = dict.fromkeys(self._stores())
        for address in [one for one in self._tasks if one not in wanted]:
            self._tasks.pop(address).cancel()
            self._reasons.pop(address, None)
        for address in wanted:
            task = self._tasks.get(address)
            if task is None or task.done():
                if task is not None and not task.cancelled() and task.exception() is not None:
                    _log.error("following access control failed", store=address, exc_info=task.exception())
                self._reasons.setdefault(address, "not asked yet")
                self._tasks[address] = asyncio.create_task(self._follow(address), name=f"access of {address}")

    async def _follow(self, address: str) -> None:
        run, version, more = "", 0, False
        while True:
            asked = AskAccessChanges(run=run, version=version, wait_ms=WAIT_MS_MAX if run and not more else 0)
            try:
                answer = await self._ask(address, asked)
            except (LinkError, WireError) as error:
                self._away(address, str(error))
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self._take(address, answer)
            run, version, more = answer.run, answer.version, answer.more
            if not more:
                self._table.is_complete = True

    async def _ask(self, address: str, asked: AskAccessChanges) -> AccessChanges:
        connection = await self._pool.get(address, CONNECTION_CLASS)
        if not self._is_introduced(connection):
            raise NotConnected("access control is off there")
        answer: Command = await connection.request(
            GantryCode.ACCESS_CHANGES, None, _encode(asked), asked.wait_ms / 1000 + ANSWER_SECONDS
        )
        if answer.code != ResponseCode.SUCCESS:
            raise WireError(f"code {answer.code}: {answer.remark}")
        return decode_body(answer.body, AccessChanges)

    def _take(self, address: str, answer: AccessChanges) -> None:
        if self._reasons.pop(address, None) is not None:
            _log.info("following access control of a store", store=address)
        entries = list(self._read(address, answer.entries))
        try:
            news = self._table.take(entries)
        except UnreadableRecord:  # one of them: the others count
            news: list[Entry] = []
            for entry in entries:
                try:
                    news += self._table.take((entry,))
                except UnreadableRecord as error:
                    self._left_out(address, error)
        if news and self._on_news is not None:
            self._on_news(news)

    def _read(self, address: str, raws: Iterable[msgspec.Raw]) -> Iterable[Entry]:
        for raw in raws:
            try:
                yield decode_entry(bytes(raw))
            except UnreadableRecord as error:
                self._left_out(address, error)

    def _left_out(self, address: str, error: UnreadableRecord) -> None:
        self.unreadable += 1
        _log.error("an entry of access control is left out", store=address, reason=str(error))

    def _away(self, address: str, reason: str) -> None:
        if self._reasons.get(address) in (None, "not asked yet"):
            _log.warning("cannot follow access control of a store", store=address, reason=reason)
        self._reasons[address] = reason
