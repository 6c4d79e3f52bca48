"""Sends and retries: finds the target, passes the frame to its connection, handles failures.

A send with a known route and an open connection costs no task, timer or lock; only one that must wait gets a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from gantry_link.connections.calls import Answer
from gantry_link.connections.connection import Connection
from gantry_link.errors import BrokerRefused, ConnectionBusy, LinkError, NotConnected
from gantry_wire.codes import CLOSES
from gantrymq.connection.acl import Signer
from gantrymq.connection.instance import ClientInstance
from gantrymq.errors import ConnectionFailed, GantryError, NoRoute, NotRunning, TimedOut, in_doubt, sdk_error
from gantrymq.formats import namespaces
from gantrymq.hooks import SendContext, SendHook, run_hooks
from gantrymq.message import MessageQueue, SendResult
from gantrymq.producer.sending.answers import Answers
from gantrymq.producer.sending.backlog import Backlog
from gantrymq.producer.sending.broker_batches import BrokerBatches
from gantrymq.producer.sending.faults import LatencyFaults
from gantrymq.producer.sending.preparing import Preparation
from gantrymq.producer.sending.retries import (
    PAUSE_SECONDS_MIN,
    is_never_stored,
    is_tried_again,
    pause_seconds,
)
from gantrymq.producer.sending.send import NOWHERE, Send, Target
from gantrymq.producer.sending.targets import TopicTargets
from gantrymq.producer.settings import ProducerSettings

log: logging.Logger = logging.getLogger("gantrymq")
Choice: TypeAlias = "Callable[[Sequence[MessageQueue]], MessageQueue]"
"""Chooses the queue of one message."""
LEADERLESS_SECONDS = 0.05
"""Interval of queries while no replica of a topic's brokers leads."""
PROVISIONAL_SECONDS = 1.0
"""How long the route of a topic that is about to be created is used before it is queried again."""


class Sender:
    """The sends of a producer."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: ProducerSettings,
        preparation: Preparation,
        hooks: list[SendHook],
    ) -> None:
        """`group` is the cluster's name."""
        self.instance = instance
        self.signer: Signer | None = instance.signer
        self.tries: int = settings.retries
        self.open_sends: int = 0
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._pool = instance.pool
        self._group = group
        self._user_group = namespaces.unwrap(preparation.namespace, group)
        self._settings = settings
        self._preparation = preparation
        self._hooks = hooks
        self._faults = LatencyFaults() if settings.avoid_slow_brokers else None
        self._is_plain = self._faults is None and self.signer is None
        """Sends may leave together: none needs its own queue or fields."""
        self._topics: dict[str, TopicTargets] = {}
        self._names: dict[str, set[str]] = {}
        """The users' names of a topic, by the cluster's."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._idle = asyncio.Event()
        self._closed = False
        self._backlog = Backlog(self._launch, self._end)
        self._batches = BrokerBatches(self._pool, self._backlog, self._launch)
        self.answers: Answers = Answers(lambda: self.open_sends)
        instance.routing.changed.append(self._route_changed)
        instance.routing.moved.append(self._master_moved)

    # Requests

    def begin(self, send: Send, choice: Choice | None = None) -> None:
        """Send; the send's future gets the outcome. Never waits. Raises what `choice` raises, or NoRoute for its queue."""
        targets = self._topics.get(send.message.topic)
        self.open_sends += 1
        if targets is None:
            self._spawn(self._begin_unknown(send, choice), send)
            return
        if targets.refresh_at is not None and self.loop.time() >= targets.refresh_at:
            self._refresh(targets)
        if (
            choice is None and self._is_plain and not self._hooks and type(send) is Send
            and not send.prepared.sys_flag and not send.message.flag
        ):  # fmt: skip
            target = send.target = targets.next()
            target.add(send)
            return
        try:
            self._aim(send, targets, choice, self.loop.time())
        except BaseException:
            self.open_sends -= 1
            raise
        self._launch(send)

    async def targets_of(self, topic: str) -> TopicTargets:
        """Return the targets of a topic, queried if it is unknown; NoRoute, ConnectionFailed."""
        known = self._topics.get(topic)
        if known is not None:
            return known
        wrapped = self._preparation.topic(topic)
        queues = await self.instance.publish_queues(wrapped)
        batches = {
            queue.broker: self._batches.to(self.instance.send_address(queue.broker)) for queue in queues
        }
        targets = [
            Target(
                MessageQueue(topic, queue.broker, queue.queue_id),
                batch.address,
                self._group,
                wrapped,
                batch.add,
            )
            for queue in queues
            for batch in (batches[queue.broker],)
        ]
        refresh_at = None
        if self.instance.routing.has_template(wrapped):
            refresh_at = self.loop.time() + PROVISIONAL_SECONDS
        made = self._topics[topic] = TopicTargets(
            topic, targets, self.instance.settings.machine.rng, refresh_at
        )
        self._names.setdefault(wrapped, set()).add(topic)
        return made

    async def _led_targets(self, topic: str) -> TopicTargets:
        """Return the targets of a topic; wait while it has brokers with replicas of which none leads. The caller limits the time."""
        while True:
            try:
                return await self.targets_of(topic)
            except NoRoute:
                if not self.instance.routing.is_leaderless(self._preparation.topic(topic)):
                    raise
            await asyncio.sleep(LEADERLESS_SECONDS)

    async def oneway(self, send: Send, choice: Choice | None) -> None:
        """Send without an answer; raises what prevents the send."""
        targets = await self.targets_of(send.topic)
        self._aim(send, targets, choice, self.loop.time())
        try:
            connection = await self._pool.get(send.target.address)
            connection.send(send.frame(connection.next_opaque(), oneway=True))
        except LinkError as error:
            raise sdk_error(error, _doing(send)) from error
        if send.context is not None:
            self.after_send(send.context, (), None)

    # Outcome of a send

    def finished(self, send: Send) -> None:
        """Count a successful send."""
        self.open_sends -= 1
        if not self.open_sends:
            self._idle.set()
        if self._faults is not None:
            now = self.loop.time()
            self._faults.answered(send.target.queue.broker, now - send.started, now)

    def failed(self, send: Send, error: BrokerRefused | LinkError) -> None:
        """Retry a send, or fail it."""
        now = self.loop.time()
        if self._faults is not None:
            self._faults.failed(send.target.queue.broker, now)
        if isinstance(error, BrokerRefused) and error.code in CLOSES:
            self._pool.retire(send.target.address)
        if not self._closed and self._waits_for_master(send, error, now):
            send.waits_done += 1
            self._spawn(self._again(send, error), send)
            return
        if (
            not send.is_fixed
            and not self._closed
            and is_tried_again(error, send.tries_left, send.deadline - now)
        ):
            send.tries_done += 1
            send.is_in_doubt |= isinstance(error, LinkError) and error.sent
            self._spawn(self._again(send, error), send)
            return
        self._end(send, sdk_error(error, _doing(send)))

    def _waits_for_master(self, send: Send, error: BrokerRefused | LinkError, now: float) -> bool:
        """Whether another replica may take what this one did not store: that uses up no tries, only the time."""
        routing, broker = self.instance.routing, send.target.queue.broker
        if isinstance(error, BrokerRefused) and is_never_stored(error):
            routing.does_not_lead(broker)
        if not routing.is_replicated(broker):
            return False
        return is_never_stored(error) and now + PAUSE_SECONDS_MIN < send.deadline

    def retries_unless_ok(self, send: Send) -> bool:
        """Whether a message that was stored with less durability is to be sent again."""
        return self._settings.retry_unless_ok and send.tries_left > 0 and not send.is_fixed

    def after_send(
        self, context: SendContext, results: Sequence[SendResult | None], error: GantryError | None
    ) -> None:
        """Call the hooks."""
        context.seconds = self.loop.time() - context.begun
        context.results, context.error = results, error
        run_hooks([hook.after_send for hook in self._hooks], context)

    async def close(self, within: float) -> None:
        """Wait for outstanding sends, at most `within` seconds, then fail them."""
        self.instance.routing.changed.remove(self._route_changed)
        self.instance.routing.moved.remove(self._master_moved)
        try:
            async with asyncio.timeout(within):
                while self.open_sends:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            log.warning("%d messages were outstanding when the producer was closed", self.open_sends)
        finally:  # also if the caller is cancelled
            self._closed = True
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            self._backlog.close()
            self._pool.give_up(self._is_mine, "the producer was closed")
            await asyncio.gather(*tasks, return_exceptions=True)

    # Internals

    def _is_mine(self, answer: Answer) -> bool:
        return isinstance(answer, Send) and answer.sender is self

    def _aim(self, send: Send, targets: TopicTargets, choice: Choice | None, now: float) -> None:
        """Set the target of a send."""
        if choice is not None:
            send.is_fixed = True
            send.target = targets.of(choice(targets.queues))
        elif self._faults is None:
            send.target = targets.next()
        else:
            send.target = targets.targets[self._faults.choose(targets.queues, targets.take_turn(), now)]
        send.started = now
        if self._hooks:
            self._before_send(send)

    def _launch(self, send: Send) -> None:
        """Send over the open connection, or open one first."""
        connection = self._pool.get_nowait(send.target.address)
        if connection is None:
            self._spawn(self._connect_and_ask(send), send)
            return
        self._ask(connection, send)

    def _ask(self, connection: Connection, send: Send) -> None:
        if self._backlog.waiting and send.target.address in self._backlog.waiting:
            self._backlog.add(send)
            return
        try:
            opaque = connection.next_opaque()
            connection.ask(opaque, send.frame(opaque), send, send.deadline - send.started)
        except ConnectionBusy:
            self._backlog.add(send)
        except LinkError as error:
            self.failed(send, error)
        except Exception as error:  # noqa: BLE001 - an invalid message; its waiter must get the error
            self._end(send, error)

    async def _begin_unknown(self, send: Send, choice: Choice | None) -> None:
        """Send to a topic whose route must be queried first."""
        try:
            async with asyncio.timeout_at(send.deadline):
                targets = await self._led_targets(send.topic)
            self._aim(send, targets, choice, self.loop.time())
        except TimeoutError:
            self._end(send, TimedOut(f"{_doing(send)}: no route within the time", sent=False))
        except GantryError as error:
            self._end(send, error)
        except Exception as error:  # noqa: BLE001 - a selector of the user; the waiter must get the error
            self._end(send, error)
        else:
            self._launch(send)

    async def _connect_and_ask(self, send: Send) -> None:
        try:
            async with asyncio.timeout_at(send.deadline):
                connection = await self._pool.get(send.target.address)
        except TimeoutError:
            self.failed(send, NotConnected(f"no connection to {send.target.address} within the time"))
        except LinkError as error:
            self.failed(send, error)
        else:
            send.started = self.loop.time()
            self._ask(connection, send)

    async def _again(self, send: Send, error: BrokerRefused | LinkError) -> None:
        """Retry a send, on another broker if there is one; the same one after a pause."""
        failed_broker, failed_address = send.target.queue.broker, send.target.address
        log.info("%s failed, retrying: %s", _doing(send), error)
        try:
            async with asyncio.timeout_at(send.deadline):
                if self.instance.routing.is_replicated(failed_broker):
                    await self.instance.routing.look_for_master(failed_broker)
                targets = await self._led_targets(send.topic)
                if send.is_fixed:
                    send.target = targets.of(send.target.queue)
                elif self._faults is None:
                    send.target = targets.next_avoiding(failed_broker)
                else:
                    at = self._faults.choose(
                        targets.queues, targets.take_turn(), self.loop.time(), failed_broker
                    )
                    send.target = targets.targets[at]
                if isinstance(error, LinkError) and targets.refresh_at is None:
                    self._refresh(targets)  # the broker may have another address
                if send.target.queue.broker == failed_broker and send.target.address == failed_address:
                    left = send.deadline - self.loop.time()
                    await asyncio.sleep(pause_seconds(send.tries_done, left, send.waits_done))
        except TimeoutError:
            self._end(send, sdk_error(error, _doing(send)))
        except GantryError as no_route:
            self._end(send, no_route)
        else:
            send.started = self.loop.time()
            self._launch(send)

    def _end(self, send: Send, error: Exception) -> None:
        if send.kept is not None:
            send.keep(send.kept)
            return
        self._count_down()
        if isinstance(error, GantryError):
            send.fail(in_doubt(error) if send.is_in_doubt else error)
        elif not send.future.done():
            send.future.set_exception(error)

    def _count_down(self) -> None:
        self.open_sends -= 1
        if not self.open_sends:
            self._idle.set()

    def _before_send(self, send: Send) -> None:
        queue, address = send.target.queue, send.target.address
        send.context = SendContext(
            self._user_group, send.messages, queue.broker, address, send.kind, send.born_ms, send.started
        )
        run_hooks([hook.before_send for hook in self._hooks], send.context)

    def _route_changed(self, topic: str) -> None:
        for known in self._names.pop(topic, ()):
            self._topics.pop(known, None)

    def _master_moved(self, _broker: str, _address: str) -> None:
        """Drop all targets: those of other topics may have the address too."""
        self._topics.clear()
        self._names.clear()

    def _refresh(self, targets: TopicTargets) -> None:
        targets.refresh_at = self.loop.time() + PROVISIONAL_SECONDS
        self._spawn(self._ask_route(self._preparation.topic(targets.topic), targets))

    async def _ask_route(self, topic: str, targets: TopicTargets) -> None:
        try:
            await self.instance.route(topic, fresh=True)
        except GantryError as error:
            log.debug("the route of %s is still unknown: %s", topic, error)
        else:
            targets.refresh_at = None

    def _spawn(self, work: Coroutine[Any, Any, None], send: Send | None = None) -> None:
        """Run work that waits. If closing cancels it, its send fails too, so that nothing waits for it without end."""
        task = self.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._worked(done, send))

    def _worked(self, done: asyncio.Task[None], send: Send | None) -> None:
        del self._tasks[done]
        if done.cancelled() and send is not None:
            words = "the producer was closed before the message could be sent"
            self._end(send, ConnectionFailed(words, sent=False))


def _doing(send: Send) -> str:
    target = send.target
    to = f" (broker {target.queue.broker} at {target.address})" if target is not NOWHERE else ""
    return f"sending to topic {send.topic}{to}"


def not_running(what: str) -> NotRunning:
    """Return the error for a producer that was not started, or is closed."""
    return NotRunning(f"the {what} is not running: use it inside `async with`, or call start() first")
