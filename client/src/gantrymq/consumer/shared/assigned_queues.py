"""The assigned queues of a consumer: where each starts, the tasks that work on it, and how it is handed over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Protocol

from gantry_link.clients.store import StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.errors import WireError
from gantrymq.consumer.shared.locking import Locks
from gantrymq.consumer.shared.offsets import OffsetStore
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.consumer.shared.settings import ConsumerSettings
from gantrymq.consumer.shared.starting import At, AtEnd, first_offset
from gantrymq.errors import GantryError
from gantrymq.message import MessageQueue

log: logging.Logger = logging.getLogger("gantrymq")

LOCK_RENEW_SECONDS = 20.0
LOCK_RETRY_SECONDS = 1.0
"""Interval of renewals while a broker does not answer them: another replica may lead it, and grant no locks yet."""
LOCK_KEPT_SECONDS = 60.0
"""After this time without renewal the broker may have given the lock to another member."""
HAND_OVER_SECONDS = 0.5
"""The longest wait for a running call of an orderly queue before the queue is handed over."""
LOOK_SECONDS = 0.005
TOGETHER_MAX = 64
FAULT_REST_SECONDS = 1.0

Work = Callable[[ProcessQueue], Sequence[Coroutine[Any, Any, None]]]
"""Creates the work on an assigned queue: its pipeline, then, if it is consumed in order, its serving task."""


class Stores(Protocol):
    """The client, as seen from here."""

    def store(self, broker: str) -> StoreClient:
        """Return calls to a broker's master."""
        ...


class AssignedQueues:
    """The assigned queues. All methods run in the consumer's loop."""

    def __init__(
        self,
        stores: Stores,
        group: str,
        settings: ConsumerSettings,
        offsets: OffsetStore,
        locks: Locks | None,
        work: Work,
        steady: Callable[[], float],
    ) -> None:
        """`locks` is for orderly consumers in clustering; `steady` is a monotonic clock in seconds."""
        self.queues: dict[MessageQueue, ProcessQueue] = {}
        self._stores = stores
        self._group = group
        self._settings = settings
        self._offsets = offsets
        self._locks = locks
        self.has_unanswered_locks: bool = False
        """Whether a broker did not answer the last renewal, or may not grant locks yet."""
        self._work = work
        self._steady = steady
        self._tasks: dict[ProcessQueue, list[asyncio.Task[None]]] = {}
        self._ending: dict[asyncio.Task[None], None] = {}
        self._behind: list[ProcessQueue] = []
        """Restarted or released while a call ran: that call continues, and no other member may start before its end."""
        self._is_closed = False

    def topics(self) -> set[str]:
        """Return the topics of all assigned queues."""
        return {queue.topic for queue, held in self.queues.items() if not held.dropped}

    def held(self, topic: str) -> list[MessageQueue]:
        """Return the assigned queues of a topic."""
        return [queue for queue, held in self.queues.items() if queue.topic == topic and not held.dropped]

    async def take(self, queues: Sequence[MessageQueue]) -> bool:
        """Start to consume queues; False if not all could start."""
        wanted = [queue for queue in queues if queue not in self.queues]
        complete = not any(queue in self.queues and self.queues[queue].dropped for queue in queues)
        locked_at = self._steady()
        if self._locks is not None:
            held, _ = await self._locks.lock(wanted)
            if missing := len(wanted) - len(held):
                log.info("group %s: %d queues are still locked by another member", self._group, missing)
            wanted, complete = sorted(held), complete and not missing
        for at in range(0, len(wanted), TOGETHER_MAX):
            results = await asyncio.gather(
                *[self._take(queue, locked_at) for queue in wanted[at : at + TOGETHER_MAX]]
            )
            complete &= all(results)
        return complete

    def begin(self, queue: MessageQueue, offset: int, locked_at: float | None = None) -> None:
        """Consume a queue from an offset on, replacing earlier work on it; not a queue that is being handed over.

        `locked_at` is the time of the request for its lock, by default now; earlier work keeps its own.
        """
        before = self.queues.get(queue)
        if before is not None and before.dropped:
            # Its lock is released in a moment, and nothing would drop it again. A call that still runs does not undo a reset.
            before.released = True
            return
        now = self._steady()
        locked = now if locked_at is None else locked_at
        if before is not None:
            locked = before.last_locked
            self._end(before)
        held = ProcessQueue(queue, offset, now)
        # Raises for an unsubscribed topic: then the queue is not assigned without work.
        jobs = self._work(held)
        self.queues[queue] = held
        held.is_locked, held.last_locked = self._locks is not None, locked
        loop = asyncio.get_running_loop()
        self._tasks[held] = [
            loop.create_task(self._supervise(held, work), name=f"gantry {queue.topic} {queue.queue_id}")
            for work in jobs
        ]

    async def drop(self, queues: Collection[MessageQueue]) -> bool:
        """Stop consuming queues and hand them over; False if the call of an orderly one still runs: call `finish_drops` later."""
        for queue in queues:
            if queue in self.queues:
                self.queues[queue].dropped = True
        return await self.finish_drops(within=HAND_OVER_SECONDS)

    async def finish_drops(self, *, within: float = 0.0, force: bool = False) -> bool:
        """Write the offsets of dropped queues, and release their locks; False if calls of orderly ones still run.

        Until such a call ends, no other member may start: it would consume the messages twice, and out of order. So the lock is kept,
        but no longer than until its next renewal would have been due, and not with `force`.
        """
        dropped = [held for held in self.queues.values() if held.dropped]
        self._behind = [each for each in self._behind if each.taken]
        if self._locks is not None:
            queues = {held.queue for held in dropped}
            await self._wait_for_calls([*dropped, *(e for e in self._behind if e.queue in queues)], within)
        busy = {each.queue for each in [*dropped, *self._behind] if each.taken}
        oldest = self._steady() - LOCK_RENEW_SECONDS
        ready = [
            held
            for held in dropped
            if force or self._locks is None or held.queue not in busy or held.last_locked < oldest
        ]
        if ready:
            names = [held.queue for held in ready]
            # A pull carries an offset too. One that was late may have set the broker's back.
            self._offsets.table.write_again(names)
            failed = await self._offsets.write(names, wait=True)
            for queue, error in failed.items():
                log.warning(
                    "group %s: the offset of %s could not be written at its hand-over, its last messages are delivered again: %s",
                    self._group, queue, error,
                )  # fmt: skip
            for held in ready:
                self._end(held)
                self._forget(held.queue)
                if self.queues.get(held.queue) is held:
                    del self.queues[held.queue]
            if self._locks is not None:
                await self._locks.unlock(names)
        return len(ready) == len(dropped)

    async def renew_locks(self) -> bool:
        """Renew the locks of all assigned queues; drop those that are lost, and return whether there were any."""
        if self._locks is None or not self.queues:
            return False
        asked = list(self.queues)
        asked_at = self._steady()
        granted, unknown = await self._locks.lock(asked)
        self.has_unanswered_locks = bool(unknown)
        lost = False
        for queue in asked:
            held = self.queues.get(queue)  # restarted meanwhile, perhaps: the lock is the same
            if held is None or held.dropped or queue in unknown or held.last_locked > asked_at:
                continue
            if queue in granted and asked_at - held.last_locked < LOCK_KEPT_SECONDS:
                held.last_locked = asked_at
                continue
            log.warning("group %s has lost the lock of %s; it is restarted", self._group, queue)
            self._end(held)
            self._forget(queue)
            del self.queues[queue]
            lost = True
        return lost

    def _end(self, held: ProcessQueue) -> None:
        held.dropped = held.released = True
        held.is_locked = False
        tasks = self._tasks.pop(held, [])
        if held.taken:  # a call runs: it is not interrupted, and its task ends by itself after it
            self._behind.append(held)
            for task in tasks[1:]:
                self._ending[task] = None
                task.add_done_callback(self._ending.pop)
            del tasks[1:]
        for task in tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def _take(self, queue: MessageQueue, locked_at: float) -> bool:
        try:
            offset = await self._first_offset(queue)
        except (BrokerRefused, LinkError, GantryError, WireError) as error:
            log.warning("group %s: the start offset of %s is unknown: %s", self._group, queue, error)
            return False
        if queue not in self.queues and not self._is_closed:
            self.begin(queue, offset, locked_at)
        return True

    async def _first_offset(self, queue: MessageQueue) -> int:
        settings, table = self._settings, self._offsets.table
        self._forget(queue)
        committed = await self._offsets.read(queue)
        where = first_offset(settings.start, settings.start_ms, queue.topic, committed)
        if isinstance(where, At):
            if committed is not None:
                table.load({queue: where.offset})
            return where.offset
        store = self._stores.store(queue.broker)
        if isinstance(where, AtEnd):
            offset = await store.max_offset(queue.topic, queue.queue_id)
        else:
            offset = await store.search_offset(queue.topic, queue.queue_id, where.timestamp_ms)
        # Saved at once: otherwise a restart before the first commit would skip messages that arrived in between.
        table.put(queue, offset)
        return offset

    def _forget(self, queue: MessageQueue) -> None:
        if not self._settings.is_broadcasting:  # a broadcasting member's queue has no successor
            self._offsets.table.forget(queue)

    async def _wait_for_calls(self, held: Collection[ProcessQueue], within: float) -> None:
        end = self._steady() + within
        while any(each.taken for each in held) and self._steady() < end:  # noqa: ASYNC110 - rare, and short
            await asyncio.sleep(LOOK_SECONDS)

    async def _supervise(self, held: ProcessQueue, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            log.exception("a fault of the SDK: group %s could not work on %s", self._group, held.queue)
            await asyncio.sleep(FAULT_REST_SECONDS)
            if not held.dropped and self.queues.get(held.queue) is held:
                self.begin(held.queue, held.commit_offset)

    async def close(self) -> None:
        """Cancel all tasks, including calls that still run."""
        self._is_closed = True
        tasks = [task for tasks in self._tasks.values() for task in tasks] + list(self._ending)
        for held in list(self.queues.values()):
            self._end(held)
        self.queues.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
