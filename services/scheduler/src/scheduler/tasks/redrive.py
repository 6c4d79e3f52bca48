"""Redrive: settles dead letters into their retry topic, their original topic or another one, each at most once.

The store of the dead letters decides each one: the source of the settled item is the dead letter, for a group of our
own. Neither a crash nor a second task sends one again. Works on every store under a claim on its dead letters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gantry_link.clients.store import Pulled, StoreClient
from gantry_link.errors import BrokerRefused
from gantry_link.system_queues.claims import Claims, Held, QueueKey
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.headers.messages import PullHeader
from gantry_wire.messages.properties import (
    DELAY,
    GANTRY_KEY,
    GANTRY_ORIGIN,
    RETRY_TOPIC,
    TAGS,
    find_property,
    java_hash,
)
from gantry_wire.names import REDRIVE_GROUP, dlq_topic, retry_topic
from gantry_wire.private_requests.scheduling import MessageFilter, TaskFailure
from gantry_wire.private_requests.settling import (
    SettleBody,
    SettleHeader,
    SettleItem,
    SettleOutput,
    SettleReplyBody,
    SettleStatus,
    decode_json,
)
from gantry_wire.records.message_record import Record, scan_records
from gantry_wire.sql92.compiling import compile_filter
from gantry_wire.subscription import TagFilter
from scheduler.system_names import SCHEDULER_GROUP
from scheduler.tasks.running_task import RunningTask, encode_json

ORIGINAL = "original"
BATCH_MESSAGES = 128
CLAIM_SECONDS = 60.0
FLAG_SUBSCRIPTION = 4


class RedriveBlocked(Exception):
    """Another task redrives a store's dead letters, or the store is away; the task continues later."""


class _Queue(NamedTuple):
    broker: str
    store: StoreClient
    topic: str
    queue_id: int

    @property
    def mark(self) -> str:
        return f"{self.broker}:{self.queue_id}"


def message_filter(asked: MessageFilter | None) -> Callable[[bytes], bool]:
    """Return a predicate on property bytes that selects messages. Raises WireError for an illegal expression."""
    if asked is None:
        return lambda _properties: True
    if asked.type == "sql92":
        return compile_filter(asked.expression).matches
    tags = TagFilter.parse(asked.expression)

    def has_tag(properties: bytes) -> bool:
        tag = (find_property(properties, TAGS.encode()) or b"").decode("utf-8", "replace")
        return tags.codes is None or (tag in tags.names and tags.matches(java_hash(tag)))

    return has_tag


class Redrive:
    """The work of a redrive task."""

    def __init__(self, stores: Callable[[], Mapping[str, StoreClient]], owner: str, address: str) -> None:
        self._stores, self._owner, self._address = stores, owner, address

    async def run(self, task: RunningTask) -> None:
        """Process the dead letters that existed when the task began. Raises LinkError, BrokerRefused, RedriveBlocked."""
        wants = message_filter(task.view.definition.filter)
        queues = await self._queues(task)
        for queue in queues:
            if task.marks[queue.mark] < task.marks[f"{queue.mark}:end"]:
                await self._one_queue(task, queue, wants)
            if task.is_cancelled:
                return

    async def _queues(self, task: RunningTask) -> list[_Queue]:
        """Find the queues; on the first run, record where each begins and ends: of all stores, or of none if one is away."""
        group = task.view.definition.group or ""
        queues: list[_Queue] = []
        marks: dict[str, int] = {}
        total = 0
        for broker, store in sorted(self._stores().items()):
            try:
                table = (await store.topic_stats(dlq_topic(group))).offset_table
            except BrokerRefused as refused:
                if refused.code == ResponseCode.TOPIC_NOT_EXIST:
                    continue
                raise
            for place, bounds in sorted(table.items()):
                queue = _Queue(broker, store, dlq_topic(group), place.queue_id)
                queues.append(queue)
                marks[queue.mark], marks[f"{queue.mark}:end"] = bounds.min_offset, bounds.max_offset
                total += bounds.max_offset - bounds.min_offset
        if not task.marks:
            task.marks.update(marks)
            task.view.total = total
            await task.checkpoint(now=True)
        return [queue for queue in queues if queue.mark in task.marks]

    async def _one_queue(self, task: RunningTask, queue: _Queue, wants: Callable[[bytes], bool]) -> None:
        acquired: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        key = (queue.topic, queue.queue_id)

        def got(held: dict[QueueKey, Held]) -> None:
            if not acquired.done():
                acquired.set_result(held[key].epoch)

        claims = Claims(
            queue.store,
            [key],
            owner=f"{self._owner} {task.view.id}",
            address=self._address,
            acquired=got,
            lost=lambda _why: None,
        )
        claiming = asyncio.get_running_loop().create_task(claims.run(), name=f"claim {queue.topic}")
        try:
            epoch = await task.unless_cancelled(acquired, CLAIM_SECONDS)
            if epoch is None:
                return
            while task.marks[queue.mark] < task.marks[f"{queue.mark}:end"] and not task.is_cancelled:
                await self._batch(task, queue, epoch, wants)
        except TimeoutError as error:
            raise RedriveBlocked(f"the dead letters of {queue.broker} are claimed by another task") from error
        finally:
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)

    async def _batch(
        self, task: RunningTask, queue: _Queue, epoch: int, wants: Callable[[bytes], bool]
    ) -> None:
        mark, end = queue.mark, task.marks[f"{queue.mark}:end"]
        begin = task.marks[mark]
        pulled = await _pull(queue, begin)
        records = [record for record in scan_records(pulled.records) if record.queue_offset < end]
        for some in _portions(records, wants, task.batch(BATCH_MESSAGES)):
            chosen = [record for record in some if wants(record.properties)]
            if task.view.definition.dry_run:
                task.count("wouldRedrive", len(chosen))
            elif chosen:
                await self._settle(task, queue, epoch, chosen)
            task.count("skipped", len(some) - len(chosen))
            task.marks[mark] = some[-1].queue_offset + 1
            await task.pace(len(chosen))
            if task.is_cancelled:
                return
            await task.checkpoint()
        task.marks[mark] = max(pulled.next_offset, task.marks[mark])
        if task.marks[mark] == begin and begin >= pulled.max_offset:
            task.marks[mark] = end  # the queue does not hold the rest
        await task.checkpoint()

    async def _settle(self, task: RunningTask, queue: _Queue, epoch: int, records: list[Record]) -> None:
        items = [_item(task, queue, record) for record in records]
        header = SettleHeader(topic=queue.topic, queue_id=queue.queue_id, group=REDRIVE_GROUP, epoch=epoch)
        answer = await queue.store.ask(
            GantryCode.SETTLE, header, encode_json(SettleBody(items)), timeout_seconds=10.0
        )
        for result in decode_json(answer.body, SettleReplyBody).results:
            if result.status == SettleStatus.SETTLED:
                task.count("redriven")
            elif result.status == SettleStatus.ALREADY:
                task.count("redrivenBefore")
            else:
                reason = f"{result.status}: {result.detail}" if result.detail else result.status
                task.fail(TaskFailure(broker=queue.broker, topic=queue.topic, queue_id=queue.queue_id, offset=result.offset, reason=reason))  # fmt: skip


def _item(task: RunningTask, queue: _Queue, record: Record) -> SettleItem:
    target = task.view.definition.target
    if target is None:
        topic = retry_topic(task.view.definition.group or "")
    elif target == ORIGINAL:
        topic = _origin(record)
    else:
        topic = target
    key = f"{task.view.id}:{queue.broker}:{queue.queue_id}:{record.queue_offset}"
    output = SettleOutput(topic, -1, set={GANTRY_KEY: key}, drop=(DELAY,), reconsume_times=0)
    return SettleItem(record.queue_offset, record.position, [output], "redriven", force=True)


def _origin(record: Record) -> str:
    """Return the original topic of a dead letter; its own topic when it names none."""
    properties = record.readable_properties()
    origin = properties.get(RETRY_TOPIC) or properties.get(GANTRY_ORIGIN, "").rsplit(":", 2)[0]
    return origin or record.topic.decode("utf-8", "replace")


def _portions(
    records: list[Record], wants: Callable[[bytes], bool], wanted_max: int
) -> Iterator[list[Record]]:
    """Split records in order, so that each portion holds at most `wanted_max` wanted ones."""
    portion: list[Record] = []
    wanted = 0
    for record in records:
        portion.append(record)
        wanted += wants(record.properties)
        if wanted == wanted_max:
            yield portion
            portion, wanted = [], 0
    if portion:
        yield portion


async def _pull(queue: _Queue, offset: int) -> Pulled:
    header = PullHeader(
        consumer_group=SCHEDULER_GROUP,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=BATCH_MESSAGES,
        sys_flag=FLAG_SUBSCRIPTION,
        subscription="*",
        wide=True,
        browse=True,
    )
    return await queue.store.pull(header)
