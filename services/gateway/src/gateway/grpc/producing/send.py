"""SendMessage and RecallMessage.

The gateway selects the queue, as over HTTP: messages of one group go to one queue, whatever protocol they come over. A message that is
sent again with the same id is stored again, unless it carries an idempotency key.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from gantry_wire.errors import RefusedRequest
from gantry_wire.messages.recall_handle import RecallHandle, parse_handle
from gantry_wire.names import DLQ_PREFIX, RETRY_PREFIX
from gantry_wire.private_requests.scheduling import ScheduleOrder
from gantry_wire.private_requests.transactions import transaction_id
from gateway.grpc.calls import Caller
from gateway.grpc.codes import Refused, common_status, status, status_of
from gateway.grpc.messages.accepted_types import accepted_types
from gateway.grpc.messages.checked_names import topic_of
from gateway.grpc.messages.sent import Origin, Sent, SentMessages, sent_messages
from gateway.grpc.proto.enums import Code, MessageType
from gateway.grpc.proto.sending import (
    RecallMessageRequest,
    RecallMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
)
from gateway.http.problems import Problem, rate_limited
from gateway.ports.stores import RateLimits
from gateway.requests.checks import time_ms
from gateway.routing.topic_types import TopicTypes
from gateway.schedules.schedules import Schedules
from gateway.send.routes import EnsureTopic
from gateway.send.sending import Result, Sender

BindTopic = Callable[[str, str], None]
"""Notes that a client, by its id, sends transactions to a topic."""

_OK = status(Code.OK)
_GROUPS_OWN = (RETRY_PREFIX, DLQ_PREFIX)
"""Topics of consumer groups take messages of every type."""


class Sends:
    """The messages of producers."""

    def __init__(
        self,
        sender: Sender,
        types: TopicTypes,
        bind_topic: BindTopic,
        limits: RateLimits | None,
        ensure_topic: EnsureTopic | None,
        wall_ms: Callable[[], int],
        delay_horizon_ms: int,
    ) -> None:
        """Without `ensure_topic`, a send creates no topic."""
        self._sender, self._types, self._bind_topic = sender, types, bind_topic
        self._limits, self._ensure_topic = limits, ensure_topic
        self._wall_ms, self._horizon_ms = wall_ms, delay_horizon_ms
        self.messages = 0
        """How many messages were acknowledged."""

    def send(self, caller: Caller, request: SendMessageRequest) -> Awaitable[SendMessageResponse]:
        """Store messages of one topic. Raises Refused or a Problem if none can be sent; what happens to each is in the response.

        A single message whose topic is cached is answered in the store's callback, without a task.
        """
        origin = Origin(caller.namespace, caller.address, self._wall_ms(), self._horizon_ms)
        sent = sent_messages(request, origin)
        if len(sent.messages) == 1 and self._limits is None:
            kind = self._types.known(sent.topic)
            if kind is not None:
                self._check_types(sent, kind, caller)
                sending = _OneSend(self, sent)
                if self._sender.start(sent.topic, sent.messages[0].draft, sending.on_results):
                    return sending.response
        return self._send(caller, sent)

    async def _send(self, caller: Caller, sent: SentMessages) -> SendMessageResponse:
        topic, messages = sent
        if self._limits is not None:
            wait_ms = await self._limits.take(caller.address, topic, len(messages))
            if wait_ms:
                raise rate_limited(wait_ms)
        if self._ensure_topic is not None:
            await self._ensure_topic(topic)
        self._check_types(sent, await self._types.get(topic), caller)
        return self.response(sent, await self._sender.send(topic, [one.draft for one in messages]))

    def _check_types(self, sent: SentMessages, kind: str, caller: Caller) -> None:
        """Raise Refused unless the topic takes the messages; note who sends transactions."""
        types = {one.type for one in sent.messages}
        for one in types:
            if not takes(sent.topic, kind, one):
                detail = f"topic {sent.topic} takes messages of type {kind}, and this one is {one.name}"
                raise Refused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, detail)
        if MessageType.TRANSACTION in types:
            self._bind_topic(caller.client_id, sent.topic)

    def response(self, sent: SentMessages, results: Sequence[Result]) -> SendMessageResponse:
        """Return the response with the results of the messages, in their order."""
        self.messages += len(results) - sum([isinstance(one, Problem) for one in results])
        if len(results) == 1:
            entry = _entry(sent.topic, sent.messages[0], results[0])
            return SendMessageResponse(status=entry.status, entries=[entry])
        pairs = zip(sent.messages, results, strict=True)
        entries = [_entry(sent.topic, one, result) for one, result in pairs]
        return SendMessageResponse(status=common_status([entry.status for entry in entries]), entries=entries)


class _OneSend:
    """One message that waits for its result."""

    __slots__ = ("_sends", "_sent", "response")

    def __init__(self, sends: Sends, sent: SentMessages) -> None:
        self._sends, self._sent = sends, sent
        self.response: asyncio.Future[SendMessageResponse] = asyncio.get_running_loop().create_future()

    def on_results(self, results: list[Result] | Exception) -> None:
        """Take the result. The client may have cancelled the call meanwhile."""
        try:
            if isinstance(results, Exception):
                raise results
            response = self._sends.response(self._sent, results)
        except Exception as error:  # noqa: BLE001 - whatever it was, the call gets an answer
            if not self.response.done():
                self.response.set_exception(error)
            return
        if not self.response.done():
            self.response.set_result(response)


class Recalls:
    """Cancels delayed messages by the handles that their sends returned, over any protocol."""

    def __init__(self, schedules: Schedules, types: TopicTypes, wall_ms: Callable[[], int]) -> None:
        self._schedules, self._types, self._wall_ms = schedules, types, wall_ms

    async def recall(self, caller: Caller, request: RecallMessageRequest) -> RecallMessageResponse:
        """Never deliver a message. Raises Refused or a Problem if it is not waiting for its time, or its broker does not carry it out."""
        topic = topic_of(request.topic, caller.namespace)
        kind = await self._types.get(topic)
        if not takes(topic, kind, MessageType.DELAY):
            detail = f"topic {topic} takes messages of type {kind}: none of them is delayed"
            raise Refused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, detail)
        handle = self._handle(request.recall_handle, topic)
        order = ScheduleOrder(id=handle.unique_key, broker=handle.broker, topic=topic)
        try:
            await self._schedules.cancel(order)
        except Problem as problem:
            if problem.code == "BROKER_NOT_EXIST":
                raise _unusable(problem.detail) from problem
            raise
        return RecallMessageResponse(status=status(Code.OK), message_id=handle.unique_key)

    def _handle(self, text: str, topic: str) -> RecallHandle:
        try:
            handle = parse_handle(text)
        except RefusedRequest as error:
            raise _unusable(str(error)) from error
        if handle.topic != topic:
            raise _unusable(f"the recall handle is one of topic {handle.topic}")
        if handle.deliver_ms <= self._wall_ms():
            raise _unusable("the time of the message is over")
        return handle


def takes(topic: str, kind: str, message_type: MessageType) -> bool:
    """Return whether a topic takes messages of a type. `kind` is its attribute."""
    return message_type in accepted_types(kind) or topic.startswith(_GROUPS_OWN)


def _entry(topic: str, one: Sent, result: Result) -> SendResultEntry:
    if isinstance(result, Problem):
        return SendResultEntry(status=status_of(result), message_id=one.draft.message_id)
    entry = SendResultEntry(status=_OK, message_id=result.message_id, offset=result.queue_offset or 0)
    if one.type == MessageType.TRANSACTION:
        entry.transaction_id = transaction_id(result.broker, result.message_id)
    if result.deliver_at is not None:
        due_ms = time_ms(result.deliver_at, "deliverAt")
        entry.recall_handle = RecallHandle(topic, result.broker, due_ms, result.message_id).text()
    return entry


def _unusable(detail: str) -> Refused:
    """Return the refusal of a handle, with the code of RocketMQ's proxy."""
    return Refused(Code.INTERNAL_SERVER_ERROR, detail)
