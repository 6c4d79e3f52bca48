"""One running task: counts, failures, marks, pace, and checkpoints, each settled from the one before.

A task therefore has exactly one undecided record in the log, the newest. After a crash it resumes there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

import msgspec

from gantry_wire.private_requests.scheduling import FAILURES_MAX, TaskFailure, TaskState, TaskView
from gantry_wire.private_requests.settling import SettleItem, SettleOutput
from scheduler.delivering.settler import Settler
from scheduler.system_names import TASKS_TOPIC

CHECKPOINT_SECONDS = 1.0
BATCH_SECONDS = 0.25
"""A rate limit allows one batch of at most this many seconds' worth: a limit of 100 a second permits no thousands now."""
TASKS_QUEUE = (TASKS_TOPIC, 0)
encode_json = msgspec.json.Encoder().encode
T = TypeVar("T")


class TaskRecord(msgspec.Struct, kw_only=True, rename="camel"):
    """The content of a record of the tasks queue. Marks say where a task is, in a format of its kind."""

    view: TaskView
    marks: dict[str, int] = msgspec.field(default_factory=dict[str, int])


def decode_task(body: bytes) -> TaskRecord | None:
    """Return the content of a record; None when it is not one of ours."""
    try:
        return msgspec.json.decode(body, type=TaskRecord)
    except msgspec.MsgspecError:
        return None


class TaskLost(Exception):
    """The task's newest record is not the one we know: another scheduler works on it."""


class RunningTask:
    """A task in progress."""

    def __init__(
        self, record: TaskRecord, offset: int, position: int, settler: Settler, wall_ms: Callable[[], int]
    ) -> None:
        self.view, self.marks = record.view, record.marks
        self.ended = asyncio.Event()
        self._offset, self._position = offset, position
        self._settler, self._wall_ms = settler, wall_ms
        self._loop = asyncio.get_running_loop()
        self._written_at = self._loop.time()
        self._began, self._paced = self._loop.time(), 0
        self._cancelled = asyncio.Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether the task should end where it is."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Ask the task to end where it is; `ended` reports when it did."""
        self._cancelled.set()

    async def unless_cancelled(self, awaited: asyncio.Future[T], seconds: float) -> T | None:
        """Wait for an awaitable; return None when the task is cancelled meanwhile. Raises TimeoutError."""
        cancelled = self._loop.create_task(self._cancelled.wait())
        try:
            done, _ = await asyncio.wait(
                (awaited, cancelled), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                raise TimeoutError
            return awaited.result() if awaited in done else None
        finally:
            cancelled.cancel()

    def batch(self, most: int) -> int:
        """Return how many messages one batch may hold."""
        limit = self.view.definition.max_per_second
        return most if not limit else max(1, min(most, int(limit * BATCH_SECONDS)))

    def count(self, outcome: str, number: int = 1) -> None:
        """Count messages by outcome."""
        if number:
            self.view.outcomes[outcome] = self.view.outcomes.get(outcome, 0) + number
            self.view.done += number

    def fail(self, failure: TaskFailure) -> None:
        """Count a failed message; the first failures are listed."""
        self.view.failed += 1
        self.view.outcomes["failed"] = self.view.outcomes.get("failed", 0) + 1
        if len(self.view.failures) < FAILURES_MAX:
            self.view.failures.append(failure)

    async def pace(self, number: int) -> None:
        """Wait as the rate limit asks for this many more messages, or until the task is cancelled."""
        limit = self.view.definition.max_per_second
        self._paced += number
        if limit:
            seconds = max(0.0, self._began + self._paced / limit - self._loop.time())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._cancelled.wait()

    async def checkpoint(self, *, now: bool = False) -> None:
        """Write the task's progress, at most once a second. Raises LinkError, BrokerRefused, TaskLost."""
        if now or self._loop.time() - self._written_at >= CHECKPOINT_SECONDS:
            self._written_at = self._loop.time()
            await self._write(self.view)

    async def end(self, state: TaskState, error: str | None = None) -> None:
        """Write the last record and mark it as last. Raises as `checkpoint` does."""
        await self._write(msgspec.structs.replace(self.view, state=state, error=error))
        # Shown only now: until the record is stored, the next scheduler would continue the task.
        self.view.state, self.view.error = state, error
        await self._settler.settle(TASKS_QUEUE, [self._item([], state)])
        self.ended.set()

    async def _write(self, view: TaskView) -> None:
        view.updated_ms = self.view.updated_ms = self._wall_ms()
        body = encode_json(TaskRecord(view=view, marks=self.marks))
        output = SettleOutput(TASKS_TOPIC, 0, body=None, body_base64=body, properties="none")
        reply = await self._settler.settle(TASKS_QUEUE, [self._item([output], "checkpoint")])
        result = reply.results[0]
        if not result.outputs:
            raise TaskLost(
                f"task {self.view.id}: its record at {self._offset} is {result.status} {result.detail}"
            )
        self._offset, self._position = result.outputs[0].queue_offset, result.outputs[0].position

    def _item(self, outputs: list[SettleOutput], outcome: str) -> SettleItem:
        return SettleItem(self._offset, self._position, outputs, outcome, force=True)
