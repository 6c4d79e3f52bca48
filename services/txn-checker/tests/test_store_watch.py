"""The checker on one store: copies, checks, parking, and the loss of its claim."""

import asyncio

import pytest
from checker_memory_store import CheckerMemoryStore

from gantry_wire.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from gantry_wire.records.message_record import decode_record
from txn_checker.asking import Producers
from txn_checker.check_policy import Policy
from txn_checker.ports import ClaimLost, StoreFailed
from txn_checker.store_watch import StoreWatch

pytestmark = pytest.mark.anyio
POLICY = Policy(6_000, 30_000, 2, 3_600_000)


class Scene:
    """A watch over a store in memory, and another store."""

    def __init__(self):
        self.store = CheckerMemoryStore()
        self.other = CheckerMemoryStore("broker-b", "127.0.0.1:10921")
        self.news, self.steady_s = 0, 50.0
        producers = Producers(lambda: [self.store, self.other])
        self.watch = StoreWatch(self.store, POLICY, producers, 1.0, self._told, lambda: self.steady_s)
        self.watch.hold(7)

    def _told(self):
        self.news += 1

    async def after(self, ms):
        self.store.now_ms += ms
        await self.watch.turn()


@pytest.fixture
async def scene():
    return Scene()


async def test_a_check_is_written_before_the_producer_is_asked(scene):
    scene.store.channels.add("pg")
    scene.store.begin("U1", x="1")
    await scene.after(5_000)
    assert scene.store.asked == []
    await scene.after(2_000)
    (ask,) = scene.store.asked
    copy = scene.store.record(HALF_TOPIC, 1)
    assert copy.property_map()["TRANSACTION_CHECK_TIMES"] == "1"
    assert (ask.offset, ask.position, ask.message_id) == (1, copy.position, copy.message_id)
    assert scene.store.outcomes == [(0, "checked")]
    assert scene.store.ops == [b"0"], "the old copy is done with, also for RocketMQ's own broker"
    assert scene.news == 1


async def test_a_half_whose_properties_are_damaged_does_not_stop_the_checks_of_others(scene):
    scene.store.begin("U1", x="1")
    raw = scene.store.topics[HALF_TOPIC][0]
    scene.store.topics[HALF_TOPIC][0] = raw.replace(b"x\x011", b"x\x01\xb1")
    scene.store.begin("U2")
    await scene.after(7_000)
    assert scene.store.outcomes == [(0, "checked"), (1, "checked")]


async def test_between_answers_store_time_follows_the_given_clock(scene):
    scene.store.begin("U1")
    await scene.after(1_000)
    answered_ms = scene.store.now_ms
    assert scene.watch.now_ms() == answered_ms
    scene.steady_s += 4.5
    assert scene.watch.now_ms() == answered_ms + 4_500
    await scene.after(1_000)
    assert scene.watch.now_ms() == answered_ms + 1_000, "an answer of the store counts more"


async def test_after_the_last_check_a_half_is_parked_and_not_rolled_back(scene):
    scene.store.begin("U1")
    for ms in (7_000, 31_000, 31_000):
        await scene.after(ms)
    assert [outcome for _, outcome in scene.store.outcomes] == ["checked", "checked", "parked"]
    parked = scene.store.record(TRANS_CHECK_MAX_TIME_TOPIC, 0)
    assert parked.property_map()["TRANSACTION_CHECK_TIMES"] == "2"
    assert len(scene.watch.undecided) == 0


async def test_for_a_group_connected_elsewhere_the_message_travels_along(scene):
    scene.other.channels.add("pg")
    scene.store.begin("U1")
    await scene.after(7_000)
    (ask,) = scene.other.asked
    assert (ask.broker, ask.home) == ("broker-a", "127.0.0.1:10911")
    shown = decode_record(ask.message)
    assert (shown.topic, shown.queue_id) == (b"orders", 2)


async def test_a_decided_half_is_never_read_or_checked(scene):
    for number in range(100):
        scene.store.begin(f"U{number}")
        scene.store.decide(number)
    await scene.after(7_000)
    assert scene.store.outcomes == []
    assert len(scene.watch.undecided) == 0


async def test_a_refused_copy_is_retried(scene):
    scene.store.begin("U1")
    scene.store.status = "noSpace"
    await scene.after(7_000)
    assert scene.store.outcomes == []
    scene.store.status = ""
    await scene.after(3_000)
    assert scene.store.outcomes == [(0, "checked")]


async def test_an_unreachable_store_loses_nothing(scene):
    scene.store.begin("U1")
    scene.store.away = True
    with pytest.raises(StoreFailed):
        await scene.after(7_000)
    scene.store.away = False
    await scene.after(3_000)
    assert scene.store.outcomes == [(0, "checked")]


async def test_a_store_that_is_away_is_asked_once_per_poll_although_halves_are_due(scene, monkeypatch):
    scene.store.begin("U1")
    await scene.after(1_000)
    scene.steady_s += 60  # the half is due
    scene.store.away = True
    pauses, sleep = [], asyncio.sleep

    async def note(seconds):
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    running = asyncio.ensure_future(scene.watch.run(pytest.fail))
    while len(pauses) < 3:
        await sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert set(pauses) == {1.0}


async def test_a_failed_parking_fails_no_check_of_another_half(scene):
    for ms in (0, 7_000, 31_000):
        if not ms:
            scene.store.begin("OLD")
        await scene.after(ms)
    scene.store.begin("NEW")
    await scene.after(0)
    settle, refusals = scene.store.settle, [StoreFailed("the disk is full")]

    async def full_once(topic, epoch, items):
        if refusals:
            raise refusals.pop()
        return await settle(topic, epoch, items)

    scene.store.settle = full_once
    with pytest.raises(StoreFailed):
        await scene.after(31_000)  # in one turn, OLD is due to be parked and NEW to be checked
    await scene.after(3_000)
    assert [outcome for _, outcome in scene.store.outcomes] == ["checked", "checked", "parked", "checked"]


async def test_an_outdated_epoch_ends_the_work(scene):
    scene.store.begin("U1")
    scene.store.epoch = 8
    with pytest.raises(ClaimLost):
        await scene.after(7_000)
    assert scene.store.outcomes == []


async def test_the_next_holder_continues_the_count(scene):
    scene.store.begin("U1")
    await scene.after(7_000)
    scene.watch.release()
    assert len(scene.watch.undecided) == 0
    scene.watch.hold(7)
    await scene.after(31_000)
    await scene.after(31_000)
    assert [outcome for _, outcome in scene.store.outcomes] == ["checked", "checked", "parked"]


async def test_a_scan_begun_under_an_earlier_claim_hides_nothing(scene):
    for number in range(40):
        scene.store.begin(f"U{number}")
    read, began, go_on = scene.store.read, asyncio.Event(), asyncio.Event()

    async def slow_at_the_second(topic, first, count):
        if first:
            began.set()
            await go_on.wait()
        return await read(topic, first, count)

    scene.store.read = slow_at_the_second
    look = asyncio.ensure_future(scene.watch.look(all_of_it=True))
    await began.wait()
    scene.watch.release()
    scene.watch.hold(8)
    go_on.set()
    await look
    await scene.watch.look()
    assert len(scene.watch.undecided) == 40
    assert scene.watch.is_whole


async def test_halves_the_store_does_not_show_yet_are_read_later(scene):
    scene.store.begin("U0")
    scene.store.begin("U1")
    read = scene.store.read

    async def nothing(topic, first, count):
        return [], first

    scene.store.read = nothing
    await scene.watch.look(all_of_it=True)
    assert (len(scene.watch.undecided), scene.watch.is_whole) == (0, False)
    scene.store.read = read
    await scene.watch.look(all_of_it=True)
    assert (len(scene.watch.undecided), scene.watch.is_whole) == (2, True)


async def test_older_copies_that_failed_to_settle_are_settled_later(scene):
    scene.store.begin("U1")
    scene.store.begin("U1")
    await scene.watch.look(all_of_it=True)
    scene.store.status = "noSpace"
    await scene.after(1)
    scene.store.status, scene.store.away = "", True
    with pytest.raises(StoreFailed):
        await scene.after(1)
    scene.store.away = False
    await scene.after(1)
    assert scene.store.outcomes == [(0, "superseded")]
    await scene.after(1)
    assert scene.store.outcomes == [(0, "superseded")]


async def test_a_refusal_about_an_earlier_claim_does_not_end_the_current_one(scene, monkeypatch):
    said, settle, epochs = [], scene.store.settle, []

    async def settle_late(topic, epoch, items):
        epochs.append(epoch)
        if epoch == 7:  # lost and granted again while the request was in flight
            scene.watch.release()
            scene.watch.hold(8)
            scene.store.epoch = 8
            raise ClaimLost("the epoch is 8")
        return await settle(topic, epoch, items)

    monkeypatch.setattr(scene.store, "settle", settle_late)
    scene.store.begin("U1")
    scene.store.now_ms += 7_000
    scene.watch._poll_seconds = 0.01
    running = asyncio.ensure_future(scene.watch.run(said.append))
    async with asyncio.timeout(10):
        while len(epochs) < 2 and not said:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (said, epochs, scene.watch.is_held) == ([], [7, 8], True)
