"""Turns rotate among the owners, however much one of them requests. Within one owner they are in order."""

import asyncio

import pytest

from broker_store.reading.filtered.fair_turns import FairTurns

pytestmark = pytest.mark.anyio


async def test_an_owner_with_much_work_delays_only_itself():
    turns, order = FairTurns(), []

    async def work(owner, number):
        async with turns.of(owner):
            order.append((owner, number))
            await asyncio.sleep(0)

    greedy = [asyncio.ensure_future(work(1, number)) for number in range(6)]
    await asyncio.sleep(0)
    others = [asyncio.ensure_future(work(owner, number)) for number in range(2) for owner in (2, 3)]
    await asyncio.gather(*greedy, *others)
    assert order[:8] == [(1, 0), (1, 1), (1, 2), (2, 0), (3, 0), (1, 3), (2, 1), (3, 1)]
    assert order[8:] == [(1, 4), (1, 5)]


async def test_one_works_at_a_time_and_a_cancelled_wait_delays_no_other():
    turns, inside, seen = FairTurns(), [0], []

    async def work(owner):
        async with turns.of(owner):
            inside[0] += 1
            seen.append(inside[0])
            await asyncio.sleep(0)
            inside[0] -= 1

    tasks = [asyncio.ensure_future(work(number % 3)) for number in range(12)]
    await asyncio.sleep(0)
    for task in tasks[1:12:2]:
        task.cancel()
    await asyncio.wait(tasks)
    assert seen == [1] * 6
    await asyncio.wait_for(work(9), 60)


async def test_a_turn_given_to_a_cancelled_wait_is_passed_on():
    turns, done = FairTurns(), []

    async def work(name, owner):
        async with turns.of(owner):
            done.append(name)

    async with turns.of(1):
        second = asyncio.ensure_future(work("second", 2))
        third = asyncio.ensure_future(work("third", 3))
        await asyncio.sleep(0)
    second.cancel()  # it has the turn and has not run since
    await asyncio.wait([second, third])
    assert done == ["third"]
    await asyncio.wait_for(work("later", 4), 60)
