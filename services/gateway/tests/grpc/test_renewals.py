"""Leases of push consumers are extended while the client lives, by RocketMQ's schedule."""

from __future__ import annotations

import asyncio

import pytest
from gateway_grpc_consumers import caller_of, handle_of

from gateway.grpc.consuming import renewals as module
from gateway.ports.stores import PeerAway

pytestmark = pytest.mark.anyio
PUSH = "push"


class Extensions:
    """Records the extensions of a store, with the time of each."""

    def __init__(self, consumers) -> None:
        self.asked: list[tuple[float, int, int]] = []
        """Second, how many messages, and ms."""
        store, clocks = consumers.store, consumers.system.clocks
        extend = store.extend

        async def note(topic, group, items, invisible_ms):
            self.asked.append((clocks.seconds - 1000.0, len(items), invisible_ms))
            return await extend(topic, group, items, invisible_ms)

        store.extend = note


@pytest.fixture
def extensions(consumers):
    consumers.alive.add(PUSH)
    return Extensions(consumers)


async def pass_time(consumers, seconds: float) -> None:
    """Let the clock reach each second; the sweep comes once a second."""
    for _ in range(round(seconds)):
        consumers.system.clocks.advance(1.0)
        consumers.renewals.sweep()
        await settled(consumers)


async def settled(consumers) -> None:
    while consumers.renewals._tasks:
        await asyncio.gather(*consumers.renewals._tasks)


async def push_messages(consumers, *bodies: str):
    await consumers.put(*bodies)
    return await consumers.messages(caller_of(PUSH), renew=True)


async def test_leases_are_extended_before_they_end_longer_each_time(consumers, extensions):
    await push_messages(consumers, "a", "bb")
    await pass_time(consumers, 3 * 3600 + 10)
    steps = [(at, ms // 60_000) for at, _count, ms in extensions.asked[:7]]
    assert steps == [(50, 1), (100, 3), (270, 5), (560, 10), (1150, 30), (2940, 60), (6530, 60)]
    assert {count for _at, count, _ms in extensions.asked} == {2}
    assert consumers.store.delays == [-1, -1]  # given back once, three hours after the delivery
    assert consumers.store.reasons
    assert consumers.renewals.count == 0


async def test_no_lease_ends_between_two_extensions(consumers, extensions):
    await push_messages(consumers, "a")
    await pass_time(consumers, 3 * 3600 - 1)
    ends = 60.0
    for at, _count, ms in extensions.asked:
        assert at < ends
        ends = at + ms / 1000
    assert ends >= 3 * 3600


async def test_settled_messages_are_extended_no_longer(consumers, extensions):
    acked, changed, forwarded, kept = await push_messages(consumers, "a", "bb", "ccc", "dddd")
    push = caller_of(PUSH)
    await consumers.ack(acked, caller=push)
    await consumers.change(changed, 5000, push)
    await consumers.forward(forwarded, push)
    assert consumers.renewals.count == 1
    assert consumers.renewals.holds(PUSH, handle_of(kept))
    await pass_time(consumers, 51)
    assert extensions.asked == [(50, 1, 60_000)]
    await consumers.ack(kept, caller=push)
    assert not consumers.renewals._due
    assert not consumers.renewals._by_client


async def test_an_acknowledgement_that_failed_leaves_the_lease_extended(consumers, extensions):
    (message,) = await push_messages(consumers, "a")
    store = consumers.system.stores["broker-a"]
    store.away = PeerAway("broker-a", True, "no answer")
    await consumers.ack(message, caller=caller_of(PUSH))
    store.away = None
    assert consumers.renewals.count == 1


async def test_leases_that_are_over_are_forgotten(consumers, extensions):
    await push_messages(consumers, "a")
    consumers.store.expire()
    await pass_time(consumers, 120)
    assert len(extensions.asked) == 1
    assert consumers.renewals.count == 0


async def test_a_failed_extension_is_tried_again_three_times(consumers, extensions):
    await push_messages(consumers, "a")
    consumers.system.stores["broker-a"].away = PeerAway("broker-a", True, "no answer")
    await pass_time(consumers, 52)
    consumers.system.stores["broker-a"].away = None
    await pass_time(consumers, 60)
    assert consumers.renewals.count == 1  # an attempt succeeded
    consumers.system.stores["broker-a"].away = PeerAway("broker-a", True, "no answer")
    await pass_time(consumers, 600)
    assert consumers.renewals.count == 0
    assert len(extensions.asked) == 3 + 3


async def test_a_client_that_leaves_loses_its_leases_within_a_second(consumers, extensions):
    await push_messages(consumers, "a", "bb")
    consumers.alive.add("other")
    await consumers.put("ccc")
    await consumers.messages(caller_of("other"), renew=True)
    consumers.renewals.leave(PUSH)
    await settled(consumers)
    assert extensions.asked == [(0, 2, 1000)]
    assert consumers.renewals.count == 1
    consumers.renewals.leave("nobody")


async def test_leases_of_a_client_that_is_silent_are_extended_no_longer(consumers, extensions):
    await push_messages(consumers, "a")
    consumers.alive.discard(PUSH)
    await pass_time(consumers, 60)
    assert not extensions.asked
    assert consumers.renewals.count == 0


async def test_a_client_may_leave_while_its_leases_are_extended(consumers, extensions):
    await push_messages(consumers, "a")
    consumers.system.clocks.advance(50)
    consumers.renewals.sweep()
    consumers.renewals.leave(PUSH)
    await settled(consumers)
    assert [ms for _at, _count, ms in extensions.asked] == [1000]
    assert consumers.renewals.count == 0


async def test_the_number_of_extended_leases_is_limited(consumers, extensions, monkeypatch):
    monkeypatch.setattr(module, "RENEWED_MAX", 2)
    await push_messages(consumers, "a", "bb")
    await push_messages(consumers, "ccc")
    assert consumers.renewals.count == 2


async def test_many_leases_are_extended_in_requests_of_limited_size(consumers, extensions, monkeypatch):
    monkeypatch.setattr(module, "ITEMS_MAX", 3)
    for body in ("a", "b", "c", "d"):
        await push_messages(consumers, body, body)
    await pass_time(consumers, 50)
    assert sorted(count for _at, count, _ms in extensions.asked) == [2, 2, 2, 2]
    consumers.renewals.leave(PUSH)
    await settled(consumers)
    assert sorted(count for _at, count, _ms in extensions.asked[4:]) == [2, 3, 3]


async def test_the_timer_runs_while_there_are_leases(consumers, extensions, monkeypatch):
    monkeypatch.setattr(module, "SWEEP_SECONDS", 0.01)
    (message,) = await push_messages(consumers, "a")
    consumers.system.clocks.advance(50)
    while not extensions.asked:
        await asyncio.sleep(0.01)
    await settled(consumers)
    await consumers.ack(message, caller=caller_of(PUSH))
    while consumers.renewals._timer is not None:
        await asyncio.sleep(0.01)


async def test_nothing_is_left_after_close(consumers, extensions):
    await push_messages(consumers, "a")
    consumers.renewals.close()
    assert (consumers.renewals.count, consumers.renewals._timer) == (0, None)


async def test_a_repeated_attempt_is_held_once(consumers, extensions, monkeypatch):
    monkeypatch.setattr(module, "_handles", lambda topic, group, batch: iter(batch))
    renewals = consumers.renewals
    for _ in range(3):
        held = renewals.hold(PUSH, "orders", "g1", ["h1", "h2"])
    assert renewals.count == 2
    assert renewals.drop(PUSH, "h1")
    assert not renewals.drop(PUSH, "h1")
    renewals.drop_all(held)
    assert renewals.count == 0
    await pass_time(consumers, 60)
    assert extensions.asked == []
