"""A store is served term after term, and an ended term leaves nothing in memory."""

import asyncio
import contextlib
import gc
import weakref
from pathlib import Path

import msgspec
import pytest

from gantry_link.errors import BrokerRefused, ConnectionLost, LinkError
from gantry_link.system_queues.fleet import StoreAt
from gantry_wire.frames.command import Command
from gantry_wire.private_requests.settling import ClaimBody, ClaimReplyBody, GrantedClaim, decode_json
from scheduler.terms import store_keeper
from scheduler.terms.store_keeper import Identity, StoreKeeper, _divide
from scheduler.terms.term import StoreToServe

pytestmark = pytest.mark.anyio


class FailingTerm:
    """Fails with an error whose traceback holds the term."""

    def fail(self):
        try:
            raise LinkError("the store is away", sent=True)
        except LinkError as error:
            self.error = error


async def test_a_term_is_freed_before_the_next_begins(monkeypatch):
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


class LevelsStore:
    """Reports its levels and its number of level queues."""

    def __init__(self, queues):
        self.queues = queues

    async def broker_config(self):
        return {"messageDelayLevel": "1s 5s"}

    async def ask(self, _code):
        return Command(fields={"storeTimeMs": "1", "wallTimeMs": "1", **self.queues})


@pytest.mark.parametrize(
    ("queues", "levels"),
    [
        ({}, (1000, 5000)),
        ({"delayQueues": "2"}, (1000, 5000)),
        ({"delayQueues": "4"}, (1000, 5000, 5000, 5000)),
        ({"delayQueues": "99999"}, (1000, *[5000] * 1023)),
    ],
)
async def test_queues_of_removed_levels_are_followed_too(queues, levels, monkeypatch):
    served = []

    async def serve(_keeper, store):
        served.append(store.level_ms)
        raise asyncio.CancelledError

    monkeypatch.setattr(store_keeper.StoreKeeper, "_serve", serve)
    keeper = StoreKeeper(StoreAt("broker-a", "127.0.0.1:1"), None, None)
    keeper.client = LevelsStore(queues)
    with contextlib.suppress(asyncio.CancelledError):
        await keeper.run()
    assert served == [levels]


class GrantingStore:
    """Grants every claim."""

    async def ask(self, _code, _fields, body):
        queues = decode_json(body, ClaimBody).queues
        return Command(body=msgspec.json.encode(ClaimReplyBody([GrantedClaim(1, 0, 0)] * len(queues), 1)))

    async def tell(self, _code, _fields):
        pass


async def test_stopping_the_keeper_lets_an_ending_term_finish(monkeypatch):
    begun, ending, let_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event(), []

    class SlowTerm:
        def __init__(self, *_):
            pass

        async def run(self):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ending.set()
                await let_end.wait()
                ended.append(True)

    monkeypatch.setattr(store_keeper, "Term", SlowTerm)
    identity = Identity("us", "127.0.0.1:2", 3000, Path(), None)
    keeper = StoreKeeper(StoreAt("broker-a", "127.0.0.1:1"), None, identity)
    keeper.client = GrantingStore()
    serving = asyncio.ensure_future(keeper._serve(StoreToServe("broker-a", keeper.client, (1000,))))
    await begun.wait()
    keeper.claims.fenced("held by another")
    await ending.wait()
    serving.cancel()
    await asyncio.sleep(0.01)
    assert not serving.done()
    let_end.set()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert ended == [True]


def test_a_lost_store_is_divided_from_bugs_in_the_errors_of_a_term():
    lost, bug = ConnectionLost("gone", sent=True), KeyError("a bug")
    assert _divide(ExceptionGroup("term", [lost, bug]), (BrokerRefused, LinkError))[0] == [lost]
    others = _divide(ExceptionGroup("term", [lost, bug]), (BrokerRefused, LinkError))[1]
    assert isinstance(others, ExceptionGroup)
    assert list(others.exceptions) == [bug]
    assert _divide(ExceptionGroup("term", [lost]), (BrokerRefused, LinkError)) == ([lost], None)
