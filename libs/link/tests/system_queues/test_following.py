"""A follower reads a queue once and in order, whatever the store answers."""

import asyncio
import contextlib
import random

import pytest
from scripted_link import eventually

from gantry_link.clients.store import Pulled
from gantry_link.errors import BrokerRefused, NotConnected
from gantry_link.system_queues.following import Follower

pytestmark = pytest.mark.anyio


class ScriptedStore:
    """Answers pulls from a list. Holds every further pull forever."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def pull(self, header):
        self.asked.append(header)
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def found(following, end, records=b"r"):
    return Pulled(0, following, 0, end, "", records)


@contextlib.asynccontextmanager
async def followed(store, take, offset=0, **more):
    follower = Follower(store, ("T", 3), "G", take, rng=random.Random(1), **more)
    task = asyncio.get_running_loop().create_task(follower.run(offset))
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_answers_are_taken_in_order_and_the_next_pull_is_sent_ahead():
    store, taken = ScriptedStore(found(2, 5, b"a"), found(5, 5, b"b")), []
    async with followed(store, lambda pulled: taken.append(pulled.records)) as follower:
        await eventually(lambda: follower.metrics.has_caught_up)
        assert taken == [b"a", b"b"]
        assert follower.metrics.next_offset == 5
        await eventually(lambda: len(store.asked) == 3)
    assert [(one.topic, one.queue_id, one.queue_offset) for one in store.asked] == [
        ("T", 3, 0),
        ("T", 3, 2),
        ("T", 3, 5),
    ]


async def test_failed_pulls_are_reported_and_repeated_from_the_same_offset():
    reasons, taken = [], []
    store = ScriptedStore(NotConnected("away"), BrokerRefused(16, "no"), found(9, 9))
    async with followed(store, taken.append, 8, failed=reasons.append) as follower:
        await eventually(lambda: taken)
    assert [one.queue_offset for one in store.asked[:3]] == [8, 8, 8]
    assert reasons == ["away", "code 16: no"]
    assert follower.metrics.failures == 2


async def test_an_offset_outside_the_queue_moves_to_where_the_store_says():
    store = ScriptedStore(Pulled(21, 40, 40, 50, "", b""), found(50, 50))
    async with followed(store, lambda _pulled: None, 7) as follower:
        await eventually(lambda: follower.metrics.has_caught_up)
    assert follower.metrics.moved == 1
    assert store.asked[1].queue_offset == 40


async def test_an_offset_counts_as_read_after_the_awaitable_of_take():
    gate = asyncio.Event()
    store = ScriptedStore(found(1, 1))
    async with followed(store, lambda _pulled: gate.wait()) as follower:
        await eventually(lambda: len(store.asked) == 2)
        assert follower.metrics.next_offset == 0
        gate.set()
        await eventually(lambda: follower.metrics.next_offset == 1)


async def test_it_pauses_only_at_the_end_of_the_queue_and_after_records():
    store, pauses = ScriptedStore(found(2, 5), found(5, 5), found(5, 5, b""), found(6, 6)), []

    def pause():
        pauses.append(store.asked[-1].queue_offset)
        return 0.001

    async with followed(store, lambda _pulled: None, pause_seconds=pause):
        await eventually(lambda: len(store.asked) == 5)
    assert pauses == [2, 5]
    assert [one.queue_offset for one in store.asked] == [0, 2, 5, 5, 6]
