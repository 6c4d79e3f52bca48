"""The tasks of one store during one term: reads them from the tasks queue, runs, shows and cancels them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

from gantry_chassis.logs.structured import get_logger
from gantry_link.clients.store import Pulled, StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.system_queues.claims import Held
from gantry_link.system_queues.following import Follower
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.headers.messages import SendHeaderV2
from gantry_wire.private_requests.scheduling import CreateTask, TaskView, task_id
from gantry_wire.private_requests.settling import SettleItem
from gantry_wire.records.message_record import Record, scan_records
from scheduler.delivering.settler import Settler
from scheduler.system_names import SCHEDULER_GROUP, TASKS_TOPIC
from scheduler.tasks.bulk import NobodyHolds
from scheduler.tasks.redrive import RedriveBlocked
from scheduler.tasks.running_task import (
    TASKS_QUEUE,
    RunningTask,
    TaskLost,
    TaskRecord,
    decode_task,
    encode_json,
)

TASKS_MAX = 1000
"""Ended tasks kept in memory. Records of older ones stay in the log until retention deletes them."""
RETRY_SECONDS = 2.0

_log = get_logger()


class Work(Protocol):
    """The work of one kind of task. It can restart from the task's marks."""

    async def run(self, task: RunningTask) -> None:
        """Work until done or cancelled."""
        ...


class Desk:
    """Keeps and runs the tasks of one store."""

    def __init__(
        self,
        broker: str,
        store: StoreClient,
        held: Held,
        settler: Settler,
        work: dict[str, Work],
        wall_ms: Callable[[], int],
        rng: random.Random,
    ) -> None:
        self.views: dict[str, TaskView] = {}
        self.running: dict[str, RunningTask] = {}
        self._broker, self._store, self._held, self._settler = broker, store, held, settler
        self._work, self._wall_ms = work, wall_ms
        self._newest: dict[str, tuple[TaskRecord, int, int]] = {}
        self._follower = Follower(store, (TASKS_TOPIC, 0), SCHEDULER_GROUP, self._take, rng=rng)
        self._group: asyncio.TaskGroup | None = None
        self._is_over = False

    @property
    def is_complete(self) -> bool:
        """Whether all tasks stored before the term began are known."""
        return self._follower.metrics.next_offset >= self._held.max_offset

    async def run(self) -> None:
        """Follow the tasks queue and run its tasks, until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                self._group.create_task(self._follower.run(0), name="follow tasks")
                self._group.create_task(self._begin_all(), name="begin tasks")
        finally:
            self._is_over = True

    async def create(self, definition: CreateTask) -> TaskView:
        """Store a definition; the task begins when it is read back. Raises LinkError or BrokerRefused."""
        now_ms = self._wall_ms()
        view = TaskView(
            id="", kind=definition.kind, state="running", broker=self._broker, definition=definition,
            created_ms=now_ms, updated_ms=now_ms,
        )  # fmt: skip
        header = SendHeaderV2(
            producer_group=SCHEDULER_GROUP, topic=TASKS_TOPIC, default_topic="", default_topic_queue_nums=0, queue_id=0,
            sys_flag=0, born_timestamp=now_ms, flag=0, probe=True,
        )  # fmt: skip
        stored = await self._store.send(header, encode_json(TaskRecord(view=view)), timeout_seconds=10.0)
        view.id = task_id(self._broker, stored.reply.queue_offset)
        self.views.setdefault(view.id, view)
        return self.views[view.id]

    def show(self, identifier: str) -> TaskView:
        """Return a task. Raises RefusedRequest when it does not exist or was not read yet."""
        view = self.views.get(identifier)
        if view is not None:
            return view
        if not self.is_complete:
            raise RefusedRequest(
                ResponseCode.SYSTEM_BUSY, f"the tasks of {self._broker} are still being read; ask again"
            )
        raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, f"there is no task {identifier[:64]}")

    async def cancel(self, identifier: str) -> TaskView:
        """End a task where it is; return when that is stored. An ended task stays as it is.

        Raises RefusedRequest when the term ends first: ask the scheduler that works on the task next.
        """
        view = self.show(identifier)
        while view.state == "running":
            if self._is_over:
                message = (
                    f"this scheduler no longer serves {self._broker}; ask the scheduler that holds its claims"
                )
                raise RefusedRequest(ResponseCode.SERVICE_NOT_AVAILABLE, message, {"gantryCode": "NOT_HELD"})
            task = self.running.get(identifier)
            if task is None:
                await asyncio.sleep(0.02)  # it was just created and not read back yet
                view = self.views.get(identifier, view)
                continue
            task.cancel()
            await task.ended.wait()
            view = task.view
        return view

    def _take(self, pulled: Pulled) -> None:
        for record in scan_records(pulled.records):
            known = decode_task(record.body)
            if known is not None:
                self._note(known, record)

    def _note(self, known: TaskRecord, record: Record) -> None:
        known.view.id = known.view.id or task_id(self._broker, record.queue_offset)
        identifier = known.view.id
        before = self.views.get(identifier)
        is_old = before is not None and before.state != "running" and known.view.state == "running"
        if identifier in self.running or is_old:
            return  # our own checkpoint; an ended task never runs again, in whichever order they are read
        self.views[identifier] = known.view
        while len(self.views) > TASKS_MAX:
            oldest = next((one for one, view in self.views.items() if view.state != "running"), None)
            if oldest is None:
                break
            del self.views[oldest]
        self._newest.pop(identifier, None)
        if known.view.state == "running" or record.queue_offset >= self._held.cursor:
            self._newest[identifier] = (known, record.queue_offset, record.position)
        if self.is_complete and known.view.state == "running":
            self._begin(identifier)

    async def _begin_all(self) -> None:
        while not self.is_complete:  # noqa: ASYNC110 - a moment, when the term begins
            await asyncio.sleep(0.02)
        for identifier, (known, offset, position) in list(self._newest.items()):
            if known.view.state == "running":
                self._begin(identifier)
            else:  # the task ended, and a crash came before the store settled that
                ended = SettleItem(offset, position, [], known.view.state, force=True)
                await self._settler.settle(TASKS_QUEUE, [ended])
                del self._newest[identifier]

    def _begin(self, identifier: str) -> None:
        assert self._group is not None
        known = self._newest.pop(identifier, None)
        if known is None or identifier in self.running:
            return
        record, offset, position = known
        task = self.running[identifier] = RunningTask(record, offset, position, self._settler, self._wall_ms)
        self._group.create_task(self._run(task), name=f"task {identifier}")

    async def _run(self, task: RunningTask) -> None:
        identifier, work = task.view.id, self._work[task.view.kind]
        _log.info("task runs", task=identifier, kind=task.view.kind)
        try:
            while not task.ended.is_set():
                try:
                    if not task.is_cancelled:
                        await work.run(task)
                    await task.end("cancelled" if task.is_cancelled else "done")
                except WireError as error:
                    await task.end("failed", str(error))
                except TaskLost as error:
                    _log.warning("task lost", task=identifier, error=str(error))
                    break
                except (LinkError, BrokerRefused, RedriveBlocked, NobodyHolds) as error:
                    task.view.error = str(error)
                    _log.warning("task waits", task=identifier, error=str(error))
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            task.ended.set()  # also when the term ends or the task is lost: waiting cancellers look again
            del self.running[identifier]
        _log.info("task ended", task=identifier, state=task.view.state, outcomes=task.view.outcomes)
