"""PushConsumer: a member of a consumer group that calls a listener for the messages of its topics."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, Unpack, cast

from gantry_wire.bodies.clients import ConsumerData, ConsumeType, MessageModel
from gantry_wire.frames.command import Command
from gantry_wire.names import retry_topic
from gantrymq.connection.instance import ClientInstance
from gantrymq.connection.members import check_group_name
from gantrymq.connection.pushes import PushAnswer
from gantrymq.consumer.push.agreement import Agreement
from gantrymq.consumer.push.answers import answer
from gantrymq.consumer.push.listeners import (
    IN_CALL_OF,
    Listener,
    ListenerT,
    MessageListener,
    OneMessageListener,
    examine,
    takes_one_message,
)
from gantrymq.consumer.push.running import Plan, Running
from gantrymq.consumer.push.signals import caught_signals
from gantrymq.consumer.shared.settings import ConsumerOptions, ConsumerSettings
from gantrymq.consumer.shared.statistics import Rates
from gantrymq.consumer.subscriptions.making import check_sql, find_routes, make_subscription
from gantrymq.consumer.subscriptions.naming import shown_queues
from gantrymq.consumer.subscriptions.subscription import Subscription
from gantrymq.errors import ConfigurationError, NotRunning
from gantrymq.formats.namespaces import wrap
from gantrymq.hooks import ConsumeHook, MessageFilter
from gantrymq.machine import wall_ms
from gantrymq.message import MessageQueue
from gantrymq.settings import client_settings, make_settings, split_options
from gantrymq.tracing.consumption import ConsumeTrace
from gantrymq.tracing.tracer import CONSUME, Tracer

log: logging.Logger = logging.getLogger("gantrymq")


class ConsumerState(StrEnum):
    """The state of a consumer, in RocketMQ's words (ServiceState)."""

    CREATE_JUST = "CREATE_JUST"
    RUNNING = "RUNNING"
    SHUTDOWN_ALREADY = "SHUTDOWN_ALREADY"
    START_FAILED = "START_FAILED"


class PushConsumer:
    """Consumes its subscribed topics, together with the other members of its group.

    Subscribe and set a listener, then call `start`, or use it as `async with`. Options are those of ConsumerSettings and
    ClientSettings. A listener that returns None has consumed its messages; one that raises gets them again later.
    """

    def __init__(self, group: str, **options: Unpack[ConsumerOptions]) -> None:
        check_group_name(group)
        of_client, of_consumer = split_options(cast("dict[str, Any]", options))
        self._client_settings = client_settings(of_client)
        self.settings: ConsumerSettings = make_settings(ConsumerSettings, of_consumer)
        self.group = group
        self.state: ConsumerState = ConsumerState.CREATE_JUST
        namespace = self._client_settings.namespace
        self._wire_group = wrap(namespace, group)
        self._subscriptions: dict[str, Subscription] = {}
        self._listener: Listener | None = None
        self._hooks: list[ConsumeHook] = []
        self._filters: list[MessageFilter] = []
        self._instance: ClientInstance | None = None
        self._running: Running | None = None
        self._agreement: asyncio.Task[None] | None = None
        self._started_ms = 0
        self._tracer: Tracer | None = None
        self._stopped: asyncio.Event | None = None
        self._closing: asyncio.Task[None] | None = None
        self._starting: asyncio.Future[None] | None = None

    # Subscriptions and listener

    def subscribe(self, topic: str, expression: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic: all messages, those with certain tags ("paid || shipped"), or those that an SQL92 condition selects.

        May be called again, also while running; the last call counts. Raises ConfigurationError.
        """
        now_ms = wall_ms(self._client_settings.machine)
        made = make_subscription(self._client_settings.namespace, topic, expression, sql, now_ms)
        self._subscriptions[made.topic] = made.after(self._subscriptions.get(made.topic))
        self._changed()

    def unsubscribe(self, topic: str) -> None:
        """Remove the subscription of a topic."""
        self._subscriptions.pop(wrap(self._client_settings.namespace, topic), None)
        self._changed()

    def on_messages(self, listener: MessageListener, *, quick: bool = False) -> None:
        """Set the listener for messages: a coroutine function runs in the loop, a plain one in a thread.

        `quick` calls a plain function in the loop too: for functions that never wait and take microseconds. A function
        with two parameters gets a ConsumeContext as the second.
        """
        self._listen(listener, quick=quick, takes_one=False)

    def on_message(self, listener: OneMessageListener, *, quick: bool = False) -> None:
        """As `on_messages`, for a function of one message: `batch_size` is 1."""
        self._listen(listener, quick=quick, takes_one=True)

    def listener(self, function: ListenerT) -> ListenerT:
        """As `on_messages`, as a decorator; as `on_message` where the first parameter is a ReceivedMessage by its annotation."""
        try:
            takes_one = takes_one_message(function)
        except TypeError as error:
            raise ConfigurationError(f"listener: {error}") from error
        self._listen(function, quick=False, takes_one=takes_one)
        return function

    def add_hook(self, hook: ConsumeHook) -> None:
        """Add a hook that is called before and after each call of the listener."""
        self._hooks.append(hook)

    def add_filter(self, message_filter: MessageFilter) -> None:
        """Hide messages from the listener if this returns False; they count as consumed."""
        self._filters.append(message_filter)

    # Start and close

    async def start(self) -> None:
        """Join the group and start to consume. On a GantryError nothing runs."""
        if self.state is not ConsumerState.CREATE_JUST:
            raise ConfigurationError(f"group {self.group}: a consumer starts once, this one is {self.state}")
        if self._listener is None:
            raise ConfigurationError("no listener: call on_messages, or use @consumer.listener, before start")
        if not self._subscriptions:
            raise ConfigurationError("no topic: call subscribe before start")
        self.state = ConsumerState.START_FAILED
        self._starting = asyncio.get_running_loop().create_future()
        try:
            self._instance = await ClientInstance.acquire(self._client_settings)
            await self._join(self._instance, self._listener)
        except BaseException:
            await self._leave()
            raise
        else:
            self.state = ConsumerState.RUNNING
        finally:
            self._starting.set_result(None)
            self._starting = None

    async def close(self) -> None:
        """Leave the group: running calls may end (`close_timeout`), offsets are written, other members get the queues at once.

        If the listener calls it, it returns at once, and the consumer closes when that call has ended.
        """
        if self._starting is not None:  # it ends as soon as possible, and nothing more is consumed
            self.state = ConsumerState.SHUTDOWN_ALREADY
            await asyncio.wait([self._starting])
        if self.state is ConsumerState.RUNNING:
            if self._instance is not None and not self._instance.is_here(
                f"the consumer of group {self.group}"
            ):
                self.state, self._running, self._instance = ConsumerState.SHUTDOWN_ALREADY, None, None
                return
            self.state = ConsumerState.SHUTDOWN_ALREADY
            leaving = self._leave()
            self._closing = asyncio.get_running_loop().create_task(leaving, name=f"gantry {self.group} close")
        closing = self._closing
        if closing is None or (self._listener is not None and IN_CALL_OF.get() is self._listener):
            return
        try:
            await asyncio.wait([closing])
        except asyncio.CancelledError:  # the caller does not wait for calls
            closing.cancel()
            await asyncio.wait([closing])
            raise
        if not closing.cancelled():  # otherwise a caller did not wait; the consumer is closed all the same
            closing.result()

    async def run_until_stopped(self) -> None:
        """Wait until `close` was called, or the process receives SIGTERM, or SIGINT if nothing else handles it.

        After a signal the consumer is closed on return: running calls have ended, offsets are written, the group is left. A second
        signal ends the process at once. A signal that the program handles itself is left alone, as are all signals if this is
        called outside the main thread.
        """
        if self._stopped is None:
            self._stopped = asyncio.Event()
        if self.state is ConsumerState.RUNNING:
            with caught_signals(self._stopped.set) as caught:
                await self._stopped.wait()
            if caught:
                log.info("group %s stops: %s", self.group, caught[0].name)
                await self.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    def pause(self) -> None:
        """Stop pulling; messages pulled before are still consumed, and queues stay assigned."""
        self._at_work().resumed.clear()

    def resume(self) -> None:
        """Pull again."""
        self._at_work().resumed.set()

    @property
    def is_paused(self) -> bool:
        """Whether the consumer is paused."""
        return not self._at_work().resumed.is_set()

    @property
    def client_id(self) -> str:
        """The name of this process at the brokers."""
        if self._instance is None:
            raise NotRunning(f"group {self.group}: the consumer has no client id before it starts")
        return self._instance.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """The currently assigned queues."""
        return shown_queues(self._client_settings.namespace, self._at_work().assigned.queues)

    @property
    def subscriptions(self) -> list[Subscription]:
        """The current subscriptions."""
        return list(self._subscriptions.values())

    def rates(self) -> dict[str, Rates]:
        """Return the rates of the last minute, by topic."""
        now = self._client_settings.machine.steady()
        return {topic: counts.rates(now) for topic, counts in self._at_work().statistics.items()}

    # Interface to the client and to brokers

    def heartbeat(self) -> ConsumerData:
        """Return its part of the heartbeat."""
        return ConsumerData(
            group_name=self._wire_group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=self.settings.model,
            consume_from_where=self.settings.start,
            subscription_data_set=[each.data() for each in self._subscriptions.values()],
        )

    def rebalance_soon(self) -> None:
        """React to a change of the group or the brokers."""
        if self._running is not None:
            self._running.rebalancer.soon()

    def connection_lost(self, broker: str) -> None:
        """React to the loss of the connection to a broker."""
        if self._running is not None:
            self._running.offsets.write_again(broker)
            self._running.renew_locks_soon()
            self._running.rebalancer.soon()

    def handle_push(self, command: Command, address: str) -> PushAnswer:
        """Answer a broker's request about the group."""
        del address
        return answer(self._at_work(), self._started_ms, command)

    # Internals

    def _at_work(self) -> Running:
        if self._running is None:
            raise NotRunning(f"group {self.group}: the consumer is {self.state}, not RUNNING")
        return self._running

    def _listen(
        self, function: MessageListener | OneMessageListener, *, quick: bool, takes_one: bool
    ) -> None:
        if self.state is not ConsumerState.CREATE_JUST:
            raise ConfigurationError("the listener must be set before the consumer starts")
        if takes_one and self.settings.batch_size > 1:
            size = self.settings.batch_size
            raise ConfigurationError(f"listener: it takes one message, and batch_size is {size}: take a list")
        try:
            self._listener = examine(function, quick=quick, takes_one=takes_one)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"listener: {error}") from error

    def _changed(self) -> None:
        if self._running is not None and self._instance is not None:
            self._instance.heartbeat_soon()
            self._running.rebalancer.soon()

    async def _join(self, instance: ClientInstance, listener: Listener) -> None:
        namespace = self._client_settings.namespace
        if self.settings.model is MessageModel.CLUSTERING:
            retries = retry_topic(self._wire_group)
            self._subscriptions[retries] = Subscription(retries)
        await find_routes(instance, self._subscriptions)
        await check_sql(instance, self._wire_group, self._subscriptions)
        plan = Plan(
            self._wire_group,
            namespace,
            self.settings,
            self._subscriptions,
            listener,
            self._hooks,
            self._filters,
        )
        self._running = Running(instance, plan)
        agreement = Agreement(self._running)
        await agreement.look(
            is_member=False
        )  # before the first heartbeat, which replaces the others' subscriptions with ours
        self._started_ms = wall_ms(self._client_settings.machine)
        instance.register_consumer(self._wire_group, self)
        await instance.make_known()
        if self.settings.trace:
            from gantrymq.producer.producer import (
                trace_producer,  # imported late: only consumers that trace need a producer
            )

            self._tracer = Tracer(
                self._client_settings, self.group, CONSUME, self.settings.trace_topic, trace_producer
            )
            await self._tracer.start()
            self._hooks.insert(0, ConsumeTrace(self._tracer, self.group, self._client_settings.machine))
        if self.state is ConsumerState.SHUTDOWN_ALREADY:
            raise NotRunning(f"group {self.group}: the consumer was closed while it started")
        self._running.start()
        loop = asyncio.get_running_loop()
        self._agreement = loop.create_task(
            self._watch_agreement(agreement), name=f"gantry {self.group} agreement"
        )

    async def _leave(self) -> None:
        running, self._running = self._running, None
        agreement, self._agreement = self._agreement, None
        if agreement is not None:
            agreement.cancel()
        # Run every step, the last one first, even if the caller is cancelled.
        async with AsyncExitStack() as steps:
            if self._stopped is not None:
                steps.callback(self._stopped.set)
            if self._instance is not None:
                steps.push_async_callback(self._instance.leave, self._wire_group, self)
            if self._tracer is not None:
                steps.push_async_callback(self._tracer.close)
            if running is not None:
                await running.stop()

    async def _watch_agreement(self, agreement: Agreement) -> None:
        while True:
            await asyncio.sleep(self.settings.rebalance_interval)
            try:
                await agreement.look()
            except Exception:
                log.exception("group %s: comparing the subscriptions of its members failed", self.group)
