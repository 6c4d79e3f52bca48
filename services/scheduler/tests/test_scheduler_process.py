"""Schedulers and stores as processes: levels, instants, orders, and crashes."""

import asyncio
import contextlib
import re
import signal
import sqlite3
import time
import urllib.request

import pytest
from scheduler_system import System

from gantry_link.errors import BrokerRefused
from gantry_wire.headers.messages import RecallHeader
from gantry_wire.private_requests.scheduling import ListParked, ListSchedules, MoveSchedule, ScheduleOrder

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]


@pytest.fixture
async def system(tmp_path):
    made = System(tmp_path)
    try:
        await made.start_store()
        yield made
    finally:
        await made.close()


def at(seconds):
    return str(int((time.time() + seconds) * 1000))


async def test_level_and_instant_messages_are_delivered_once_and_not_early(system):
    await system.start_scheduler()
    await system.topic("orders")
    due = at(1.2)
    await system.send("orders", b"level", "L1", DELAY="1", TAGS="a")
    await system.send("orders", b"instant", "I1", TIMER_DELIVER_MS=due)
    await system.send("orders", b"now", "N1")
    records = {record.body: record for record in await system.wait_for("orders", 3)}
    level, instant = records.pop(b"level"), records.pop(b"instant")
    assert list(records) == [b"now"]
    assert instant.store_timestamp >= int(due)
    assert level.store_timestamp >= level.born_timestamp + 1000
    assert level.property_map()["TAGS"] == "a"
    assert level.property_map()["REAL_TOPIC"] == "orders"
    assert level.property_map()["DELAY"] == "1"
    assert not {"TIMER_OUT_MS", "REAL_TOPIC"} & set(instant.property_map())
    assert instant.property_map()["TIMER_DELIVER_MS"] == due
    await asyncio.sleep(0.5)  # a second delivery would come now
    assert len(await system.bodies("orders")) == 3


async def test_health_and_metrics_report_its_work(system):
    process = await system.start_scheduler()
    await system.topic("orders")
    await system.holder()
    await system.send("orders", b"soon", "F1", TIMER_DELAY_MS="200")
    await system.send("orders", b"later", "F2", TIMER_DELAY_MS="600000")
    await system.wait_for("orders", 1)
    http = re.search(r"http=(http://[\d.:]+)", "".join(process.lines))[1]

    def get(path):
        with urllib.request.urlopen(http + path, timeout=30) as answer:
            return answer.read().decode()

    async with asyncio.timeout(60):
        while 'scheduler_decisions_total{outcome="delivered"} 1.0' not in await asyncio.to_thread(
            get, "/metrics"
        ):
            await asyncio.sleep(0.1)
    assert 'scheduler_pending{broker="broker-a"} 1.0' in await asyncio.to_thread(get, "/metrics")
    assert "true" in await asyncio.to_thread(get, "/health/ready")


async def test_orders_get_definite_answers(system):
    await system.start_scheduler()
    await system.topic("orders")
    for uniq in ("C1", "M1", "D1"):
        await system.send("orders", uniq.encode(), uniq, TIMER_DELIVER_MS=at(600), KEYS=f"k-{uniq} both")
    await system.send("orders", b"CL", "CL", DELAY="16")
    client = await system.client()
    async with asyncio.timeout(60):
        while len((await client.list_schedules(ListSchedules())).schedules) < 4:
            await asyncio.sleep(0.05)
    listed = (await client.list_schedules(ListSchedules(topic="orders", key="k-M1"))).schedules
    assert [one.id for one in listed] == ["M1"]
    assert (listed[0].kind, listed[0].broker, listed[0].keys) == ("instant", "broker-a", ["k-M1", "both"])
    first = await client.list_schedules(ListSchedules(limit=3))
    rest = await client.list_schedules(ListSchedules(limit=3, after=first.next))
    assert len({one.id for one in first.schedules + rest.schedules}) == 4
    assert rest.next is None

    assert (await client.cancel(ScheduleOrder(id="C1"))).status == "cancelled"
    assert (await client.cancel(ScheduleOrder(id="CL"))).status == "cancelled"
    assert (await client.deliver_now(ScheduleOrder(id="D1"))).status == "delivered"
    assert (await client.cancel(ScheduleOrder(id="D1"))).status == "alreadyDelivered"
    assert (await client.cancel(ScheduleOrder(id="NONE"))).status == "unknown"
    soon = int(at(0.5))
    moved = await client.move(MoveSchedule(id="M1", deliver_at_ms=soon))
    assert (moved.status, moved.deliver_at_ms) == ("moved", soon)
    records = await system.wait_for("orders", 2)
    assert [record.body for record in records] == [b"D1", b"M1"]
    assert records[1].store_timestamp >= soon
    assert (await client.list_schedules(ListSchedules())).schedules == []


async def test_a_list_holds_every_message_acknowledged_before_it(system):
    await system.start_scheduler()
    await system.topic("orders")
    await system.holder()
    client = await system.client()
    async with asyncio.timeout(60):
        while (await client.list_schedules(ListSchedules())).incomplete:
            await asyncio.sleep(0.05)
    for count in range(1, 31):
        later = {"TIMER_DELIVER_MS": at(600)} if count % 2 else {"DELAY": "16"}
        await system.send("orders", b"%d" % count, f"A{count}", **later)
        page = await client.list_schedules(ListSchedules())
        assert (page.incomplete, len(page.schedules)) == ([], count)


async def test_a_cancel_that_races_the_delivery_reports_the_real_outcome(system):
    await system.start_scheduler()
    await system.topic("orders")
    await system.holder()
    count = 60
    for number in range(count):
        last_due = at(0.3 + number / 100)
        await system.send("orders", b"%d" % number, f"R{number}", TIMER_DELIVER_MS=last_due)
    client = await system.client()
    await asyncio.sleep(0.4)
    answers = [(await client.cancel(ScheduleOrder(id=f"R{number}"))).status for number in range(count)]
    assert set(answers) <= {"cancelled", "alreadyDelivered"}
    expected = {b"%d" % number for number in range(count) if answers[number] == "alreadyDelivered"}
    found = [record.body for record in await system.wait_for("orders", len(expected))]
    await asyncio.sleep(max(int(last_due) / 1000 - time.time(), 0) + 0.5)  # a cancelled one would come now
    assert sorted(await system.bodies("orders")) == sorted(found)
    assert set(found) == expected
    assert len(found) == len(expected)


async def test_a_cancel_beside_a_move_ends_the_message_at_either_place(system):
    await system.start_scheduler()
    await system.topic("orders")
    client = await system.client()
    for number in range(30):
        await system.send("orders", b"x", f"B{number}", TIMER_DELIVER_MS=at(600))
        moved, cancelled = await asyncio.gather(
            client.move(MoveSchedule(id=f"B{number}", deliver_at_ms=int(at(1200)))),
            client.cancel(ScheduleOrder(id=f"B{number}")),
        )
        assert (moved.status in ("moved", "alreadyDelivered"), cancelled.status) == (True, "cancelled")
    assert (await client.list_schedules(ListSchedules())).schedules == []


async def test_a_cancel_repeated_after_a_store_crash_reports_the_first_outcome(system):
    await system.start_scheduler()
    await system.topic("orders")
    await system.holder()
    client = await system.client()
    for name in ("C1", "D1"):
        await system.send("orders", name.encode(), name, TIMER_DELIVER_MS=at(600))
    async with asyncio.timeout(60):
        while len((await client.list_schedules(ListSchedules())).schedules) < 2:
            await asyncio.sleep(0.05)
    assert (await client.cancel(ScheduleOrder(id="C1"))).status == "cancelled"
    assert (await client.deliver_now(ScheduleOrder(id="D1"))).status == "delivered"
    port = system.store_process.port
    system.store_process.kill()
    await system.start_store(port)
    for name, status in (("C1", "cancelled"), ("D1", "alreadyDelivered")):
        async with asyncio.timeout(60):
            while (answer := (await client.cancel(ScheduleOrder(id=name))).status) == "notReady":
                await asyncio.sleep(0.05)
        assert answer == status


async def test_a_second_scheduler_takes_over_when_the_first_is_killed(system):
    first = await system.start_scheduler(claim_ttl_ms=1000)
    await system.topic("orders")
    assert await system.holder() == first.address
    second = await system.start_scheduler(claim_ttl_ms=1000)
    for number in range(30):
        await system.send("orders", b"%d" % number, f"K{number}", TIMER_DELIVER_MS=at(0.5 + number / 30))
    first.kill()
    found = await system.wait_for("orders", 30)
    assert await system.holder() == second.address
    assert sorted(record.body for record in found) == sorted(b"%d" % number for number in range(30))


async def test_a_scheduler_that_was_paused_and_replaced_delivers_nothing_twice(system):
    first = await system.start_scheduler(claim_ttl_ms=1000)
    await system.topic("orders")
    assert await system.holder() == first.address
    for number in range(40):
        await system.send("orders", b"%d" % number, f"P{number}", TIMER_DELIVER_MS=at(0.5 + number / 40))
    first.signal(signal.SIGSTOP)
    second = await system.start_scheduler(claim_ttl_ms=1000)
    async with asyncio.timeout(60):
        while await system.holder() != second.address:
            await asyncio.sleep(0.1)
    first.signal(signal.SIGCONT)
    await system.wait_for("orders", 40)
    await first.says("claims lost")
    await asyncio.sleep(0.5)  # a second delivery would come now
    assert sorted(await system.bodies("orders")) == sorted(b"%d" % number for number in range(40))


async def test_a_killed_store_delivers_each_waiting_message_once(system):
    await system.start_scheduler()
    await system.topic("orders")
    await system.holder()
    for number in range(50):
        await system.send("orders", b"%d" % number, f"S{number}", TIMER_DELIVER_MS=at(1 + number / 50))
        await system.send("orders", b"L%d" % number, f"SL{number}", DELAY="1")
    await system.wait_for("orders", 10)
    port = system.store_process.port
    system.store_process.kill()
    await system.start_store(port)
    await system.wait_for("orders", 100)
    await asyncio.sleep(0.5)  # a second delivery would come now
    found = await system.bodies("orders")
    assert len(found) == len(set(found)) == 100


async def test_messages_of_removed_levels_are_delivered_on_time(tmp_path):
    system = System(tmp_path)
    try:
        await system.start_store(delay_levels="1s 1h 3s 2s")
        await system.topic("orders")
        for level in "1234":
            await system.send("orders", level.encode(), f"W{level}", DELAY=level)
        port = system.store_process.port
        system.store_process.kill()
        await system.start_store(port, delay_levels="1s 2s")
        await system.start_scheduler()
        found = {record.body: record for record in await system.wait_for("orders", 3)}
        assert sorted(found) == [b"1", b"3", b"4"]
        for body, seconds in ((b"1", 1), (b"4", 2), (b"3", 3)):
            assert found[body].store_timestamp >= found[body].born_timestamp + seconds * 1000
        client = await system.client()
        (listed,) = (await client.list_schedules(ListSchedules())).schedules
        assert (listed.id, listed.level) == ("W2", 2)
        assert (await client.cancel(ScheduleOrder(id="W2"))).status == "cancelled"
    finally:
        await system.close()


def far_messages(directory):
    """Return how many messages the due index on disk holds."""
    with contextlib.closing(
        sqlite3.connect(f"file:{directory}/broker-a.due.sqlite?mode=ro", uri=True)
    ) as file:
        return file.execute("SELECT count(*) FROM far").fetchone()[0]


PROPERTY_MAPS = [
    {},
    {"TAGS": "a"},
    {"KEYS": "k1 k2", "TAGS": "a", "x": "1"},
    {"WAIT": "true", "INSTANCE_ID": "i", "x": "ä \U0001f600"},
    {"__SHARDINGKEY": "s", "BUYER_ID": "b", "TRACE_CONTEXT": "t", "RETRY_TOPIC": "was"},
    {"CORRELATION_ID": "c", "REPLY_TO_CLIENT": "r", "TTL": "3000", "DELAYED": "no", "ADELAY": "1"},
    {"TRACE_ON": "false", "MSG_REGION": "r", "CLUSTER": "c", "large": "v" * 20_000},
]
BROKERS_OWN = {"MSG_REGION", "TRACE_ON", "CLUSTER", "REAL_TOPIC", "REAL_QID"}
WAYS = {
    "level": ({"DELAY": "1"}, {"DELAY": "1"}),
    "relative": ({"TIMER_DELAY_MS": "900"}, {}),
    "seconds": ({"TIMER_DELAY_SEC": "1"}, {}),
    "level and instant": ({"DELAY": "1", "TIMER_DELAY_MS": "5"}, {"DELAY": "1"}),
}


async def test_all_delayed_messages_keep_their_properties_and_body(system):
    await system.start_scheduler()
    await system.topic("orders")
    wanted = {}
    for way, (asked, kept) in WAYS.items():
        for number, own in enumerate(PROPERTY_MAPS):
            uniq = f"{way}{number}"
            await system.send("orders", uniq.encode(), uniq, **own, **asked)
            wanted[uniq] = {"UNIQ_KEY": uniq, **own, **kept}
    for record in await system.wait_for("orders", len(wanted)):
        found, own = record.property_map(), wanted.pop(record.body.decode())
        assert {name: found.get(name) for name in own} == own
        assert {name for name in found.keys() - own.keys() if name != "__GANTRY_SETTLED"} <= BROKERS_OWN
    assert not wanted


CANCELLED = 58
"""The last of the even numbers that are sent first."""


@pytest.mark.parametrize(
    ("due_seconds", "rows"),
    [
        pytest.param(1, 30, id="near"),
        pytest.param(25, 59, id="far at first, then near", marks=pytest.mark.soak),
    ],
)
async def test_a_killed_scheduler_resumes_its_index_and_delivers_each_once(system, due_seconds, rows):
    """The soak form waits until messages that only the file holds become due."""
    first = await system.start_scheduler(claim_ttl_ms=1000)
    await system.topic("orders")
    client = await system.client()
    for number in range(60):
        is_far = number % 2 or number == CANCELLED
        due = at(600) if is_far else at(due_seconds + number / 60)
        await system.send("orders", b"%d" % number, f"T{number}", TIMER_DELIVER_MS=due)
    assert (await client.cancel(ScheduleOrder(id=f"T{CANCELLED}"))).status == "cancelled"
    async with asyncio.timeout(60):
        while far_messages(system.directory / "scheduler-1") != rows:
            await asyncio.sleep(0.05)
    first.kill()
    await system.send("orders", b"60", "T60", TIMER_DELIVER_MS=at(1))
    second = await system.start_scheduler(number=1, claim_ttl_ms=1000)
    found = [int(record.body) for record in await system.wait_for("orders", 30)]
    assert sorted(found) == [*range(0, CANCELLED, 2), 60]
    assert any("took over the due index" in line for line in second.lines)
    client = await system.client()
    async with asyncio.timeout(60):
        while (page := await client.list_schedules(ListSchedules())).incomplete:
            await asyncio.sleep(0.05)
    assert {one.id for one in page.schedules} == {f"T{number}" for number in range(1, 60, 2)}
    assert (await client.cancel(ScheduleOrder(id="T59"))).status == "cancelled"
    assert (await client.cancel(ScheduleOrder(id=f"T{CANCELLED}"))).status == "cancelled"


async def test_undeliverable_messages_are_parked_and_resent_and_others_continue(system):
    await system.topic("gone")
    await system.topic("orders")
    await system.send("gone", b"poor", "G1", TIMER_DELIVER_MS=at(0.1))
    await system.send("orders", b"fine", "F1", TIMER_DELIVER_MS=at(0.2))
    await system.store.delete_topic("gone")
    await system.start_scheduler(park_after_hours=0.0005)  # not before: it would deliver to the topic
    assert [record.body for record in await system.wait_for("orders", 1)] == [b"fine"]
    client = await system.client()
    async with asyncio.timeout(60):
        while not (parked := (await client.list_parked(ListParked())).schedules):
            await asyncio.sleep(0.1)
    assert [(one.id, one.topic, one.kind) for one in parked] == [("G1", "gone", "parked")]
    assert (await client.resend_parked(ScheduleOrder(id="G1"))).status == "failed"
    await system.topic("gone")
    assert (await client.resend_parked(ScheduleOrder(id="G1"))).status == "delivered"
    assert (await system.wait_for("gone", 1))[-1].body == b"poor"


async def test_a_recalled_message_is_never_delivered(system):
    """On a busy machine a recall may come too late. Then a message that is due later is recalled."""
    await system.start_scheduler()
    await system.topic("orders")
    client = await system.client()
    for seconds in (1, 5, 25):
        name, due = f"RC{seconds}", at(seconds)
        stored = await system.send("orders", name.encode(), name, TIMER_DELIVER_MS=due)
        recall = RecallHeader(topic="orders", recall_handle=stored.reply.recall_handle, producer_group="pg")
        with contextlib.suppress(BrokerRefused):
            assert (await system.store.ask(370, recall)).ext["msgId"] == name
            while name in {one.id for one in (await client.list_schedules(ListSchedules())).schedules}:
                await asyncio.sleep(0.02)
            if time.time() < int(due) / 1000:
                break
    await system.send("orders", b"kept", "KEPT", TIMER_DELIVER_MS=str(int(due) + 100))
    async with asyncio.timeout(60):
        while b"kept" not in (found := await system.bodies("orders")):
            await asyncio.sleep(0.05)
    assert name.encode() not in found
    assert (await client.cancel(ScheduleOrder(id=name))).status == "cancelled"
