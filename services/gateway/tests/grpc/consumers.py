"""Consumers' parts of the gRPC side over in-memory ports, called without a connection."""

from __future__ import annotations

import asyncio

from gantry_link.grpc.calls import CallInfo
from gateway.grpc.calls import Caller
from gateway.grpc.consuming.acks import Acks
from gateway.grpc.consuming.receive import Receives
from gateway.grpc.consuming.renewals import Renewals
from gateway.grpc.messages.leased import shown
from gateway.grpc.proto.common import FilterExpression, MessageQueue, Resource
from gateway.grpc.proto.duration import duration
from gateway.grpc.proto.enums import FilterType
from gateway.grpc.proto.message import Message
from gateway.grpc.proto.receiving import (
    AckMessageEntry,
    AckMessageRequest,
    ChangeInvisibleDurationRequest,
    ForwardMessageToDeadLetterQueueRequest,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
)
from gateway.receive.acking import Acker
from gateway.receive.receiving import Receiver


class Consumers:
    """A gateway's parts for consumers. Clients `push…` are push consumers; clients in `alive` have called lately."""

    def __init__(self, system, limits=None) -> None:
        self.system, self.store_of = system, system.leases.stores
        self.alive: set[str] = set()
        self.gateway = system.gateway()
        now = system.clocks.monotonic
        self.receiver = Receiver(self.gateway.routes, system.leases, shown, now)
        self.acker = Acker(self.gateway.routes, system.leases)
        self.renewals = Renewals(self.acker, self.alive.__contains__, now)
        self.receives = Receives(self.receiver, self.renewals, limits, system.clocks)
        self.acks = Acks(self.acker, self.renewals, limits, lambda client: client.startswith("push"))

    @property
    def store(self):
        return self.system.leases.at("broker-a", self.system.stores["broker-a"].address)

    async def put(self, *bodies: str, queue_id: int = 0, broker: str = "broker-a") -> None:
        for body in bodies:
            properties = f"UNIQ_KEY\x01{len(body):032X}\x02"
            await self.system.stores[broker].put("orders", queue_id, body.encode(), properties)

    async def receive(self, caller: Caller | None = None, **fields) -> list[ReceiveMessageResponse]:
        """Return all responses of a receive."""
        sent: list[bytes] = []

        async def send(data: bytes) -> None:
            sent.append(data)

        await self.receives.receive(caller or caller_of(), receive_request(**fields), send)
        return [ReceiveMessageResponse.FromString(data) for data in sent]

    async def messages(self, caller: Caller | None = None, **fields) -> list[Message]:
        """Return the messages of a receive, which succeeds."""
        first, *found, last = await self.receive(caller, **fields)
        assert first.status.code == 20000
        assert last.WhichOneof("content") == "delivery_timestamp"
        return [one.message for one in found]

    async def ack(self, *messages: Message, caller: Caller | None = None):
        return await self.acks.ack(caller or caller_of(), ack_request(*map(handle_of, messages)))

    async def change(self, message: Message, ms: int, caller: Caller | None = None):
        request = change_request(handle_of(message), ms)
        return await self.acks.change_invisible(caller or caller_of(), request)

    async def forward(self, message: Message, caller: Caller | None = None):
        request = ForwardMessageToDeadLetterQueueRequest(
            group=Resource(name="g1"),
            topic=Resource(name="orders"),
            receipt_handle=handle_of(message),
            delivery_attempt=17,
        )
        return await self.acks.forward_to_dlq(caller or caller_of(), request)


def caller_of(
    client_id: str = "simple", *, seconds: float | None = None, version: str = "5.1.2", namespace: str = ""
) -> Caller:
    """A caller whose deadline is so many seconds from now."""
    deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
    info = CallInfo({}, deadline, "127.0.0.1:5000", is_secure=False, user="")
    return Caller(client_id, "PYTHON", version, namespace, info)


def handle_of(message: Message) -> str:
    return message.system_properties.receipt_handle


def receive_request(
    *,
    topic: str = "orders",
    group: str = "g1",
    batch: int = 32,
    invisible_ms: int = 30_000,
    poll_ms: int | None = None,
    renew: bool = False,
    tags: str = "*",
    sql: str = "",
    attempt_id: str = "",
) -> ReceiveMessageRequest:
    expression = FilterExpression(type=FilterType.TAG, expression=tags)
    if sql:
        expression = FilterExpression(type=FilterType.SQL, expression=sql)
    request = ReceiveMessageRequest(
        group=Resource(name=group),
        message_queue=MessageQueue(topic=Resource(name=topic), id=3),
        filter_expression=expression,
        batch_size=batch,
        auto_renew=renew,
    )
    if invisible_ms >= 0:
        request.invisible_duration.CopyFrom(duration(invisible_ms))
    if poll_ms is not None:
        request.long_polling_timeout.CopyFrom(duration(poll_ms))
    if attempt_id:
        request.attempt_id = attempt_id
    return request


def ack_request(*handles: str, topic: str = "orders", group: str = "g1") -> AckMessageRequest:
    entries = [AckMessageEntry(message_id=f"m{n}", receipt_handle=handle) for n, handle in enumerate(handles)]
    return AckMessageRequest(group=Resource(name=group), topic=Resource(name=topic), entries=entries)


def change_request(handle: str, ms: int, topic: str = "orders") -> ChangeInvisibleDurationRequest:
    return ChangeInvisibleDurationRequest(
        group=Resource(name="g1"),
        topic=Resource(name=topic),
        receipt_handle=handle,
        invisible_duration=duration(ms),
    )
