"""Serves one store: reads its levels, tries for the claims, works a term while it holds them, and starts over."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.memory import forget_cycles
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.system_queues.claims import RELEASED, Claims, Held, QueueKey
from gantry_link.system_queues.fleet import StoreAt
from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.settling import StoreTimeReplyHeader
from scheduler.index.entries import LEVELS_MAX
from scheduler.terms.levels import DEFAULT_LEVELS, level_durations_ms
from scheduler.terms.term import StoreToServe, Term, TermContext, claimed_queues

AWAY_SECONDS = 0.5
LEVELS_SETTING = "messageDelayLevel"

_log = get_logger()


class Identity(NamedTuple):
    """Our identity towards stores and towards clients that look for the claim holder."""

    owner: str
    address: str
    ttl_ms: int
    data_dir: Path
    around: TermContext


class StoreKeeper:
    """Serves one store while it is known."""

    def __init__(self, at: StoreAt, pool: ConnectionPool, identity: Identity) -> None:
        self.at = at
        self.term: Term | None = None
        """The running term; None while another scheduler holds the claims or the store is away."""
        self.claims: Claims | None = None
        self.client = StoreClient(pool, at.address)
        self._identity = identity
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            try:
                levels = await self._levels()
            except (BrokerRefused, LinkError, ValueError) as error:
                _log.debug("store is away", broker=self.at.broker, error=str(error))
                await asyncio.sleep(AWAY_SECONDS)
                continue
            await self._serve(StoreToServe(self.at.broker, self.client, levels))
            forget_cycles()

    async def _levels(self) -> tuple[int, ...]:
        """Return the delay of each level queue's messages that do not carry their own.

        Queues of removed levels follow. The last existing level applies to them, as for sends that name them.
        """
        config = await self.client.broker_config()
        levels = level_durations_ms(config.get(LEVELS_SETTING, DEFAULT_LEVELS))
        reply = (await self.client.ask(GantryCode.STORE_TIME)).read(StoreTimeReplyHeader)
        followed = min(max(reply.delay_queues, len(levels)), LEVELS_MAX)
        return levels + levels[-1:] * (followed - len(levels))

    async def _serve(self, store: StoreToServe) -> None:
        """Hold the claims and work until they are lost or the work fails. The levels are read again after that."""
        loop = asyncio.get_running_loop()
        self._ended.clear()
        working: asyncio.Task[None] | None = None

        def acquired(held: dict[QueueKey, Held]) -> None:
            nonlocal working
            if self._ended.is_set():
                return  # lost and granted again in one step: the old term ends first, then the claims are taken again
            _log.info("claims acquired", broker=self.at.broker, queues=len(held))
            us = self._identity
            file = us.data_dir / f"{self.at.broker}.due.sqlite"
            self.term = Term(store, held, file, us.around, claims.fenced)
            working = loop.create_task(self.term.run(), name=f"term of {self.at.broker}")
            working.add_done_callback(lambda _: self._ended.set())

        def lost(why: str) -> None:
            (_log.info if why == RELEASED else _log.warning)("claims lost", broker=self.at.broker, why=why)
            self.term = None
            self._ended.set()

        us = self._identity
        claims = self.claims = Claims(
            self.client,
            claimed_queues(len(store.level_ms)),
            owner=us.owner,
            address=us.address,
            acquired=acquired,
            lost=lost,
            ttl_ms=us.ttl_ms,
        )
        claiming = loop.create_task(claims.run(), name=f"claims on {self.at.broker}")
        claiming.add_done_callback(lambda _: self._ended.set())
        try:
            await self._ended.wait()
        finally:
            self.term = None
            tasks = [task for task in (working, claiming) if task is not None]
            for task in tasks:
                task.cancel()
            for result in await _results(tasks):
                if isinstance(result, Exception):
                    self._say_failed(result)
                    await asyncio.sleep(AWAY_SECONDS)

    def _say_failed(self, error: Exception) -> None:
        """Log why a term ended. A disk that rejects the index, or a store that goes away, is not a bug."""
        of_disk, others = _divide(error, (sqlite3.Error, OSError))
        for one in of_disk:
            _log.error(
                "cannot write the due index; trying again",
                broker=self.at.broker,
                directory=str(self._identity.data_dir),
                reason=str(one),
            )
        if others is None:
            return
        of_store, bugs = _divide(others, (BrokerRefused, LinkError))
        for one in of_store:
            _log.warning("the store ended a term; trying again", broker=self.at.broker, reason=str(one))
        if bugs is not None:
            _log.error("term failed", broker=self.at.broker, exc_info=bugs)


async def _results(tasks: Sequence[asyncio.Task[None]]) -> list[BaseException | None]:
    """Wait for tasks to end. A second cancellation of ours does not cancel them again: a term is closing its index."""
    ending = asyncio.gather(*tasks, return_exceptions=True)
    is_cancelled = False
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError
    return ending.result()


def _divide(error: Exception, kinds: tuple[type[Exception], ...]) -> tuple[list[Exception], Exception | None]:
    """Split the errors that ended a term into those of these kinds and the rest."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        of_kinds, others = group.split(kinds)
        return ([] if of_kinds is None else list(of_kinds.exceptions)), others
    return ([error], None) if isinstance(error, kinds) else ([], error)
