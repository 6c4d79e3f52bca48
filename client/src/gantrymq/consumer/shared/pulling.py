"""The pipeline of a queue: pull, pass the messages on, pull again at once; pause if too many wait or the broker fails.

One task per queue, which wakes up only if a pull cannot follow the last one at once: usually an answer is handled, and the next pull
leaves, in the turn in which the answer came. The broker holds pulls that find nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gantry_link.clients.store import Pulled, StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.headers.messages import PullHeader
from gantry_wire.names import RETRY_PREFIX
from gantry_wire.records.message_record import scan_records
from gantrymq.consumer.shared.flow import FlowLimits, too_much
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.consumer.shared.statistics import TopicStatistics
from gantrymq.consumer.subscriptions.subscription import Subscription
from gantrymq.errors import GantryError
from gantrymq.hooks import MessageFilter, passes
from gantrymq.message import MessageQueue, ReceivedMessage

log: logging.Logger = logging.getLogger("gantrymq")

FAILED_SECONDS = 1.0
"""Pause after a failed pull (pullTimeDelayMillsWhenException)."""
FIRST_FAILED_SECONDS = 0.05
"""Pause after the first of several failed pulls: another replica may lead already."""
FLOW_CONTROL_SECONDS = 0.02
FLOW_LOOK_SECONDS = 0.05
"""Free room is reported at once; this is the delay until other changes are seen, such as a dropped queue."""
HOLD_MARGIN_SECONDS = 15.0
COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4
"""Bits of a pull's system flag."""
_FLOW_CONTROL = 215


class PullSource(Protocol):
    """The consumer, as seen by a pipeline."""

    group: str
    namespace: str
    flow: FlowLimits
    orderly: bool
    pull_batch_size: int
    pull_interval: float
    hold_seconds: float
    filters: Sequence[MessageFilter]
    steady: Callable[[], float]
    """A monotonic clock in seconds."""

    def gate(self, queue: ProcessQueue) -> asyncio.Event:
        """Return the event that is set while the queue may be pulled."""
        ...

    def store_to_pull(self, broker: str) -> StoreClient:
        """Return the master, or the slave that the broker suggested."""
        ...

    def suggested(self, broker: str, broker_id: int) -> None:
        """Note from which of its addresses the broker wants to be read next."""
        ...

    def committed(self, queue: ProcessQueue) -> int | None:
        """Return the offset to commit with a pull, None for none."""
        ...

    def arrived(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Take messages, perhaps none."""
        ...

    def offset_moved(self, queue: ProcessQueue, offset: int) -> None:
        """Restart the queue elsewhere: the requested offset does not exist."""
        ...


class Pipeline:
    """Pulls a queue until it is dropped."""

    def __init__(
        self,
        source: PullSource,
        queue: ProcessQueue,
        subscriptions: Mapping[str, Subscription],
        statistics: TopicStatistics,
    ) -> None:
        """`subscriptions` by topic may change: each pull has the current one. KeyError if there is none for the queue."""
        self._source = source
        self._queue = queue
        self._subscriptions = subscriptions
        self._subscription = subscriptions[queue.queue.topic]
        """That of the last pull."""
        self._statistics = statistics
        self._is_failing = False
        self._seconds = source.hold_seconds + HOLD_MARGIN_SECONDS
        self._started = 0.0
        self._ended: asyncio.Future[None]
        """Done when the current series of pulls ends."""

    async def run(self) -> None:
        """Pull until dropped; failures are logged and retried."""
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
                rest = FAILED_SECONDS if self._is_failing else FIRST_FAILED_SECONDS
                self._failed(f"failed: {error}")
            except WireError as error:
                rest = FAILED_SECONDS
                self._failed(f"returned an unreadable answer: {error}")
            if rest:
                await asyncio.sleep(rest)

    def _failed(self, words: str) -> None:
        """Log the first failure of a series: the same one would repeat every second, for every queue."""
        level = logging.DEBUG if self._is_failing else logging.WARNING
        self._is_failing = True
        log.log(
            level,
            "group %s: the pull of %s %s; retrying",
            self._source.group,
            self._queue.queue,
            words,
        )

    async def _pull_on(self) -> None:
        """Pull repeatedly until something forbids it; raises what failed."""
        ended = self._ended = asyncio.get_running_loop().create_future()
        if self._ask():
            await ended
        else:  # no connection is open: open one
            store = self._source.store_to_pull(self._queue.queue.broker)
            self._answered(await store.pull(self._header(), timeout_seconds=self._seconds))

    def _ask(self) -> bool:
        """Send a pull; False if there is no connection for it."""
        self._queue.last_pulled = self._started = self._source.steady()
        store = self._source.store_to_pull(self._queue.queue.broker)
        return store.begin_pull(self._header(), self._on_outcome, self._seconds)

    def _on_outcome(self, outcome: Pulled | BrokerRefused | LinkError | WireError) -> None:
        """Handle an answer and pull again at once; if that is not possible, the task continues."""
        ended = self._ended
        if ended.done():  # the task ended meanwhile
            return
        try:
            if isinstance(outcome, Exception):
                raise outcome
            self._answered(outcome)
            if self._may_continue() and self._ask():
                return
        except Exception as error:  # noqa: BLE001 - the task handles it; the connection's other answers are not affected
            if not ended.done():
                ended.set_exception(error)
        else:
            if not ended.done():
                ended.set_result(None)

    def _may_continue(self) -> bool:
        queue, source = self._queue, self._source
        return (
            not queue.dropped
            and not source.pull_interval
            and source.gate(queue).is_set()
            and too_much(queue, source.flow, orderly=source.orderly) is None
        )

    def _wanted(self) -> Subscription:
        """Return the current subscription; the last one while an unsubscribed queue is not dropped yet."""
        return self._subscriptions.get(self._queue.queue.topic, self._subscription)

    def _header(self) -> PullHeader:
        queue, source = self._queue, self._source
        subscription = self._subscription = self._wanted()
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
        """Handle the answer of a pull. What came while the queue was paused, or for an earlier subscription, is pulled again."""
        queue, source = self._queue, self._source
        self._is_failing = False
        if pulled.code == ResponseCode.SUCCESS:
            self._statistics.pulls += 1
            self._statistics.pull_seconds += self._source.steady() - self._started
        messages = read_messages(pulled.records, queue.queue, self._subscription, source.namespace)
        if queue.dropped or not source.gate(queue).is_set() or self._wanted() is not self._subscription:
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
    """Return the wanted messages of a pull: brokers compare hashes of tags, so the tags are checked again."""
    broker = queue.broker
    topic = None if namespace or queue.topic.startswith(RETRY_PREFIX) else queue.topic
    messages = [
        ReceivedMessage(record, broker, namespace=namespace, topic=topic) for record in scan_records(records)
    ]
    if subscription.tags:
        messages = [message for message in messages if subscription.is_wanted(message)]
    return messages
