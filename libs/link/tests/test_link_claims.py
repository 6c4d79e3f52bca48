"""Claims: all or none, renewed, lost when the store says so, when time has passed, or when the epoch is another."""

import asyncio

import pytest
from scripted_broker import scripted
from scripted_link import eventually

from gantry_link.claims import Claims, Holder, claim_holder
from gantry_link.store_calls import StoreCalls

pytestmark = pytest.mark.anyio
CLAIM, RELEASE, HOLDER = 9001, 9002, 9005
QUEUES = [("T", 0), ("T", 1)]


def granted(epoch=7):
    return (0, {"epoch": str(epoch), "storeTimeMs": "1000", "cursor": "3", "maxOffset": "9"})


def refused():
    return (16, {"gantryCode": "HELD", "heldBy": "other", "address": "h:1", "untilMs": "55"}, b"", "held")


def claims_on(pool, address, told, ttl_ms=3000):
    return Claims(
        StoreCalls(pool, address),
        QUEUES,
        owner="me",
        address="h:2",
        ttl_ms=ttl_ms,
        acquired=lambda held: told.append(("acquired", held[("T", 0)].epoch, len(held))),
        lost=lambda why: told.append(("lost", why)),
    )


async def test_all_claims_are_acquired_together_and_renewed():
    told = []
    async with scripted({CLAIM: granted()}) as (script, address, pool):
        claims = claims_on(pool, address, told)
        await claims.step()
        await claims.step()
    assert told == [("acquired", 7, 2)]
    assert claims.held[("T", 1)].cursor == 3
    assert [(one.ext["queueId"], one.ext["owner"], one.ext["ttlMs"]) for one in script.asked[:2]] == [
        ("0", "me", "3000"),
        ("1", "me", "3000"),
    ]
    assert len(script.asked) == 4


async def test_what_somebody_else_holds_is_not_ours_and_says_whose_it_is():
    told = []
    async with scripted({CLAIM: refused()}) as (script, address, pool):
        claims = claims_on(pool, address, told)
        await claims.step()
        assert not claims.held
        assert claims.other_holder == Holder("other", "h:1", 55)
        assert len(script.asked) == 1  # the first queue decides
        script.answers[CLAIM] = granted()
        await claims.step()
        script.answers[CLAIM] = refused()
        await claims.step()
    assert told == [("acquired", 7, 2), ("lost", "held by other")]


async def test_another_epoch_means_that_the_claim_had_ended():
    told = []
    async with scripted({CLAIM: granted(7)}) as (script, address, pool):
        claims = claims_on(pool, address, told)
        await claims.step()
        script.answers[CLAIM] = granted(8)
        await claims.step()
    assert [one[0] for one in told] == ["acquired", "lost", "acquired"]
    assert told[-1] == ("acquired", 8, 2)


async def test_a_process_that_slept_keeps_what_nobody_took_and_drops_what_somebody_did():
    told = []
    async with scripted({CLAIM: granted(7)}) as (script, address, pool):
        claims = claims_on(pool, address, told, ttl_ms=1)
        await claims.step()
        await asyncio.sleep(0.05)
        await claims.step()
        assert told == [("acquired", 7, 2)]
        script.answers[CLAIM] = refused()
        await claims.step()
    assert [one[0] for one in told] == ["acquired", "lost"]


async def test_a_store_that_refuses_for_longer_than_the_claim_lasts_has_taken_it():
    told = []
    async with scripted({CLAIM: granted(7)}) as (script, address, pool):
        claims = claims_on(pool, address, told, ttl_ms=60_000)
        await claims.step()
        script.answers[CLAIM] = (2, None, b"", "busy")
        await claims.step()
        assert claims.held
        claims._ttl_ms = 1
        await asyncio.sleep(0.05)
        await claims.step()
    assert told == [("acquired", 7, 2), ("lost", "code 2: busy")]


async def test_a_store_that_is_away_for_a_moment_takes_no_claim():
    told = []
    async with scripted({CLAIM: granted(7)}) as (script, address, pool):
        claims = claims_on(pool, address, told)
        await claims.step()
        script.answers.clear()
        claims._store.timeout_seconds = 0.1
        await claims.step()
    assert claims.held
    assert told == [("acquired", 7, 2)]


async def test_the_end_of_the_run_releases_and_a_fence_wakes_it():
    told = []
    async with scripted({CLAIM: granted(7)}) as (script, address, pool):
        claims = claims_on(pool, address, told, ttl_ms=60_000)
        task = asyncio.get_running_loop().create_task(claims.run())
        await eventually(lambda: told)
        claims.fenced("older epoch")
        await eventually(lambda: told[-1][0] == "acquired" and len(told) == 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await eventually(lambda: sum(one.code == RELEASE for one in script.asked) == 2)
    assert told[1] == ("lost", "older epoch")
    assert told[-1] == ("lost", "released")


async def test_the_holder_of_a_claim_can_be_asked_for():
    async with scripted({HOLDER: (0, {"heldBy": "s1", "address": "h:3", "untilMs": "99"})}) as (
        script,
        address,
        pool,
    ):
        store = StoreCalls(pool, address)
        assert await claim_holder(store, "T", 0) == Holder("s1", "h:3", 99)
        script.answers[HOLDER] = (0, {})
        assert await claim_holder(store, "T", 0) is None
