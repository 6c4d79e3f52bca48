"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: what consumers do with a receipt handle.

Consumers repeat each of them for ever, once a second, unless it succeeds or is refused with INVALID_RECEIPT_HANDLE. So what cannot
succeed later is refused with that code.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from gantry_wire.private_requests.leases import INVISIBLE_MS_MAX, ItemKind
from gateway.grpc.calls import Caller
from gateway.grpc.codes import Refused, status, status_of
from gateway.grpc.consuming.renewals import Renewals
from gateway.grpc.messages.checked_names import group_of, topic_of
from gateway.grpc.proto.common import Resource, Status
from gateway.grpc.proto.duration import duration_ms
from gateway.grpc.proto.enums import Code
from gateway.grpc.proto.receiving import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse,
)
from gateway.http.problems import Problem, rate_limited
from gateway.ports.stores import RateLimits
from gateway.receive.acking import Acker, Result, Wanted
from gateway.requests.limits import ITEMS_MAX

NACK_MS_MIN: Final = 1000
"""Shortest delay of a message that a push consumer gives back. A Node client asks for no delay: it would use up all attempts at once."""
_LEASE_OVER: Final = "the lease is over, or the message was given back before"
_INVALID: Final = "the receipt handle is malformed, or of another topic or group"
_FORWARDED: Final = "forwarded by its consumer"
"""The reason of a dead letter. How often its consumer tried is not known: it tries messages in order without the gateway."""
_GONE_TOPIC: Final = "TOPIC_NOT_EXIST"


class Acks:
    """Answers calls with receipt handles."""

    def __init__(
        self,
        acker: Acker,
        renewals: Renewals,
        limits: RateLimits | None,
        is_push: Callable[[str], bool],
    ) -> None:
        """`is_push` tells whether a client, by its id, is known as a push consumer."""
        self._acker, self._renewals, self._limits, self._is_push = acker, renewals, limits, is_push
        self.messages = 0
        """How many handles were settled."""

    def ack(self, caller: Caller, request: AckMessageRequest) -> Awaitable[AckMessageResponse]:
        """Acknowledge messages. A single one takes no task unless its route has to be read. Raises Refused for illegal names."""
        topic, group = _names(caller, request.topic, request.group)
        entries = request.entries
        if len(entries) == 1 and self._limits is None:
            (entry,) = entries
            answer: asyncio.Future[AckMessageResponse] = asyncio.get_running_loop().create_future()

            def on_results(results: list[Result] | Exception | None) -> None:
                if answer.done():
                    return
                if isinstance(results, Exception):
                    answer.set_exception(results)
                else:
                    answer.set_result(self._acked(caller, (entry,), results))

            if self._acker.start(topic, group, (entry.receipt_handle,), on_results):
                return answer
        return self._ack(caller, topic, group, entries)

    async def _ack(
        self, caller: Caller, topic: str, group: str, entries: Sequence[AckMessageEntry]
    ) -> AckMessageResponse:
        if not 1 <= len(entries) <= ITEMS_MAX:
            raise Refused(
                Code.BAD_REQUEST, f"the call has {len(entries)} entries, it may have 1 to {ITEMS_MAX}"
            )
        await self._take(caller)
        handles = [entry.receipt_handle for entry in entries]
        try:
            results = await self._acker.ack(topic, group, handles)
        except Problem as problem:
            results = [problem] * len(handles)
        return self._acked(caller, entries, results)

    def _acked(
        self, caller: Caller, entries: Sequence[AckMessageEntry], results: Sequence[Result] | None
    ) -> AckMessageResponse:
        """Return the response; None as results: every message is acknowledged."""
        response = AckMessageResponse()
        codes: set[int] = set()
        for place, entry in enumerate(entries):
            handle = entry.receipt_handle
            one = status(Code.OK) if results is None else _status(results[place])
            if one.code in _SETTLED:
                self._renewals.drop(caller.client_id, handle)
            codes.add(one.code)
            response.entries.append(
                AckMessageResultEntry(message_id=entry.message_id, receipt_handle=handle, status=one)
            )
        self.messages += len(entries)
        response.status.CopyFrom(
            response.entries[0].status if len(codes) == 1 else status(Code.MULTIPLE_RESULTS)
        )
        return response

    async def change_invisible(
        self, caller: Caller, request: ChangeInvisibleDurationRequest
    ) -> ChangeInvisibleDurationResponse:
        """Let a lease end later or earlier. Refusals have the handle, too: the Python client takes it from every response."""
        try:
            answer = await self._change(caller, request)
        except (Problem, Refused) as error:
            answer = _refusal(error)
        return ChangeInvisibleDurationResponse(status=answer, receipt_handle=request.receipt_handle)

    async def _change(self, caller: Caller, request: ChangeInvisibleDurationRequest) -> Status:
        topic, group = _names(caller, request.topic, request.group)
        ms = duration_ms(request.invisible_duration)
        if not 0 <= ms <= INVISIBLE_MS_MAX:
            raise Refused(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"invisible_duration is {ms} ms, it may be 0 to {INVISIBLE_MS_MAX}",
            )
        await self._take(caller)
        client_id, handle = caller.client_id, request.receipt_handle
        is_push = self._renewals.drop(client_id, handle) or self._is_push(client_id)
        if is_push:  # it changes what it failed to consume
            wanted = Wanted(handle, ItemKind.NACK, max(ms, NACK_MS_MIN))
        else:
            wanted = Wanted(handle, ItemKind.NACK if ms == 0 else ItemKind.EXTEND)
        if wanted.kind == ItemKind.NACK:
            (result,) = await self._acker.settle(topic, group, [wanted])
        else:
            (result,) = await self._acker.extend(topic, group, [wanted], ms)
        return _status(result)

    async def forward_to_dlq(
        self, caller: Caller, request: ForwardMessageToDeadLetterQueueRequest
    ) -> ForwardMessageToDeadLetterQueueResponse:
        """Move a message to the dead letter queue of its group."""
        topic, group = _names(caller, request.topic, request.group)
        await self._take(caller)
        handle = request.receipt_handle
        try:
            (result,) = await self._acker.settle(topic, group, [Wanted(handle, ItemKind.DEAD, 0, _FORWARDED)])
        except Problem as problem:
            result = problem
        answer = _status(result)
        if answer.code in _SETTLED:
            self._renewals.drop(caller.client_id, handle)
        return ForwardMessageToDeadLetterQueueResponse(status=answer)

    async def _take(self, caller: Caller) -> None:
        """Take from the rate limit of the client's host. Raises Problem."""
        if self._limits is not None:
            wait_ms = await self._limits.take(caller.address, "", 1)
            if wait_ms:
                raise rate_limited(wait_ms)


_SETTLED: Final = frozenset({int(Code.OK), int(Code.INVALID_RECEIPT_HANDLE)})
"""Codes of results that are final."""


def _names(caller: Caller, topic: Resource, group: Resource) -> tuple[str, str]:
    """Return the full names of topic and group. Raises Refused for illegal ones."""
    return topic_of(topic, caller.namespace), group_of(group, caller.namespace)


def _status(result: Result) -> Status:
    """Return the status of one handle."""
    if isinstance(result, Problem):
        return _refusal(result)
    if result.status == "leaseExpired":
        return status(Code.INVALID_RECEIPT_HANDLE, _LEASE_OVER)
    if result.status == "invalidHandle":
        return status(Code.INVALID_RECEIPT_HANDLE, _INVALID)
    return status(Code.OK)


def _refusal(error: Problem | Refused) -> Status:
    if isinstance(error, Problem) and error.code == _GONE_TOPIC:
        return status(Code.INVALID_RECEIPT_HANDLE, error.detail)
    return status_of(error)
