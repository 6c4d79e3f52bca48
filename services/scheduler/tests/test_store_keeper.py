"""A keeper lets go of a term at its end, before the next one fills an index of its own."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gantry_link.fleet import StoreAt
from gantry_link.pool import ConnectionPool
from scheduler import store_keeper
from scheduler.store_keeper import Ourselves, StoreKeeper

TERMS = 3


class _Term:
    """Lies in a cycle as the real one does, and fails as it does when its store is gone."""

    alive: list[weakref.ref[_Term]] = []  # noqa: RUF012

    def __init__(self, *_: object) -> None:
        self.itself = self
        self.alive.append(weakref.ref(self))

    async def run(self) -> None:
        raise ConnectionResetError("the store is gone")


class _Claims:
    def __init__(self, *_: object, acquired: Callable[[dict[Any, Any]], None], **_more: object) -> None:
        self._acquired = acquired

    def fenced(self, _why: str) -> None:
        raise AssertionError("nothing is settled here")

    async def run(self) -> None:
        self._acquired({})
        await asyncio.Event().wait()


@pytest.mark.anyio
async def test_an_ended_term_is_gone_before_the_next_one_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(store_keeper, "Term", _Term)
    monkeypatch.setattr(store_keeper, "Claims", _Claims)
    monkeypatch.setattr(store_keeper, "AWAY_SECONDS", 0.001)
    pool = ConnectionPool()
    around: Any = None
    keeper = StoreKeeper(
        StoreAt("broker-a", "127.0.0.1:1"), pool, Ourselves("me", "127.0.0.1:2", 3000, tmp_path, around)
    )
    seen: list[int] = []

    async def levels(_self: StoreKeeper) -> tuple[int, ...]:
        seen.append(sum(ref() is not None for ref in _Term.alive))
        return (1000,)

    monkeypatch.setattr(StoreKeeper, "_levels", levels)
    _Term.alive.clear()
    gc.disable()  # what goes here goes by the keeper's doing
    try:
        running = asyncio.create_task(keeper.run())
        async with asyncio.timeout(60):
            while len(seen) <= TERMS:
                await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    finally:
        gc.enable()
        await pool.close()
    assert len(_Term.alive) >= TERMS
    assert seen[: TERMS + 1] == [0] * (TERMS + 1)
