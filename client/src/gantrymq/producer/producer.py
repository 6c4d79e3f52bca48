"""The public producer: validates its arguments, and passes messages to its sender. Starts and ends with `async with`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Self, Unpack, cast

from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command
from gantrymq.connection.instance import ClientInstance
from gantrymq.connection.members import check_group_name
from gantrymq.connection.pushes import PushAnswer
from gantrymq.connection.replies import Reply
from gantrymq.errors import ConnectionFailed, GantryError, InvalidMessage, NotRunning
from gantrymq.formats import namespaces
from gantrymq.hooks import SendHook
from gantrymq.machine import wall_ms
from gantrymq.message import Message, MessageQueue, SendResult, check_flag, check_message
from gantrymq.producer import recalls
from gantrymq.producer.batching.accumulator import Accumulator, Gathered
from gantrymq.producer.batching.batch_send import batch_send
from gantrymq.producer.batching.batches import (
    BatchIncomplete,
    NotSent,
    Outcome,
    all_stored,
    batch_items,
    is_keyed,
)
from gantrymq.producer.replying import is_reply, request_properties
from gantrymq.producer.selectors import Selector, by_hash
from gantrymq.producer.sending.preparing import NOT_IN_BATCHES, Preparation
from gantrymq.producer.sending.send import ReplySend, Send
from gantrymq.producer.sending.sender import Choice, Sender, not_running
from gantrymq.producer.settings import ProducerOptions, ProducerSettings
from gantrymq.settings import (
    ClientOptions,
    ClientSettings,
    check_number,
    client_settings,
    make_settings,
    split_options,
)
from gantrymq.tracing.tracer import PRODUCE, ProducerTrace, Tracer

GATHERED_PROPERTIES_MAX = 16 * 1024
"""Messages with longer properties (characters) are sent individually: brokers add their own, and refuse a batch for one that has no room."""
CLOSE_SECONDS = 10.0
"""How long `close` waits for outstanding messages, beyond their own timeouts."""


class Producer:
    """Sends messages of one group to one cluster. Options: ClientSettings and ProducerSettings.

    Raises ConfigurationError at once for an invalid option; connects only after `start`.
    """

    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        check_group_name(group)
        of_client, own = split_options(cast("dict[str, Any]", options))
        self.group = group
        self.client_settings: ClientSettings = client_settings(of_client)
        self.settings: ProducerSettings = make_settings(ProducerSettings, own)
        self._machine = self.client_settings.machine
        self._wall_ns = self._machine.wall_ns
        self._preparation = Preparation(self.settings, self.client_settings.namespace, self._machine)
        self._wrapped_group = namespaces.wrap(self.client_settings.namespace, group)
        self._hooks: list[SendHook] = []
        self._instance: ClientInstance | None = None
        self._is_wanted = False
        """Whether `start` was called after `close`."""
        self._sender: Sender | None = None
        self._accumulator: Accumulator | None = None
        self._tracer: Tracer | None = None
        self._send_timeout = self.settings.send_timeout
        own_max = self.settings.batch_bytes_max
        self._gathered_bytes_max = min(own_max, self.settings.compress_above or own_max)
        """Larger bodies are sent individually: compressed, or as large as a batch."""

    # Start and close

    async def start(self) -> None:
        """Become a member of the group. Needs no nameserver yet; ConfigurationError if the group has a producer here."""
        if self._sender is not None:
            return
        self._is_wanted = True
        instance = await ClientInstance.acquire(self.client_settings)
        if self._sender is not None:  # a concurrent start was faster
            await instance.release()
            return
        if not self._is_wanted:
            await instance.release()
            raise NotRunning(f"the producer of group {self.group} was closed while it started")
        try:
            instance.register_producer(self._wrapped_group, self)
        except GantryError:
            await instance.release()
            raise
        self._instance = instance
        self._sender = Sender(instance, self._wrapped_group, self.settings, self._preparation, self._hooks)
        if self.settings.linger is not None:
            self._accumulator = Accumulator(
                self.settings.linger,
                self.settings.batch_bytes_max,
                self._preparation.topic,
                self._send_gathered,
            )
        if self.settings.trace:
            self._tracer = Tracer(
                self.client_settings, self.group, PRODUCE, self.settings.trace_topic, trace_producer
            )
            try:
                await self._tracer.start()
            except BaseException:
                await self.close()
                raise
            self._hooks.append(ProducerTrace(self._tracer))

    async def close(self) -> None:
        """Wait for outstanding messages, then leave the group. Safe to call twice."""
        self._is_wanted = False
        instance, sender = self._instance, self._sender
        if instance is None or sender is None:
            return
        if not instance.is_here(f"the producer of group {self.group}"):
            self._accumulator = self._instance = self._sender = self._tracer = None
            return
        if self._accumulator is not None:
            self._accumulator.leave_all()
            self._accumulator = None
        self._instance = self._sender = None
        # The sender has its own.
        self._hooks = [hook for hook in self._hooks if not isinstance(hook, ProducerTrace)]
        # Run every step, the last one first, even if the caller is cancelled.
        async with AsyncExitStack() as steps:
            steps.push_async_callback(instance.leave, self._wrapped_group, self)
            if self._tracer is not None:
                steps.push_async_callback(self._tracer.close)
            await sender.close(self.settings.send_timeout + CLOSE_SECONDS)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def add_hook(self, hook: SendHook) -> None:
        """Add a hook that is called for every message; before `start`, or later."""
        self._hooks.append(hook)

    # Sending

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        argument: object = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message and wait until the broker has stored it.

        The queue is the next in turn, unless there is a `queue`, a `selector` with its `argument`, or a
        sharding key; then only that queue is tried. `timeout` in seconds, all tries together.
        Raises InvalidMessage before anything is sent, NoRoute, Refused, ConnectionFailed, TimedOut.
        """
        if queue is None and selector is None and timeout is None:  # the usual case, with a shorter call
            return await self.send_soon(message)
        return await self.send_soon(
            message, queue=queue, selector=selector, argument=argument, timeout=timeout
        )

    def send_soon(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        argument: object = None,
        timeout: float | None = None,
    ) -> asyncio.Future[SendResult]:
        """Start to send, and return a future of the result. Otherwise as `send`."""
        sender = self._sender
        if sender is None or sender.loop is not asyncio.get_running_loop():
            sender = self._running()  # raises if the producer is not running
        if type(message) is not Message:
            check_message(message)
        born_ms = self._wall_ns() // 1_000_000
        loop = sender.loop
        future: asyncio.Future[SendResult] = loop.create_future()
        seconds = self._send_timeout if timeout is None else self._seconds(timeout)
        choice = None
        if queue is not None or selector is not None or message.sharding_key is not None:
            choice = self._choice(message, queue, selector, argument)
        gathers = self._accumulator
        if gathers is not None:
            if (choice is None or queue is not None) and self._can_gather(message):
                if message.flag:
                    check_flag(message.flag)
                properties = self._preparation.properties(message, born_ms)
                if len(properties) <= GATHERED_PROPERTIES_MAX:
                    gathers.add(message, properties, queue, future, seconds)
                    return future
            if choice is not None:
                gathers.leave_chosen(message.topic)
        prepared = self._preparation.prepare(message, born_ms)
        kind = ReplySend if message.properties and is_reply(message) else Send
        sender.begin(kind(sender, message, prepared, future, loop.time() + seconds, born_ms), choice)
        return future

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        argument: object = None,
    ) -> None:
        """Send without waiting for an answer: nothing reports whether it was stored. Raises what prevents the send."""
        sender = self._running()
        check_message(message)
        born_ms = wall_ms(self._machine)
        prepared = self._preparation.prepare(message, born_ms)
        future: asyncio.Future[SendResult] = sender.loop.create_future()
        send = Send(
            sender, message, prepared, future, sender.loop.time() + self.settings.send_timeout, born_ms
        )
        send.kind = "oneway"
        await sender.oneway(send, self._choice_alone(message, queue, selector, argument))

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic to one queue, in their order, in as few requests as their size allows.

        Each request is stored as a whole or not at all, except for messages with idempotency keys: each of those is stored, recognized
        as a duplicate, or refused individually. Returns a result for each message. Raises BatchIncomplete, which has the outcome of each and
        can be given to `resume`, or the one error that all share; else as `send`.
        """
        outcomes, landed = await self._send_parts(messages, queue, timeout)
        return all_stored(messages, outcomes, landed)

    async def resume(self, incomplete: BatchIncomplete, *, timeout: float | None = None) -> list[SendResult]:
        """Send the messages of a batch again that are not known to be stored; returns the results of the whole batch.

        A message without an idempotency key and with an unknown outcome (`incomplete.unknown`) may then be stored twice.
        Raises as `send_batch`.
        """
        outcomes = list(incomplete.results)
        again = sorted([*incomplete.not_stored, *incomplete.unknown])
        messages = [incomplete.messages[n] for n in again]
        parts, landed = await self._send_parts(messages, incomplete.queue, timeout)
        for n, outcome in zip(again, parts, strict=True):
            outcomes[n] = outcome
        return all_stored(incomplete.messages, outcomes, landed)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of a topic can go to; NoRoute, ConnectionFailed."""
        return list((await self._running().targets_of(topic)).queues)

    async def cancel(self, result: SendResult | str) -> str:
        """Cancel a delayed message; returns its unique id.

        `result` is that of its send, or its recall handle. Raises InvalidMessage for an invalid handle, Refused with code 604
        if it was already delivered.
        """
        sender = self._running()
        return await recalls.recall(sender.instance, self._wrapped_group, result)

    async def request(
        self,
        message: Message,
        *,
        timeout: float | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        argument: object = None,
    ) -> Reply:
        """Send a message and wait for a consumer's reply, `timeout` seconds in all; TimedOut if none came."""
        sender = self._running()
        check_message(message)
        instance = sender.instance
        seconds = self._seconds(timeout)
        deadline = sender.loop.time() + seconds
        pending = instance.replies.expect(message.topic)
        try:
            extra = request_properties(pending.correlation_id, instance.client_id, seconds)
            born_ms = wall_ms(self._machine)
            prepared = self._preparation.prepare(message, born_ms, extra)
            future: asyncio.Future[SendResult] = sender.loop.create_future()
            choice = self._choice_alone(message, queue, selector, argument)
            await sender.targets_of(message.topic)
            await instance.make_known()
            sender.begin(Send(sender, message, prepared, future, deadline, born_ms), choice)
            await future
            return await pending.wait(deadline - sender.loop.time())
        finally:
            pending.forget()

    def handle_push(self, command: Command, address: str) -> PushAnswer:
        """Answer nothing: a plain producer has no transactions (39)."""
        del address
        assert command.code == RequestCode.CHECK_TRANSACTION_STATE

    # Internals

    def _running(self) -> Sender:
        sender = self._sender
        if sender is None:
            raise not_running(type(self).__name__)
        if sender.loop is not asyncio.get_running_loop():
            words = f"the producer of group {self.group} was started in another event loop, or before a fork"
            raise ConnectionFailed(f"{words}: start one here", sent=False)
        return sender

    def _seconds(self, timeout: float | None) -> float:
        if timeout is None:
            return self.settings.send_timeout
        check_number("timeout", timeout, 0.001, 86_400)
        return timeout

    def _choice(
        self, message: Message, queue: MessageQueue | None, selector: Selector | None, argument: object
    ) -> Choice:
        """Return the function that chooses the queue of this message."""
        if queue is not None:
            if selector is not None:
                raise InvalidMessage("queue", "give a queue or a selector, not both")
            return lambda _queues: queue
        if selector is None:
            key = message.sharding_key
            return lambda queues: by_hash(queues, message, key)
        return lambda queues: selector(queues, message, argument)

    def _choice_alone(
        self, message: Message, queue: MessageQueue | None, selector: Selector | None, argument: object
    ) -> Choice | None:
        """Return the function that chooses the queue of an individually sent message, if any; it overtakes no batched ones."""
        if queue is None and selector is None and message.sharding_key is None:
            return None
        if self._accumulator is not None:
            self._accumulator.leave_chosen(message.topic)
        return self._choice(message, queue, selector, argument)

    async def _send_parts(
        self, messages: Sequence[Message], queue: MessageQueue | None, timeout: float | None
    ) -> tuple[Sequence[Outcome], MessageQueue | None]:
        """Return the outcome of each message of a batch, and their queue."""
        sender = self._running()
        seconds = self._seconds(timeout)
        born_ms = wall_ms(self._machine)
        parts = batch_items(messages, self._preparation, self.settings.message_bytes_max, born_ms)
        if self._accumulator is not None and queue is not None:
            self._accumulator.leave_chosen(messages[0].topic)
        outcomes: list[Outcome] = []
        for part, items in parts:
            future: asyncio.Future[list[Outcome]] = sender.loop.create_future()
            deadline = sender.loop.time() + seconds
            keyed = any(map(is_keyed, part))
            send = batch_send(sender, part, items, future, deadline, wall_ms(self._machine), per_item=keyed)
            try:
                sender.begin(send, _fixed(queue))
                outcomes += await future
            except GantryError as error:
                outcomes += [error] * len(part)
                rest = NotSent(f"it was not sent: {len(part)} messages before it failed")
                outcomes += [rest] * (len(messages) - len(outcomes))
                break
            queue = send.target.queue
        return outcomes, queue

    def _can_gather(self, message: Message) -> bool:
        """Whether a message may be part of a batch without harming the others.

        Brokers accept no compressed, timed, transactional or reply messages there.
        """
        return (
            type(message.body) is bytes
            and 0 < len(message.body) < self._gathered_bytes_max
            and not message.delay_level
            and message.delay_ms is None
            and message.deliver_at_ms is None
            and (not message.properties or NOT_IN_BATCHES.isdisjoint(message.properties))
        )

    def _send_gathered(self, gathered: Gathered) -> None:
        """Send a collected batch; called by the accumulator."""
        try:
            sender = self._running()
            future: asyncio.Future[Any] = sender.loop.create_future()
            send = batch_send(
                sender, gathered.messages, gathered.items, future, gathered.deadline, wall_ms(self._machine),
                per_item=gathered.is_keyed, waiting=gathered.waiting,
            )  # fmt: skip
            sender.begin(send, _fixed(gathered.queue))
        except Exception as error:  # noqa: BLE001 - a message that cannot be encoded fails its whole batch
            for waiting in gathered.waiting:
                if not waiting.done():
                    waiting.set_exception(error)


def _fixed(queue: MessageQueue | None) -> Choice | None:
    return None if queue is None else lambda _queues: queue


def trace_producer(group: str, seconds: float, options: ClientOptions) -> Producer:
    """Return the producer of a tracer's records."""
    return Producer(group, send_timeout=seconds, **options)
