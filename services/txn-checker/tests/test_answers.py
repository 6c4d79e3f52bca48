"""What the checker answers fits into what the wire can carry."""

import asyncio

import msgspec
import pytest
from checker_memory_store import CheckerMemoryStore

from gantry_wire.frame import encode_response
from gantry_wire.limits import BODY_BYTES_MAX, FRAME_BYTES_MAX
from gantry_wire.transaction_bodies import CHECKS_MAX, ReceiveChecks
from txn_checker.answers import AGAIN_SECONDS, Answers
from txn_checker.asking import Producers
from txn_checker.check_policy import Policy
from txn_checker.store_watch import StoreWatch

pytestmark = pytest.mark.anyio


async def test_checks_of_large_messages_come_in_answers_that_a_frame_holds():
    store = CheckerMemoryStore()
    watch = StoreWatch(store, Policy(), Producers(lambda: [store]), 1.0, lambda: None)
    watch.hold(store.epoch)
    for number in range(5):
        store.begin(f"U{number}", body=bytes(BODY_BYTES_MAX))
    store.now_ms += 7_000
    await watch.turn()
    answers = Answers(lambda: [watch])
    seen = []
    while watch.undecided.asked("pg"):
        page = await answers.receive_checks(ReceiveChecks(producer_group="pg", max=CHECKS_MAX))
        frame = encode_response(0, 1, None, msgspec.json.encode(page))
        assert page.checks
        assert len(frame) <= FRAME_BYTES_MAX
        for check in page.checks:
            seen.append(check.key)
            store.decide(next(h.offset for h in watch.undecided.asked("pg") if h.key == check.key))
        await watch.look()
    assert sorted(seen) == [f"U{number}" for number in range(5)]


async def test_a_check_ends_a_held_request_once_and_what_is_decided_is_listed_no_more():
    store = CheckerMemoryStore()
    watch = StoreWatch(store, Policy(), Producers(lambda: [store]), 1.0, lambda: None)
    watch.hold(store.epoch)
    for number in range(2):
        store.begin(f"U{number}")
    store.now_ms += 7_000
    await watch.turn()
    answers = Answers(lambda: [watch])

    async def keys(wait_ms):
        page = await answers.receive_checks(ReceiveChecks(producer_group="pg", max=9, wait_ms=wait_ms))
        return [check.key for check in page.checks]

    assert await keys(60_000) == ["U0", "U1"]
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await keys(60_000) == ["U0", "U1"]
    assert AGAIN_SECONDS / 2 < loop.time() - began < 30
    assert await keys(0) == ["U0", "U1"]
    store.decide(next(half.offset for half in watch.undecided.asked("pg") if half.key == "U0"))
    assert await keys(0) == ["U1"]
