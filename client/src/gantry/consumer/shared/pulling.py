"""The pipeline of one queue: ask the broker, hand on what came, ask again at once; rest where too much waits or the broker fails.

One task per queue, which wakes up only where a pull cannot follow the last one at once: an answer is taken, and the next pull
leaves, in the turn in which it came. Pulls that find nothing are held by the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from gantry.consumer.shared.flow import FlowLimits, too_much
from gantry.consumer.shared.process_queue import ProcessQueue
from gantry.consumer.shared.statistics import TopicStatistics
from gantry.consumer.subscriptions.subscription import Subscription
from gantry.errors import GantryError
from gantry.hooks import MessageFilter, passes
from gantry.message import MessageQueue, ReceivedMessage
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.store_client import Pulled, StoreClient
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.headers import PullHeader
from gantry_wire.names import RETRY_PREFIX
from gantry_wire.record import scan_records

log: logging.Logger = logging.getLogger("gantry")

FAILED_SECONDS = 1.0
"""Rest after a pull that failed (pullTimeDelayMillsWhenException)."""
FLOW_CONTROL_SECONDS = 0.02
FLOW_LOOK_SECONDS = 0.05
"""Room is told at once; this is how soon a change that tells nobody is seen, such as a queue that is dropped."""
HOLD_MARGIN_SECONDS = 15.0
COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4
"""Bits of a pull's system flag."""
_FLOW_CONTROL = 215


class PullSource(Protocol):
    """What a pipeline needs from its consumer."""

    group: str
    namespace: str
    flow: FlowLimits
    orderly: bool
    pull_batch_size: int
    pull_interval: float
    hold_seconds: float
    filters: Sequence[MessageFilter]

    def gate(self, queue: ProcessQueue) -> asyncio.Event:
        """Return what is set while the queue may be pulled."""
        ...

    def store_to_pull(self, broker: str) -> StoreClient:
        """Return the master, or the slave that the broker suggested."""
        ...

    def suggested(self, broker: str, broker_id: int) -> None:
        """Hear from which of its addresses the broker wants to be read next."""
        ...

    def committed(self, queue: ProcessQueue) -> int | None:
        """Return the offset to commit along with a pull, None for none."""
        ...

    def arrived(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Take messages, perhaps none."""
        ...

    def offset_moved(self, queue: ProcessQueue, offset: int) -> None:
        """Begin the queue anew elsewhere: what was asked for does not exist."""
        ...


class Pipeline:
    """Pulls one queue until it is dropped."""

    def __init__(
        self, source: PullSource, queue: ProcessQueue, subscription: Subscription, statistics: TopicStatistics
    ) -> None:
        self._source = source
        self._queue = queue
        self._subscription = subscription
        self._statistics = statistics
        self._is_failing = False
        self._seconds = source.hold_seconds + HOLD_MARGIN_SECONDS
        self._started = 0.0
        self._ended: asyncio.Future[None]
        """Of the pulls that follow each other now."""

    async def run(self) -> None:
        """Pull until dropped; failures are logged and tried again."""
        queue, source = self._queue, self._source
        while not queue.dropped:
            gate = source.gate(queue)
            if not gate.is_set():
                await gate.wait()
                continue
            if too_much(queue, source.flow, orderly=source.orderly) is not None:
                await self._wait_for_room()
                continue
            rest = source.pull_interval
            try:
                await self._pull_on()
            except BrokerRefused as error:
                rest = FLOW_CONTROL_SECONDS if error.code == _FLOW_CONTROL else FAILED_SECONDS
                self._failed(f"was refused: {error}")
            except (LinkError, GantryError) as error:
                rest = FAILED_SECONDS
                self._failed(f"failed: {error}")
            except WireError as error:
                rest = FAILED_SECONDS
                self._failed(f"brought what cannot be read: {error}")
            if rest:
                await asyncio.sleep(rest)

    def _failed(self, words: str) -> None:
        """Tell the first failure of a row: the same one would come again every second, from every queue."""
        level = logging.DEBUG if self._is_failing else logging.WARNING
        self._is_failing = True
        log.log(
            level,
            "group %s: the pull of %s %s; it is tried again",
            self._source.group,
            self._queue.queue,
            words,
        )

    async def _pull_on(self) -> None:
        """Pull again and again until something forbids it; raises what failed."""
        ended = self._ended = asyncio.get_running_loop().create_future()
        if self._ask():
            await ended
        else:  # no connection is open: one is made
            store = self._source.store_to_pull(self._queue.queue.broker)
            self._answered(await store.pull(self._header(), timeout_seconds=self._seconds))

    def _ask(self) -> bool:
        """Have a pull leave; False when there is no connection for it."""
        self._queue.last_pulled = self._started = monotonic()
        store = self._source.store_to_pull(self._queue.queue.broker)
        return store.begin_pull(self._header(), self._told, self._seconds)

    def _told(self, outcome: Pulled | BrokerRefused | LinkError | WireError) -> None:
        """Take an answer and ask again at once; where that is not to be, the task goes on."""
        ended = self._ended
        if ended.done():  # the task was ended meanwhile
            return
        try:
            if isinstance(outcome, Exception):
                raise outcome
            self._answered(outcome)
            if self._may_go_on() and self._ask():
                return
        except Exception as error:  # noqa: BLE001 - the task decides; the connection's other answers go on
            if not ended.done():
                ended.set_exception(error)
        else:
            if not ended.done():
                ended.set_result(None)

    def _may_go_on(self) -> bool:
        queue, source = self._queue, self._source
        return (
            not queue.dropped
            and not source.pull_interval
            and source.gate(queue).is_set()
            and too_much(queue, source.flow, orderly=source.orderly) is None
        )

    def _header(self) -> PullHeader:
        queue, source, subscription = self._queue, self._source, self._subscription
        commit = source.committed(queue)
        return PullHeader(
            consumer_group=source.group,
            topic=queue.queue.topic,
            queue_id=queue.queue.queue_id,
            queue_offset=queue.next_offset,
            max_msg_nums=source.pull_batch_size,
            sys_flag=SUSPEND | SUBSCRIPTION | (COMMIT if commit is not None else 0),
            commit_offset=commit or 0,
            suspend_timeout_millis=round(source.hold_seconds * 1000),
            subscription=subscription.expression,
            sub_version=subscription.version,
            expression_type=subscription.kind,
            wide=True,
        )

    def _answered(self, pulled: Pulled) -> None:
        """Take what a pull brought; what came while the queue was paused is pulled again when it goes on."""
        queue, source = self._queue, self._source
        self._is_failing = False
        if pulled.code == ResponseCode.SUCCESS:
            self._statistics.pulls += 1
            self._statistics.pull_seconds += monotonic() - self._started
        messages = read_messages(pulled.records, queue.queue, self._subscription, source.namespace)
        if queue.dropped or not source.gate(queue).is_set():
            return
        source.suggested(queue.queue.broker, pulled.suggested_broker_id)
        if pulled.code == ResponseCode.PULL_OFFSET_MOVED:
            source.offset_moved(queue, pulled.next_offset)
            return
        if pulled.code != ResponseCode.SUCCESS:
            queue.put((), pulled.next_offset)
            source.arrived(queue, [])
            return
        if source.filters:
            messages = [message for message in messages if passes(source.filters, message)]
        self._statistics.pulled += len(messages)
        queue.put(messages, pulled.next_offset)
        source.arrived(queue, messages)

    async def _wait_for_room(self) -> None:
        queue, source = self._queue, self._source
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look() -> None:
            if not room.done() and too_much(queue, source.flow, orderly=source.orderly) is None:
                room.set_result(None)

        queue.on_room = look
        try:
            async with asyncio.timeout(FLOW_LOOK_SECONDS):
                await room
        except TimeoutError:
            pass
        finally:
            queue.on_room = None


def read_messages(
    records: bytes, queue: MessageQueue, subscription: Subscription, namespace: str
) -> list[ReceivedMessage]:
    """Return the messages of a pull that are wanted: brokers compare hashes of tags, so tags are looked at again."""
    broker = queue.broker
    topic = None if namespace or queue.topic.startswith(RETRY_PREFIX) else queue.topic
    messages = [
        ReceivedMessage(record, broker, namespace=namespace, topic=topic) for record in scan_records(records)
    ]
    if subscription.tags:
        messages = [message for message in messages if subscription.is_wanted(message)]
    return messages
