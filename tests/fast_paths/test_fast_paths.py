"""Fast and slow paths side by side over random traffic, from the bytes of HTTP and remoting to the bytes of the log and the answers."""

import asyncio
import random

import pytest
from traffic import Requests, Traffic
from whole_way import LINES, WholeWay

MESSAGES = 3_000
MESSAGES_OF_SOAK = 1_000_000
MESSAGES_A_LIFE = 4_000
"""A new pair of systems begins after so many: simulated disks are in memory."""


async def compare_life(rng):
    """Give both paths the same traffic, and compare every answer and both logs. Returns messages, and requests on the fast path."""
    traffic = Traffic(rng, LINES)
    fast, slow = (WholeWay(traffic.topics, fast_paths=fast_paths) for fast_paths in (True, False))
    for step in traffic.steps():
        if isinstance(step, Requests):
            answers = [await way.post_all(step.requests) for way in (fast, slow)]
        else:
            answers = [await way.receive(step.data) for way in (fast, slow)]
        assert answers[0] == answers[1], step
        if traffic.messages >= MESSAGES_A_LIFE:
            break
    assert fast.log() == slow.log()
    assert fast.quick
    assert not slow.quick
    for way in (fast, slow):
        await way.close()
    return traffic.messages, fast.quick


async def compare(seed, messages):
    """Compare lives until so many messages were sent. Returns the messages that the logs hold."""
    rng = random.Random(seed)
    sent = 0
    while sent < messages:
        sent += (await compare_life(rng))[0]
    return sent


def test_fast_and_slow_paths_have_the_same_result_for_random_traffic(seed):
    asyncio.run(compare(seed, MESSAGES))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_fast_and_slow_paths_have_the_same_result_for_a_million_messages(seed):
    asyncio.run(compare(seed, MESSAGES_OF_SOAK))
