"""A record of a task read after the task ended does not restart it."""

import asyncio
import contextlib
import random

import pytest
from schedule_records import record

from gantry_link.clients.store import Pulled
from gantry_link.system_queues.claims import Held
from gantry_wire.errors import RefusedRequest
from gantry_wire.private_requests.scheduling import CreateTask, TaskView
from gantry_wire.private_requests.settling import OutputPlace, SettleReplyBody, SettleResult, SettleStatus
from scheduler.system_names import TASKS_TOPIC
from scheduler.tasks.desk import Desk
from scheduler.tasks.running_task import TaskRecord, encode_json

pytestmark = pytest.mark.anyio


class SlowQueue:
    """A tasks queue that shows its records when the test says so."""

    def __init__(self):
        self.shown, self.more = [], asyncio.Event()

    def show(self, body):
        self.shown.append(record(TASKS_TOPIC, 0, len(self.shown), body=body))
        self.more.set()

    async def pull(self, header):
        while header.queue_offset >= len(self.shown):
            self.more.clear()
            await self.more.wait()
        end = len(self.shown)
        return Pulled(0, end, 0, end, "", b"".join(self.shown[header.queue_offset :]))


class Writing:
    """A settler that buffers records for later."""

    def __init__(self):
        self.bodies = []

    async def settle(self, _queue, items):
        results = []
        for item in items:
            self.bodies += [output.body_base64 for output in item.outputs]
            places = [OutputPlace(TASKS_TOPIC, 0, len(self.bodies), 0) for _ in item.outputs]
            results.append(SettleResult(item.offset, SettleStatus.SETTLED, places))
        return SettleReplyBody(results, 1000)


class Work:
    def __init__(self):
        self.runs = 0

    async def run(self, task):
        self.runs += 1
        task.count("redriven")
        await task.checkpoint(now=True)


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def redrive():
    return TaskView(
        id="",
        kind="redrive",
        state="running",
        broker="broker-a",
        definition=CreateTask(kind="redrive", group="g"),
        created_ms=1,
        updated_ms=1,
    )


async def test_a_checkpoint_read_after_the_end_does_not_restart_the_task():
    queue, writing, work = SlowQueue(), Writing(), Work()
    held = Held(TASKS_TOPIC, 0, 1, 0, 0, 0)
    desk = Desk("broker-a", queue, held, writing, {"redrive": work}, lambda: 1000, random.Random(1))
    running = asyncio.ensure_future(desk.run())
    queue.show(encode_json(TaskRecord(view=redrive())))
    await until(lambda: desk.views and not desk.running and len(writing.bodies) == 2)
    (identifier,) = desk.views
    for body in writing.bodies:  # the checkpoint and the end are read only now
        queue.show(body)
    await until(lambda: desk.show(identifier).updated_ms == 1000 and not desk.running)
    queue.show(b"no task, and the last that is read")
    await asyncio.sleep(0.1)
    assert work.runs == 1
    assert (desk.show(identifier).state, desk.show(identifier).outcomes) == ("done", {"redriven": 1})
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


class EndlessWork:
    async def run(self, task):
        await until(lambda: task.is_cancelled)


class AwayStore:
    """A settler that never answers."""

    async def settle(self, _queue, _items):
        await asyncio.Event().wait()


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_waiting_cancel_is_refused_when_the_term_ends(is_read):
    queue = SlowQueue()
    held = Held(TASKS_TOPIC, 0, 1, 0, 0, 0)
    desk = Desk(
        "broker-a", queue, held, AwayStore(), {"redrive": EndlessWork()}, lambda: 1000, random.Random(1)
    )
    running = asyncio.ensure_future(desk.run())
    if is_read:
        queue.show(encode_json(TaskRecord(view=redrive())))
        await until(lambda: desk.running)
    else:
        desk.views["t"] = redrive()  # stored but not read back yet
    (identifier,) = desk.views
    cancelling = asyncio.ensure_future(desk.cancel(identifier))
    await asyncio.sleep(0.05)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    async with asyncio.timeout(60):
        with pytest.raises(RefusedRequest, match="no longer serves broker-a"):
            await cancelling


async def test_a_task_shows_no_end_that_is_not_stored():
    queue, writing = SlowQueue(), Writing()
    begun, stored = asyncio.Event(), asyncio.Event()

    async def settle_later(queue_key, items):
        begun.set()
        await stored.wait()
        return await Writing.settle(writing, queue_key, items)

    writing.settle = settle_later
    held = Held(TASKS_TOPIC, 0, 1, 0, 0, 0)
    desk = Desk("broker-a", queue, held, writing, {"redrive": EndlessWork()}, lambda: 1000, random.Random(1))
    running = asyncio.ensure_future(desk.run())
    queue.show(encode_json(TaskRecord(view=redrive())))
    await until(lambda: desk.running)
    (identifier,) = desk.views
    cancelling = asyncio.ensure_future(desk.cancel(identifier))
    await begun.wait()
    assert desk.show(identifier).state == "running"
    again = asyncio.ensure_future(desk.cancel(identifier))
    await asyncio.sleep(0.05)
    assert not again.done()
    stored.set()
    assert [view.state for view in await asyncio.gather(cancelling, again)] == ["cancelled"] * 2
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
