"""Claims are acquired all or none, renewed, and lost when the store says so, they expire or the epoch changes."""

import asyncio

import msgspec
import pytest
from scripted_broker import scripted
from scripted_link import eventually

from gantry_link.calling.store_calls import StoreCalls
from gantry_link.system_queues.claims import Claims, Held, Holder, claim_holder
from gantry_wire.private_requests.settling import (
    ClaimBody,
    ClaimHeader,
    ClaimReplyBody,
    GrantedClaim,
    decode_json,
)

pytestmark = pytest.mark.anyio
CLAIM, RELEASE, HOLDER = 9001, 9002, 9005
QUEUES = [("T", 0), ("T", 1)]


def granted(*epochs):
    first, second = epochs or (7, 8)
    reply = ClaimReplyBody([GrantedClaim(first, 3, 9), GrantedClaim(second, 4, 10)], 1000)
    return (0, {}, msgspec.json.encode(reply))


def refused():
    return (16, {"gantryCode": "HELD", "heldBy": "other", "address": "h:1", "untilMs": "55"}, b"", "held")


def claims_on(pool, address, events, ttl_ms=3000):
    return Claims(
        StoreCalls(pool, address),
        QUEUES,
        owner="me",
        address="h:2",
        ttl_ms=ttl_ms,
        acquired=lambda held: events.append(("acquired", held[("T", 0)].epoch, len(held))),
        lost=lambda why: events.append(("lost", why)),
    )


async def test_all_claims_are_acquired_together_and_renewed():
    events = []
    async with scripted({CLAIM: granted()}) as (script, address, pool):
        claims = claims_on(pool, address, events)
        await claims.step()
        await claims.step()
    assert events == [("acquired", 7, 2)]
    assert claims.held == {("T", 0): Held("T", 0, 7, 1000, 3, 9), ("T", 1): Held("T", 1, 8, 1000, 4, 10)}
    assert [one.code for one in script.asked] == [CLAIM, CLAIM]
    for request in script.asked:
        header = request.read(ClaimHeader)
        assert (header.owner, header.address, header.ttl_ms) == ("me", "h:2", 3000)
        queues = decode_json(request.body, ClaimBody).queues
        assert [(one.topic, one.queue_id) for one in queues] == QUEUES


async def test_claims_of_another_owner_are_not_acquired_and_report_the_holder():
    events = []
    async with scripted({CLAIM: refused()}) as (script, address, pool):
        claims = claims_on(pool, address, events)
        await claims.step()
        assert not claims.held
        assert claims.other_holder == Holder("other", "h:1", 55)
        script.answers[CLAIM] = granted()
        await claims.step()
        script.answers[CLAIM] = refused()
        await claims.step()
    assert events == [("acquired", 7, 2), ("lost", "held by other")]


@pytest.mark.parametrize("epochs", [(9, 10), (9, 8), (7, 9)])
async def test_a_new_epoch_of_any_queue_means_that_the_claims_had_ended(epochs):
    events = []
    async with scripted({CLAIM: granted()}) as (script, address, pool):
        claims = claims_on(pool, address, events)
        await claims.step()
        script.answers[CLAIM] = granted(*epochs)
        await claims.step()
    assert [one[0] for one in events] == ["acquired", "lost", "acquired"]
    assert events[-1] == ("acquired", epochs[0], 2)
    assert [one.epoch for one in claims.held.values()] == list(epochs)


@pytest.mark.parametrize(
    "answer",
    [b"", b"{}", msgspec.json.encode(ClaimReplyBody([GrantedClaim(7, 3, 9)], 1000)), b'{"epoch":"7"}'],
)
async def test_an_answer_without_one_claim_for_each_queue_grants_nothing(answer):
    events = []
    async with scripted({CLAIM: (0, {}, answer)}) as (script, address, pool):
        claims = claims_on(pool, address, events)
        await claims.step()
        assert not claims.held
        script.answers[CLAIM] = granted()
        await claims.step()
        script.answers[CLAIM] = (0, {}, answer)
        await claims.step()
    assert events == [("acquired", 7, 2)]  # the time of the claims is not over


async def test_after_a_suspension_only_claims_taken_by_another_owner_are_lost():
    events = []
    async with scripted({CLAIM: granted()}) as (script, address, pool):
        claims = claims_on(pool, address, events, ttl_ms=1)
        await claims.step()
        await asyncio.sleep(0.05)
        await claims.step()
        assert events == [("acquired", 7, 2)]
        script.answers[CLAIM] = refused()
        await claims.step()
    assert [one[0] for one in events] == ["acquired", "lost"]


async def test_a_refusal_for_longer_than_the_ttl_ends_the_claims():
    events = []
    async with scripted({CLAIM: granted()}) as (script, address, pool):
        claims = claims_on(pool, address, events, ttl_ms=60_000)
        await claims.step()
        script.answers[CLAIM] = (2, None, b"", "busy")
        await claims.step()
        assert claims.held
        claims._ttl_ms = 1
        await asyncio.sleep(0.05)
        await claims.step()
    assert events == [("acquired", 7, 2), ("lost", "code 2: busy")]


async def test_a_short_outage_of_the_store_ends_no_claim():
    events = []
    async with scripted({CLAIM: granted()}) as (script, address, pool):
        claims = claims_on(pool, address, events)
        await claims.step()
        script.answers.clear()
        claims._store.timeout_seconds = 0.1
        await claims.step()
    assert claims.held
    assert events == [("acquired", 7, 2)]


async def test_the_end_of_run_releases_and_a_fence_wakes_it():
    events = []
    async with scripted({CLAIM: granted()}) as (script, address, pool):
        claims = claims_on(pool, address, events, ttl_ms=60_000)
        task = asyncio.get_running_loop().create_task(claims.run())
        await eventually(lambda: events)
        claims.fenced("older epoch")
        await eventually(lambda: events[-1][0] == "acquired" and len(events) == 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await eventually(lambda: sum(one.code == RELEASE for one in script.asked) == 2)
    assert events[1] == ("lost", "older epoch")
    assert events[-1] == ("lost", "released")


async def test_a_new_leader_without_a_lease_is_asked_again_soon():
    events = []
    no_lease = (2, {"gantryCode": "NO_LEASE"}, b"", "no lease")
    async with scripted({CLAIM: no_lease}) as (script, address, pool):
        claims = claims_on(pool, address, events, ttl_ms=600_000)
        task = asyncio.get_running_loop().create_task(claims.run())
        await eventually(lambda: len(script.asked) == 3)
        script.answers[CLAIM] = granted()
        await eventually(lambda: events == [("acquired", 7, 2)])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_claims_of_a_store_that_is_gone_are_released_without_a_connection():
    events = []
    async with scripted({CLAIM: granted()}) as (script, address, pool):
        claims = claims_on(pool, address, events, ttl_ms=600_000)
        task = asyncio.get_running_loop().create_task(claims.run())
        await eventually(lambda: events)
        pool.abandon(address, "is not the leader's")
        before = pool.connects, pool.failed_connects
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (pool.connects, pool.failed_connects) == before
    assert events[-1] == ("lost", "released")
    assert RELEASE not in [one.code for one in script.asked]


async def test_a_fence_during_an_attempt_leads_to_another_one_at_once():
    events = []
    async with scripted({CLAIM: granted()}) as (_, address, pool):
        claims = claims_on(pool, address, events, ttl_ms=600_000)

        def lost(why):
            events.append(("lost", why))

        def acquired(held):
            events.append(("acquired", held[("T", 0)].epoch, len(held)))
            if len(events) == 1:
                claims.fenced("older epoch")

        claims._acquired, claims._lost = acquired, lost
        task = asyncio.get_running_loop().create_task(claims.run())
        await eventually(lambda: len(events) == 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [one[0] for one in events] == ["acquired", "lost", "acquired", "lost"]


async def test_the_holder_of_a_claim_is_returned():
    async with scripted({HOLDER: (0, {"heldBy": "s1", "address": "h:3", "untilMs": "99"})}) as (
        script,
        address,
        pool,
    ):
        store = StoreCalls(pool, address)
        assert await claim_holder(store, "T", 0) == Holder("s1", "h:3", 99)
        script.answers[HOLDER] = (0, {})
        assert await claim_holder(store, "T", 0) is None
