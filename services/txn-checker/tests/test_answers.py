"""The checker's answers: they fit into a frame, give every check its turn, and leave out what is decided."""

import asyncio
from collections import Counter
from time import monotonic

import msgspec
import pytest
from checker_memory_store import CheckerMemoryStore

from gantry_wire.frames.encode import encode_response
from gantry_wire.limits import BODY_BYTES_MAX, FRAME_BYTES_MAX
from gantry_wire.private_requests.transactions import CHECKS_MAX, ListTransactions, ReceiveChecks, TakenCheck
from txn_checker.answers import AGAIN_SECONDS, Answers
from txn_checker.asking import Producers
from txn_checker.check_policy import Policy
from txn_checker.store_watch import StoreWatch

pytestmark = pytest.mark.anyio


async def test_checks_of_large_messages_are_split_into_answers_that_fit_a_frame():
    store = CheckerMemoryStore()
    watch = StoreWatch(store, Policy(), Producers(lambda: [store]), 1.0, lambda: None, monotonic)
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


@pytest.mark.parametrize(
    ("count", "page", "body_bytes"), [(7, 2, 3), (7, 3, 3), (5, 1, 3), (5, CHECKS_MAX, BODY_BYTES_MAX)]
)
@pytest.mark.parametrize("stores", [1, 2])
async def test_every_check_gets_its_turn_even_when_none_is_decided(count, page, body_bytes, stores):
    memory = [CheckerMemoryStore(f"broker-{n}", f"127.0.0.1:{10911 + 10 * n}") for n in range(stores)]
    watches = [
        StoreWatch(store, Policy(), Producers(lambda: memory), 1.0, lambda: None, monotonic)
        for store in memory
    ]
    for store, watch in zip(memory, watches, strict=True):
        watch.hold(store.epoch)
        for number in range(count):
            store.begin(f"{store.broker}-U{number}", body=bytes(body_bytes))
        store.now_ms += 7_000
        await watch.turn()
    answers = Answers(lambda: watches)
    handed = Counter()
    asked = 0
    while sum(handed.values()) < 3 * count * stores:
        answer = await answers.receive_checks(ReceiveChecks(producer_group="pg", max=page))
        assert answer.checks
        handed.update(check.key for check in answer.checks)
        asked += 1
    assert len(handed) == count * stores
    assert max(handed.values()) - min(handed.values()) <= 1
    assert asked <= 3 * count * stores


async def test_a_group_continues_after_its_own_last_check():
    store = CheckerMemoryStore()
    watch = StoreWatch(store, Policy(), Producers(lambda: [store]), 1.0, lambda: None, monotonic)
    watch.hold(store.epoch)
    for number in range(3):
        for group in ("pg", "other"):
            store.begin(f"{group}{number}", group)
    store.now_ms += 7_000
    await watch.turn()
    answers = Answers(lambda: [watch])
    for number in (0, 1, 2, 0):
        for group in ("pg", "other"):
            page = await answers.receive_checks(ReceiveChecks(producer_group=group, max=1))
            assert [check.key for check in page.checks] == [f"{group}{number}"]


async def test_a_caller_without_a_right_takes_no_turn_of_those_that_have_it():
    store = CheckerMemoryStore()
    watch = StoreWatch(store, Policy(), Producers(lambda: [store]), 1.0, lambda: None, monotonic)
    watch.hold(store.epoch)
    for number in range(3):
        store.begin(f"U{number}")
    store.now_ms += 7_000
    await watch.turn()
    answers = Answers(lambda: [watch])
    (topic,) = {half.topic for half in watch.undecided.asked("pg")}

    async def ask(topics, refused=(), wait_ms=0):
        query = ReceiveChecks(producer_group="pg", max=1, wait_ms=wait_ms, topics=topics, refused=[*refused])
        page = await answers.receive_checks(query)
        return [check.key for check in page.checks], page.undecided_topics

    began = asyncio.get_running_loop().time()
    for number in (0, 1, 2, 0):
        assert await ask([], wait_ms=30_000) == ([], [topic])
        assert await ask([], [topic]) == ([], [])
        assert await ask(["elsewhere"], [topic]) == ([], [])
        assert await ask(["elsewhere", topic]) == ([f"U{number}"], [])
    assert await ask(None) == (["U0"], [])
    assert asyncio.get_running_loop().time() - began < 20, "a topic to look up ends the hold"


async def test_a_check_ends_one_held_request_and_decided_halves_are_no_longer_listed():
    store = CheckerMemoryStore()
    watch = StoreWatch(store, Policy(), Producers(lambda: [store]), 1.0, lambda: None, monotonic)
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


async def test_a_transaction_that_was_decided_during_its_check_is_not_listed_as_open():
    store = CheckerMemoryStore()
    watch = StoreWatch(store, Policy(), Producers(lambda: [store]), 1.0, lambda: None, monotonic)
    watch.hold(store.epoch)
    settle, written, go_on = store.settle, asyncio.Event(), asyncio.Event()

    async def answers_late(topic, epoch, items):
        results = await settle(topic, epoch, items)
        written.set()
        await go_on.wait()
        return results

    store.settle = answers_late
    for number in range(2):
        store.begin(f"U{number}")
    store.now_ms += 7_000
    turn = asyncio.ensure_future(watch.turn())
    await written.wait()
    store.decide(3)  # the copy of U1
    answers = Answers(lambda: [watch])

    async def keys():
        page = await answers.transactions(ListTransactions(state="open"))
        return [view.key for view in page.transactions]

    assert await keys() == ["U0"]
    go_on.set()
    await turn
    assert await keys() == ["U0"]
    assert [(half.key, half.checks) for half in watch.undecided.asked("pg")] == [("U0", 1)]


@pytest.mark.parametrize("is_held_again", [False, True])
async def test_a_list_names_a_broker_whose_claim_is_lost_meanwhile(is_held_again):
    store = CheckerMemoryStore()
    watch = StoreWatch(store, Policy(), Producers(lambda: [store]), 1.0, lambda: None, monotonic)
    watch.hold(store.epoch)
    store.begin("U1")
    read = store.read

    async def lose_the_claim(topic, first, count):
        records = await read(topic, first, count)
        watch.release()
        if is_held_again:
            watch.hold(8)
        return records

    store.read = lose_the_claim
    page = await Answers(lambda: [watch]).transactions(ListTransactions(state="open"))
    assert (page.brokers, page.incomplete) == (["broker-a"], ["broker-a"])


async def test_a_taken_check_goes_to_nobody_else_until_the_next_one():
    store = CheckerMemoryStore()
    watch = StoreWatch(store, Policy(), Producers(lambda: [store]), 1.0, lambda: None, monotonic)
    watch.hold(store.epoch)
    store.begin("U0")
    store.now_ms += 7_000
    await watch.turn()
    answers = Answers(lambda: [watch])

    async def ask(*taken, **fields):
        query = ReceiveChecks(producer_group="pg", taken=list(taken), **fields)
        return [(check.key, check.attempt) for check in (await answers.receive_checks(query)).checks]

    assert await ask() == [("U0", 1)]
    assert await ask() == [("U0", 1)], "its answer may have been lost"
    others = asyncio.ensure_future(ask(wait_ms=30_000))
    await asyncio.sleep(0)
    assert await ask(TakenCheck(key="U0", broker="broker-a", attempt=1)) == []
    assert (await answers.receive_checks(ReceiveChecks(producer_group="pg"))).checks, (
        "who polls gets it again"
    )
    assert await ask(TakenCheck(key="U0", broker="broker-a", attempt=1)) == []
    await asyncio.sleep(0)
    assert not others.done()
    store.now_ms += 31_000
    await watch.turn()
    answers.news()
    assert await others == [("U0", 2)]


async def test_the_oldest_taken_checks_are_forgotten(monkeypatch):
    monkeypatch.setattr("txn_checker.answers.TAKEN_MAX", 2)
    store = CheckerMemoryStore()
    watch = StoreWatch(store, Policy(), Producers(lambda: [store]), 1.0, lambda: None, monotonic)
    watch.hold(store.epoch)
    for number in range(3):
        store.begin(f"U{number}")
    store.now_ms += 7_000
    await watch.turn()
    answers = Answers(lambda: [watch])
    taken = [TakenCheck(key=f"U{number}", broker="broker-a", attempt=1) for number in range(3)]
    page = await answers.receive_checks(ReceiveChecks(producer_group="pg", taken=taken))
    assert [check.key for check in page.checks] == ["U0"]


async def test_the_same_key_at_another_broker_or_of_another_group_is_another_transaction():
    stores = [CheckerMemoryStore(f"broker-{n}", f"127.0.0.1:{10911 + 10 * n}") for n in range(2)]
    watches = [
        StoreWatch(store, Policy(), Producers(lambda: stores), 1.0, lambda: None, monotonic)
        for store in stores
    ]
    for store, watch in zip(stores, watches, strict=True):
        watch.hold(store.epoch)
        for group in ("pg", "other"):
            store.begin("U0", group)
        store.now_ms += 7_000
        await watch.turn()
    answers = Answers(lambda: watches)
    taken = [TakenCheck(key="U0", broker="broker-0", attempt=1)]
    page = await answers.receive_checks(ReceiveChecks(producer_group="pg", taken=taken))
    assert [check.broker for check in page.checks] == ["broker-1"]
    page = await answers.receive_checks(ReceiveChecks(producer_group="other", taken=[]))
    assert sorted(check.broker for check in page.checks) == ["broker-0", "broker-1"]
