"""Tasks over several stores. One that is away when a task begins is worked on later; nothing is counted twice."""

import asyncio
from types import SimpleNamespace

import pytest
from schedule_records import record

from gantry_link.clients.store import Pulled
from gantry_link.errors import ConnectionLost
from gantry_wire.bodies.admin import TopicOffset, TopicStatsTable
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.codes import GantryCode
from gantry_wire.names import dlq_topic
from gantry_wire.private_requests.scheduling import (
    CreateTask,
    MessageFilter,
    Schedule,
    ScheduleAnswer,
    ScheduleQuery,
    SchedulesPage,
    TaskView,
)
from gantry_wire.private_requests.settling import (
    ClaimReplyBody,
    GrantedClaim,
    OutputPlace,
    SettleBody,
    SettleReplyBody,
    SettleResult,
    SettleStatus,
    decode_json,
)
from scheduler.system_names import TASKS_TOPIC
from scheduler.tasks import bulk
from scheduler.tasks.bulk import Bulk, NobodyHolds
from scheduler.tasks.redrive import Redrive
from scheduler.tasks.running_task import RunningTask, TaskRecord, encode_json

pytestmark = pytest.mark.anyio


class Settler:
    """Stores every checkpoint."""

    async def settle(self, _queue, items):
        place = OutputPlace(TASKS_TOPIC, 0, 1, 0)
        results = [
            SettleResult(one.offset, SettleStatus.SETTLED, [place] * len(one.outputs)) for one in items
        ]
        return SettleReplyBody(results, 1000)


class Store:
    """Has two dead letters, one delayed message, and is away for some calls."""

    def __init__(self, broker, failures=()):
        self.broker, self.failures = broker, list(failures)
        self.redriven = []

    def answer(self, call):
        if call in self.failures:
            self.failures.remove(call)
            raise ConnectionLost(call, sent=True)

    async def max_offset(self, _topic, _queue_id):
        self.answer("end")
        return 100

    async def topic_stats(self, topic):
        self.answer("end")
        return TopicStatsTable(
            offset_table={
                MessageQueue(topic=topic, broker_name=self.broker, queue_id=0): TopicOffset(
                    min_offset=0, max_offset=2
                )
            }
        )

    async def pull(self, header):
        records = [
            record(dlq_topic("g"), 0, offset, TAGS="red" if offset else "blue")
            for offset in range(header.queue_offset, 2)
        ]
        return Pulled(0, 2, 0, 2, "", b"".join(records))

    async def ask(self, code, _header, body=b"", **_options):
        if code == GantryCode.CLAIM_QUEUES:
            return SimpleNamespace(body=encode_json(ClaimReplyBody([GrantedClaim(1, 0, 2)], 0)))
        self.answer("settle")
        offsets = [item.offset for item in decode_json(body, SettleBody).items]
        self.redriven += offsets
        results = [SettleResult(offset, SettleStatus.SETTLED) for offset in offsets]
        return SimpleNamespace(body=encode_json(SettleReplyBody(results, 1000)))

    async def tell(self, *_request):
        """Release a claim."""


class Scheduler:
    """The scheduler that holds a store."""

    def __init__(self, store):
        self._store = store
        self.waiting = [
            Schedule(
                id=f"{store.broker} {number}", broker=store.broker, topic="orders", queue_id=0, deliver_at_ms=1, kind="instant",
                system_queue_id=0, system_offset=number, position=0,
            )
            for number in range(2)
        ]  # fmt: skip

    async def list_schedules(self, _asked):
        self._store.answer("list")
        return SchedulesPage(schedules=list(self.waiting), brokers=[self._store.broker])

    async def cancel(self, order):
        if order.id.endswith("1"):
            self._store.answer("cancel")
        self.waiting = [one for one in self.waiting if one.id != order.id]
        return ScheduleAnswer(status="cancelled", id=order.id)


async def run(work, **definition):
    """Run a task as the desk does: again after each failure."""
    asked = CreateTask(**definition)
    view = TaskView(id="broker-a.1", kind=asked.kind, state="running", broker="broker-a", definition=asked)
    task = RunningTask(TaskRecord(view=view), 0, 0, Settler(), lambda: 1000)
    failures = 0
    async with asyncio.timeout(20):
        while not task.ended.is_set():
            try:
                await work.run(task)
                await task.end("done")
            except (ConnectionLost, NobodyHolds):
                failures += 1
    return view, failures


def stores_of(*stores):
    return lambda: {store.broker: store for store in stores}


async def test_a_redrive_waits_for_a_store_that_is_away_when_it_begins():
    stores = Store("broker-a"), Store("broker-b", ["end"])
    view, failures = await run(Redrive(stores_of(*stores), "me", "here"), kind="redrive", group="g")
    assert failures == 1
    assert [store.redriven for store in stores] == [[0, 1], [0, 1]]
    assert (view.total, view.done, view.outcomes) == (4, 4, {"redriven": 4})


async def test_a_redrive_that_fails_and_continues_counts_each_letter_once():
    store = Store("broker-a", ["settle"])
    view, failures = await run(
        Redrive(stores_of(store), "me", "here"),
        kind="redrive",
        group="g",
        filter=MessageFilter(expression="red"),
    )
    assert failures == 1
    assert (view.total, view.done, view.outcomes) == (2, 2, {"redriven": 1, "skipped": 1})


async def test_a_redrive_continues_behind_letters_that_are_removed_meanwhile(monkeypatch):
    store = Store("broker-a")
    right, pulls = store.pull, []

    async def removing_at_first(header):
        pulls.append(header)
        return await right(header) if len(pulls) > 2 else Pulled(20, header.queue_offset, 0, 2, "", b"")

    monkeypatch.setattr(store, "pull", removing_at_first)
    view, _failures = await run(Redrive(stores_of(store), "me", "here"), kind="redrive", group="g")
    assert (store.redriven, view.outcomes) == ([0, 1], {"redriven": 2})


async def test_a_redrive_ends_where_the_queue_ends_now(monkeypatch):
    store = Store("broker-a")

    async def shorter(_header):
        return Pulled(19, 0, 0, 0, "", b"")

    monkeypatch.setattr(store, "pull", shorter)
    view, _failures = await run(Redrive(stores_of(store), "me", "here"), kind="redrive", group="g")
    assert (store.redriven, view.outcomes) == ([], {})


async def test_a_redrive_takes_a_letter_with_damaged_properties_along(monkeypatch):
    store = Store("broker-a")
    right = store.pull

    async def damaged(header):
        pulled = await right(header)
        return pulled._replace(records=pulled.records.replace(b"blue", b"bl\xf5e"))

    monkeypatch.setattr(store, "pull", damaged)
    redrive = Redrive(stores_of(store), "me", "here")
    view, _failures = await run(redrive, kind="redrive", group="g", target="original")
    assert (store.redriven, view.outcomes) == ([0, 1], {"redriven": 2})


@pytest.fixture
def scheduled(monkeypatch):
    """Find one scheduler for each store."""
    schedulers = {}

    async def holder(store):
        return schedulers.setdefault(store.broker, Scheduler(store))

    monkeypatch.setattr(bulk, "_holder", holder)


@pytest.mark.usefixtures("scheduled")
async def test_a_bulk_task_waits_for_a_store_that_is_away_when_it_begins():
    stores = Store("broker-a"), Store("broker-b", ["end"])
    view, failures = await run(
        Bulk(stores_of(*stores)), kind="bulkCancel", schedules=ScheduleQuery(topic="orders")
    )
    assert failures == 1
    assert (view.total, view.done, view.outcomes) == (4, 4, {"cancelled": 4})


@pytest.mark.usefixtures("scheduled")
@pytest.mark.parametrize("is_dry", [True, False])
async def test_a_bulk_task_that_fails_and_continues_counts_each_message_once(is_dry):
    stores = Store("broker-a", [] if is_dry else ["cancel"]), Store("broker-b", ["list"] if is_dry else [])
    view, failures = await run(
        Bulk(stores_of(*stores)), kind="bulkCancel", dry_run=is_dry, schedules=ScheduleQuery(topic="orders")
    )
    assert failures == 1
    assert (view.total, view.done) == (4, 4)
    assert view.outcomes == ({"wouldCancel": 4} if is_dry else {"cancelled": 4})


@pytest.mark.usefixtures("scheduled")
async def test_a_bulk_task_continues_after_a_scheduler_lost_its_claims(monkeypatch):
    store, right, orders = Store("broker-a"), Scheduler.cancel, []

    async def not_ready_once(self, order):
        orders.append(order.id)
        if len(orders) == 2:
            return ScheduleAnswer(status="notReady", id=order.id)
        return await right(self, order)

    monkeypatch.setattr(Scheduler, "cancel", not_ready_once)
    view, failures = await run(
        Bulk(stores_of(store)), kind="bulkCancel", schedules=ScheduleQuery(topic="orders")
    )
    assert failures == 1
    assert (view.total, view.done, view.outcomes, view.failed) == (2, 2, {"cancelled": 2}, 0)
