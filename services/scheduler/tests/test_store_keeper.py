"""A store is served term after term, and a term that ended leaves nothing in memory."""

import asyncio
import contextlib
import gc
import weakref

import pytest

from gantry_link.errors import LinkError
from gantry_link.fleet import StoreAt
from scheduler import store_keeper
from scheduler.store_keeper import StoreKeeper

pytestmark = pytest.mark.anyio


class FailingTerm:
    """Ends by an error whose traceback holds it."""

    def fail(self):
        try:
            raise LinkError("the store is away", sent=True)
        except LinkError as error:
            self.error = error


async def test_what_a_term_left_is_freed_before_the_next_begins(monkeypatch):
    left = []

    async def levels(_keeper):
        return (1000,)

    async def serve(_keeper, _store):
        if len(left) == 2:
            raise asyncio.CancelledError
        assert [term() for term in left] == [None] * len(left)
        term = FailingTerm()
        term.fail()
        left.append(weakref.ref(term))

    monkeypatch.setattr(store_keeper.StoreKeeper, "_levels", levels)
    monkeypatch.setattr(store_keeper.StoreKeeper, "_serve", serve)
    gc.disable()
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await StoreKeeper(StoreAt("broker-a", "127.0.0.1:1"), None, None).run()
    finally:
        gc.enable()
    assert len(left) == 2
