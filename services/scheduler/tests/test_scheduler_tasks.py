"""Tasks on a store process: redrive with filter, dry run and repeats; bulk orders; a task that outlives its scheduler."""

import asyncio
import time

import pytest
from scheduler_system import System

from gantry_link.errors import BrokerRefused
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.headers.messages import ConsumerSendBackHeader
from gantry_wire.private_requests.scheduling import (
    CreateTask,
    ListSchedules,
    ListTasks,
    MessageFilter,
    ScheduleQuery,
    TaskOrder,
)

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]
SEND_BACK = 36


@pytest.fixture
async def system(tmp_path):
    made = System(tmp_path)
    try:
        await made.start_store()
        yield made
    finally:
        await made.close()


async def ended(client, view, seconds=90):
    async with asyncio.timeout(seconds):
        while view.state == "running":
            await asyncio.sleep(0.05)
            view = await client.show_task(TaskOrder(id=view.id))
    return view


async def dead_letters(system, count):
    """Send messages and dead-letter them, as a consumer does."""
    await system.topic("orders")
    await system.store.put_group(SubscriptionGroupConfig(group_name="g"))
    for number in range(count):
        await system.send(
            "orders", b"%d" % number, f"Q{number}", TAGS="even" if number % 2 == 0 else "odd", n=str(number)
        )
    for record in await system.wait_for("orders", count):
        header = ConsumerSendBackHeader(offset=record.position, group="g", delay_level=-1)
        await system.store.ask(SEND_BACK, header)
    await system.wait_for("%DLQ%g", count)


async def test_dead_letters_are_redriven_at_most_once(system):
    await system.start_scheduler()
    await dead_letters(system, 10)
    client = await system.client()
    tried = await ended(client, await client.create_task(CreateTask(kind="redrive", group="g", dry_run=True)))
    assert (tried.state, tried.outcomes, tried.total) == ("done", {"wouldRedrive": 10}, 10)
    even = await ended(
        client,
        await client.create_task(
            CreateTask(
                kind="redrive", group="g", target="original",
                filter=MessageFilter(type="sql92", expression="n >= 4 AND TAGS = 'even'"),
            )
        ),
    )  # fmt: skip
    assert (even.state, even.outcomes) == ("done", {"skipped": 7, "redriven": 3})
    assert [record.body for record in await system.wait_for("orders", 13)][10:] == [b"4", b"6", b"8"]
    rest = await ended(client, await client.create_task(CreateTask(kind="redrive", group="g")))
    assert rest.outcomes == {"redriven": 7, "redrivenBefore": 3}
    retried = await system.wait_for("%RETRY%g", 7)
    assert {record.body for record in retried} == {b"0", b"1", b"2", b"3", b"5", b"7", b"9"}
    assert {record.reconsume_times for record in retried} == {0}
    listed = (await client.list_tasks(ListTasks())).tasks
    assert {one.id for one in listed} == {tried.id, even.id, rest.id}


async def test_a_redrive_to_a_missing_topic_lists_each_failure(system):
    await system.start_scheduler()
    await dead_letters(system, 3)
    client = await system.client()
    view = await ended(
        client, await client.create_task(CreateTask(kind="redrive", group="g", target="nowhere"))
    )
    assert (view.state, view.failed) == ("done", 3)
    assert [one.offset for one in view.failures] == [0, 1, 2]
    assert all("unknownTopic" in one.reason for one in view.failures)


async def test_a_task_continues_under_another_scheduler_and_can_be_cancelled(system):
    first = await system.start_scheduler(claim_ttl_ms=1000)
    await dead_letters(system, 2)
    client = await system.client()
    view = await client.create_task(CreateTask(kind="redrive", group="g", max_per_second=1))
    async with asyncio.timeout(60):
        while not (await client.show_task(TaskOrder(id=view.id))).outcomes:
            await asyncio.sleep(0.05)
    first.kill()
    second = await system.start_scheduler(claim_ttl_ms=1000)
    async with asyncio.timeout(60):
        while await system.holder() != second.address:
            await asyncio.sleep(0.05)
    client = await system.client()
    over = await ended(client, view)
    assert over.state == "done"
    assert len(await system.bodies("%RETRY%g")) == 2
    # Not before the first has ended: either may get the claim that the killed scheduler leaves behind.
    other = await client.create_task(CreateTask(kind="redrive", group="g", max_per_second=0.001))
    assert (await client.cancel_task(TaskOrder(id=other.id))).state in ("cancelled", "done")
    assert (await client.cancel_task(TaskOrder(id=view.id))).state == "done"
    with pytest.raises(BrokerRefused, match="there is no task"):
        await client.show_task(TaskOrder(id="broker-a.9999"))


async def test_a_rate_limited_task_works_in_small_batches_and_cancels_at_once(system):
    await system.start_scheduler()
    await dead_letters(system, 8)
    await system.topic("orders")
    due = int(time.time() * 1000) + 600_000
    for number in range(4):
        await system.send("orders", b"x", f"S{number}", TIMER_DELIVER_MS=str(due + number))
    client = await system.client()
    async with asyncio.timeout(60):
        while len((await client.list_schedules(ListSchedules())).schedules) < 4:
            await asyncio.sleep(0.05)
    moving = ScheduleQuery(topic="orders")
    for wanted in (
        CreateTask(kind="redrive", group="g", max_per_second=0.001),
        CreateTask(kind="bulkMove", schedules=moving, shift_ms=1000, max_per_second=0.001),
    ):
        view = await client.create_task(wanted)
        async with asyncio.timeout(60):
            while not view.done:
                await asyncio.sleep(0.05)
                view = await client.show_task(TaskOrder(id=view.id))
        async with asyncio.timeout(90):
            view = await client.cancel_task(TaskOrder(id=view.id))
        assert (view.state, view.done) == ("cancelled", 1), (
            "one in 1000 seconds, and nobody waits for the next"
        )
    assert len(await system.bodies("%RETRY%g")) == 1
    rest = await ended(client, await client.create_task(CreateTask(kind="redrive", group="g")))
    assert rest.outcomes == {"redriven": 7, "redrivenBefore": 1}


async def test_a_task_that_waits_for_another_can_be_cancelled(system):
    await system.start_scheduler()
    await dead_letters(system, 2)
    client = await system.client()
    first = await client.create_task(CreateTask(kind="redrive", group="g", max_per_second=0.001))
    async with asyncio.timeout(60):
        while not (await client.show_task(TaskOrder(id=first.id))).done:
            await asyncio.sleep(0.05)
    second = await client.create_task(CreateTask(kind="redrive", group="g"))
    async with asyncio.timeout(45):
        assert (await client.cancel_task(TaskOrder(id=second.id))).state == "cancelled"


async def test_many_schedules_are_moved_once_and_cancelled(system):
    await system.start_scheduler()
    await system.topic("orders")
    await system.topic("others")
    due = int(time.time() * 1000) + 600_000
    for number in range(100):
        topic = "orders" if number < 80 else "others"
        await system.send(topic, b"x", f"B{number}", TIMER_DELIVER_MS=str(due + number))
    client = await system.client()
    async with asyncio.timeout(60):
        while len((await client.list_schedules(ListSchedules())).schedules) < 100:
            await asyncio.sleep(0.05)
    moving = CreateTask(kind="bulkMove", schedules=ScheduleQuery(topic="orders"), shift_ms=60_000)
    moved = await ended(client, await client.create_task(moving))
    assert (moved.state, moved.outcomes) == ("done", {"moved": 80})
    async with asyncio.timeout(60):
        while len(page := (await client.list_schedules(ListSchedules(topic="orders"))).schedules) < 80:
            await asyncio.sleep(0.05)
    assert [one.deliver_at_ms for one in page] == [due + 60_000 + number for number in range(80)]
    cancelling = CreateTask(kind="bulkCancel", schedules=ScheduleQuery(to_ms=due + 60_040))
    cancelled = await ended(client, await client.create_task(cancelling))
    assert (cancelled.state, cancelled.outcomes) == ("done", {"cancelled": 60})
    left = (await client.list_schedules(ListSchedules())).schedules
    assert len(left) == 40


async def test_a_task_runs_once_after_its_store_was_killed(system):
    process = await system.start_scheduler()
    await system.topic("orders")
    await system.client()
    port = system.store_process.port
    system.store_process.kill()
    await system.start_store(port)
    await process.says("claims acquired", times=2)  # until then it works on, with claims of the killed store
    client = await system.client()
    every = ScheduleQuery(topic="orders")
    view = await ended(client, await client.create_task(CreateTask(kind="bulkCancel", schedules=every)))
    assert view.state == "done"
    second = await ended(client, await client.create_task(CreateTask(kind="bulkCancel", schedules=every)))
    assert second.state == "done"
    for one in (view, second):
        assert sum(f"task={one.id}" in line and "task runs" in line for line in process.lines) == 1


@pytest.mark.parametrize(
    "task",
    [
        CreateTask(kind="redrive"),
        CreateTask(kind="redrive", group="a b"),
        CreateTask(kind="redrive", group="g", max_per_second=0),
        CreateTask(kind="redrive", group="g", filter=MessageFilter(type="sql92", expression="a >")),
        CreateTask(kind="bulkMove", schedules=ScheduleQuery()),
        CreateTask(kind="bulkCancel"),
    ],
)
async def test_an_impossible_task_is_refused(task):
    from gantry_wire.errors import RefusedRequest
    from scheduler.orders.task_orders import TaskOrders

    with pytest.raises(RefusedRequest):
        await TaskOrders(list).create(task)
