"""The background work of a LitePullConsumer: prefetches from queues, and tracks what was returned and committed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from gantry_link.clients.store import StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.errors import WireError
from gantrymq.connection.instance import ClientInstance
from gantrymq.consumer.lite.settings import LiteSettings
from gantrymq.consumer.shared.assigned_queues import AssignedQueues
from gantrymq.consumer.shared.flow import FlowLimits
from gantrymq.consumer.shared.offsets import BrokerOffsets
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.consumer.shared.pulling import Pipeline
from gantrymq.consumer.shared.rebalancing import Rebalancer
from gantrymq.consumer.shared.repeating import repeat
from gantrymq.consumer.shared.statistics import SAMPLE_SECONDS, ConsumerStatistics
from gantrymq.consumer.subscriptions.subscription import Subscription
from gantrymq.errors import ConfigurationError, sdk_error
from gantrymq.hooks import MessageFilter
from gantrymq.machine import Machine
from gantrymq.message import MessageQueue, ReceivedMessage

log: logging.Logger = logging.getLogger("gantrymq")

ASSIGN_AGAIN_SECONDS = 5.0
"""The interval of attempts to read assigned queues whose broker did not answer."""


class LiteReading:
    """The queues of a running LitePullConsumer. Its methods run in its loop."""

    orderly = True
    """Messages are returned in order, so the span of waiting messages needs no limit."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        namespace: str,
        settings: LiteSettings,
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        """`group` and topics are the names in the cluster."""
        self.machine: Machine = instance.settings.machine
        self.steady: Callable[[], float] = self.machine.steady
        self.group: str = group
        self.namespace: str = namespace
        self.flow: FlowLimits = settings.flow
        self.filters: Sequence[MessageFilter] = ()
        self.pull_batch_size: int = settings.pull_batch_size
        self.pull_interval: float = settings.pull_interval
        self.hold_seconds: float = settings.hold_seconds
        self.offsets: BrokerOffsets = BrokerOffsets(group, instance.store)
        self.instance = instance
        self.settings = settings
        self.subscriptions = subscriptions
        self.statistics: ConsumerStatistics = ConsumerStatistics()
        self._open = asyncio.Event()
        self._open.set()
        self._paused: dict[MessageQueue, asyncio.Event] = {}
        self._ready: deque[tuple[ProcessQueue, list[ReceivedMessage]]] = deque()
        self._came = asyncio.Event()
        self._suggested: dict[str, int] = {}
        self._is_member = False
        self._chosen: list[MessageQueue] = []
        """The assigned queues, in place of those of the group."""
        self._choosing = asyncio.Lock()
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
        self.assigned: AssignedQueues = AssignedQueues(
            instance, group, settings, self.offsets, None, self._work_of, self.steady
        )
        self.rebalancer: Rebalancer = Rebalancer(
            instance, self, group, subscriptions, settings.strategy, settings.rebalance_interval
        )

    def start(self, *, shares_queues: bool) -> None:
        """Start to work; with `shares_queues` as a member of the group."""
        self._is_member = shares_queues
        loop = asyncio.get_running_loop()
        sampling = repeat(SAMPLE_SECONDS, self._sample)
        self._tasks.append(loop.create_task(sampling, name=f"gantry {self.group} statistics"))
        sharing = self.rebalancer.run() if shares_queues else repeat(ASSIGN_AGAIN_SECONDS, self._read_chosen)
        self._tasks.append(loop.create_task(sharing, name=f"gantry {self.group} rebalance"))
        if self.settings.auto_commit:
            job = repeat(self.settings.commit_interval, self._commit_soon)
            self._tasks.append(loop.create_task(job, name=f"gantry {self.group} offsets"))

    async def close(self) -> None:
        """Stop, commit if `auto_commit`, and hand the queues over."""
        self._closed = True
        self._came.set()
        try:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._ready.clear()
            await self.drop(list(self.assigned.queues))
        finally:  # also if the caller is cancelled
            await self.assigned.close()

    def subscriptions_changed(self) -> None:
        """React to a new subscription."""
        self.instance.heartbeat_soon()
        self.rebalancer.soon()

    async def assign(self, queues: Collection[MessageQueue]) -> None:
        """Read only these queues; a consumer with subscriptions gets its queues from the group."""
        if self._is_member:
            if queues:
                raise ConfigurationError(
                    "assign: call it before start, or subscribe; this consumer shares queues"
                )
            return
        self._chosen = list(queues)
        if not await self._read_chosen():
            log.warning("group %s: not all assigned queues can be read yet; they are tried again", self.group)

    async def poll(self, seconds: float, count: int) -> list[ReceivedMessage]:
        """Return messages of one queue; an empty list if none came in time."""
        end = self.steady() + seconds
        while True:
            found = self._take(count)
            left = end - self.steady()
            if found or left <= 0 or self._closed:
                return found
            self._came.clear()
            try:
                async with asyncio.timeout(left):
                    await self._came.wait()
            except TimeoutError:
                return []

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to return."""
        return self._held(queue).commit_offset

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at another offset."""
        self._held(queue)
        self._move(queue, offset)

    async def commit(self, queues: Collection[MessageQueue] | None) -> None:
        """Commit the offsets at the brokers. Raises GantryError if one does not save them."""
        committed = list(self.assigned.queues.values())
        if queues is not None:
            committed = [self._held(queue) for queue in queues]
        for held in committed:
            self.offsets.table.put(held.queue, held.commit_offset)
        failed = await self.offsets.write([held.queue for held in committed], wait=True)
        for queue, error in failed.items():
            doing = f"committing {len(committed)} queues failed for {len(failed)}, the first {queue}"
            if isinstance(error, BrokerRefused | LinkError | WireError):
                raise sdk_error(error, doing) from error
            raise error

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop reading and returning messages of these queues."""
        for queue in queues:
            self._paused.setdefault(queue, asyncio.Event())

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Read them again."""
        for queue in queues:
            event = self._paused.pop(queue, None)
            if event is not None:
                event.set()
        self._came.set()

    # Interface to the rebalancer

    def topics(self) -> set[str]:
        """Return the topics of all assigned queues."""
        return self.assigned.topics()

    def held(self, topic: str) -> list[MessageQueue]:
        """Return the assigned queues of a topic."""
        return self.assigned.held(topic)

    async def take(self, queues: Sequence[MessageQueue]) -> bool:
        """Start to read queues; False if not all could start."""
        return await self.assigned.take(queues)

    async def drop(self, queues: Collection[MessageQueue]) -> bool:
        """Stop reading queues; their offsets are committed if `auto_commit`."""
        if self.settings.auto_commit:
            self._advance(queues)
        return await self.assigned.drop(queues)

    async def finish_drops(self) -> bool:
        """There are no calls to wait for."""
        return await self.assigned.finish_drops()

    # Interface to the pipelines

    def gate(self, queue: ProcessQueue) -> asyncio.Event:
        """Return the event that is set while a queue may be pulled."""
        return self._paused.get(queue.queue, self._open)

    def store_to_pull(self, broker: str) -> StoreClient:
        """Return the master, the suggested slave, or any slave while the master is down."""
        instance = self.instance
        wanted = self._suggested.get(broker, 0)
        address = instance.routing.address_of(broker, wanted) if wanted else None
        return instance.store_at(address or instance.broker_address(broker, slave_ok=True))

    def suggested(self, broker: str, broker_id: int) -> None:
        """Note from which of its addresses a broker wants to be read."""
        self._suggested[broker] = broker_id

    def committed(self, queue: ProcessQueue) -> int | None:
        """Commit nothing with a pull: the user commits, or a timer does."""
        del queue

    def arrived(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Keep messages for `poll`."""
        if messages:
            self._ready.append((queue, messages))
            self._came.set()

    def offset_moved(self, queue: ProcessQueue, offset: int) -> None:
        """Restart a queue at its current beginning or end."""
        log.warning(
            "group %s: %s was reset, or has no offset %d: continuing at %d",
            self.group, queue.queue, queue.next_offset, offset,
        )  # fmt: skip
        self._move(queue.queue, offset)

    # Internals

    async def _read_chosen(self) -> bool:
        """Read the assigned queues and no others; False if some cannot be read yet."""
        async with self._choosing:  # another assignment may come meanwhile
            chosen = self._chosen
            await self.drop([queue for queue in self.assigned.queues if queue not in chosen])
            return await self.assigned.take([queue for queue in chosen if queue not in self.assigned.queues])

    def _move(self, queue: MessageQueue, offset: int) -> None:
        """Continue a queue at another offset; `auto_commit` commits it, even if it is an earlier one."""
        self.assigned.begin(queue, offset)
        if self.settings.auto_commit:
            self.offsets.table.put(queue, offset)

    def _take(self, count: int) -> list[ReceivedMessage]:
        """Return the first messages that may be returned; all of one pull, so of one queue."""
        passed: list[tuple[ProcessQueue, list[ReceivedMessage]]] = []
        given: list[ReceivedMessage] = []
        while self._ready and not given:
            held, messages = self._ready.popleft()
            if held.dropped:
                continue
            if held.queue in self._paused:
                passed.append((held, messages))
                continue
            given = messages[:count]
            if len(messages) > count:
                self._ready.appendleft((held, messages[count:]))
            held.remove(given)
            held.last_consumed = now = self.steady()
            self.statistics.of(held.queue.topic, now).consumed += len(given)
            if held.on_room is not None:
                held.on_room()
        self._ready.extendleft(reversed(passed))
        return given

    async def _commit_soon(self) -> None:
        self._advance(self.assigned.queues)
        await self.offsets.write()

    async def _sample(self) -> None:
        self.statistics.sample(self.steady())

    def _advance(self, queues: Collection[MessageQueue]) -> None:
        for queue in queues:
            held = self.assigned.queues.get(queue)
            if held is not None:
                self.offsets.table.advance(queue, held.commit_offset)

    def _held(self, queue: MessageQueue) -> ProcessQueue:
        held = self.assigned.queues.get(queue)
        if held is None or held.dropped:
            raise ConfigurationError(f"{queue} is not read by this consumer now; see `assignment`")
        return held

    def _work_of(self, queue: ProcessQueue) -> list[Coroutine[Any, Any, None]]:
        topic = queue.queue.topic
        statistics = self.statistics.of(topic, self.steady())
        return [Pipeline(self, queue, self.subscriptions, statistics).run()]
