"""ReceiveMessage: leases messages for a consumer, and holds the call while there are none.

The bounds are those of RocketMQ's proxy. Whatever queue a consumer names, it gets messages of all queues of the topic: SimpleConsumers
name one by chance, and would otherwise not see the others for a long time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from gantry_wire.private_requests.leases import FILTER_CONFLICT, INVISIBLE_MS_MAX, LATEST
from gantry_wire.subscription import SQL92, SUBSCRIBE_ALL, TAG
from gateway.grpc.calls import Caller
from gateway.grpc.codes import Refused, status
from gateway.grpc.consuming.renewals import LEASE_MS, Renewals
from gateway.grpc.messages.checked_names import group_of, topic_of
from gateway.grpc.proto.common import FilterExpression
from gateway.grpc.proto.duration import duration_ms
from gateway.grpc.proto.enums import Code, FilterType
from gateway.grpc.proto.receiving import ReceiveMessageRequest, ReceiveMessageResponse
from gateway.grpc.proto.timestamp import timestamp
from gateway.http.problems import Problem, rate_limited
from gateway.messages.sql_filters import checked_sql
from gateway.ports.leases import ReceiveAsk
from gateway.ports.stores import Clocks, RateLimits
from gateway.pull.routes import tags_of
from gateway.receive.receiving import Batch, Receiver

BATCH_MAX: Final = 32
"""More messages are not given at once, whatever is asked for."""
INVISIBLE_MS_MIN: Final = 10_000
POLL_SECONDS_MIN: Final = 5.0
POLL_SECONDS_MAX: Final = 20.0
"""How long a call is held; a client that asks for less or more gets the nearest."""
REQUEST_SECONDS: Final = 3.0
"""The time-out of a client's other calls by default. Half of it is left of the deadline by clients that name no time."""
MARGIN_SECONDS: Final = 0.2
"""A held call is answered this long before its deadline."""
POLLING_VERSION: Final = "5.0.3"
"""Older clients do not know the code of an illegal polling time."""
FILTER_CHANGES_MAX: Final = 8
"""How often one call puts its filter in place of the group's: consumers of a group that differ replace each other's."""

Send = Callable[[bytes], Awaitable[None]]
"""Sends one serialized response; returns when it has left."""


class Wanted(NamedTuple):
    """What a request asks for, and how long to wait for it."""

    ask: ReceiveAsk
    wait_seconds: float


class Receives:
    """Answers ReceiveMessage."""

    def __init__(
        self, receiver: Receiver, renewals: Renewals, limits: RateLimits | None, clocks: Clocks
    ) -> None:
        """`receiver` formats each message as one serialized ReceiveMessageResponse."""
        self._receiver, self._renewals, self._limits, self._clocks = receiver, renewals, limits, clocks
        self.messages = 0
        """How many messages were delivered."""

    async def receive(self, caller: Caller, request: ReceiveMessageRequest, send: Send) -> None:
        """Send a status, the messages, and the time. Messages that cannot be sent are given back at once. Raises Problem and Refused."""
        wanted = read_request(caller, request, asyncio.get_running_loop().time())
        await self._take(caller)
        batch = await self._batch(wanted)
        if batch.count:
            await self._deliver(caller, wanted.ask, batch, send, renew=request.auto_renew)
        else:
            await send(_NOTHING)
            await send(end_of_receive(self._clocks.wall_ms()))

    async def _deliver(
        self, caller: Caller, ask: ReceiveAsk, batch: Batch, send: Send, *, renew: bool
    ) -> None:
        held = None
        try:
            if renew:  # before the first is sent, as it may be acknowledged before the last is
                held = self._renewals.hold(caller.client_id, ask.topic, ask.group, batch)
            await send(_OK)
            for part in batch.parts:
                await send(part)
            await send(end_of_receive(self._clocks.wall_ms()))
        except BaseException:  # the client drops the whole batch, too
            if held is not None:
                self._renewals.drop_all(held)
            batch.give_back()
            raise
        self.messages += batch.count

    async def _batch(self, wanted: Wanted) -> Batch:
        """Lease messages by the filter of the request, which becomes that of the group. Raises Problem and Refused."""
        ask, now = wanted.ask, self._clocks.monotonic
        until = now() + wanted.wait_seconds
        for _ in range(FILTER_CHANGES_MAX):
            try:
                return await self._receiver.receive(ask, max(0.0, until - now()), _never)
            except Problem as problem:
                if problem.code == "NO_PERMISSION":
                    raise Refused(Code.FORBIDDEN, problem.detail) from problem
                if problem.code != FILTER_CONFLICT:
                    raise
                ask = ask._replace(is_filter_new=True)
        raise Refused(
            Code.ILLEGAL_FILTER_EXPRESSION,
            f"consumers of group {ask.group} subscribe to topic {ask.topic} with different filters",
        )

    async def _take(self, caller: Caller) -> None:
        """Take from the rate limit of the client's host. Raises Problem."""
        if self._limits is not None:
            wait_ms = await self._limits.take(caller.address, "", 1)
            if wait_ms:
                raise rate_limited(wait_ms)


_OK: Final = ReceiveMessageResponse(status=status(Code.OK)).SerializeToString()
_NOTHING: Final = ReceiveMessageResponse(
    status=status(Code.MESSAGE_NOT_FOUND, "no new message")
).SerializeToString()


def end_of_receive(now_ms: int) -> bytes:
    """Return the last response of every receive: the time of the delivery. The Python client drops a batch without one."""
    return ReceiveMessageResponse(delivery_timestamp=timestamp(now_ms)).SerializeToString()


def read_request(caller: Caller, request: ReceiveMessageRequest, now: float) -> Wanted:
    """Return what a request asks for; `now` is the loop's time. Raises Problem and Refused."""
    topic = topic_of(request.message_queue.topic, caller.namespace)
    group = group_of(request.group, caller.namespace)
    kind, expression = filter_of(request.filter_expression)
    if request.batch_size < 1:
        raise Refused(Code.BAD_REQUEST, f"batch_size is {request.batch_size}, it is 1 at least")
    ask = ReceiveAsk(
        topic,
        group,
        min(request.batch_size, BATCH_MAX),
        _invisible_ms(request),
        kind,
        expression,
        start=LATEST,
        attempt_id=request.attempt_id,
    )
    return Wanted(ask, _poll_seconds(caller, request, now))


def filter_of(filter_: FilterExpression) -> tuple[str, str]:
    """Return type and expression as the stores know them; everything is a filter too, which takes another one's place. Raises Problem."""
    if filter_.type == FilterType.SQL:
        return SQL92, checked_sql(filter_.expression.strip(), "filter").expression
    tags = tags_of(filter_.expression)
    return TAG, "||".join(sorted(tags.names)) or SUBSCRIBE_ALL


def _invisible_ms(request: ReceiveMessageRequest) -> int:
    if request.auto_renew:
        return LEASE_MS
    ms = duration_ms(request.invisible_duration)
    if not INVISIBLE_MS_MIN <= ms <= INVISIBLE_MS_MAX:
        raise Refused(
            Code.ILLEGAL_INVISIBLE_TIME,
            f"invisible_duration is {ms} ms, it may be {INVISIBLE_MS_MIN} to {INVISIBLE_MS_MAX}",
        )
    return ms


def _poll_seconds(caller: Caller, request: ReceiveMessageRequest, now: float) -> float:
    """Return how long to hold the call. A client without a deadline waits for ever."""
    deadline = caller.info.deadline
    left = None if deadline is None else deadline - now
    if request.HasField("long_polling_timeout"):
        seconds = duration_ms(request.long_polling_timeout) / 1000
    else:
        seconds = POLL_SECONDS_MAX if left is None else left - REQUEST_SECONDS / 2
    seconds = min(max(seconds, POLL_SECONDS_MIN), POLL_SECONDS_MAX)
    if left is None:
        return seconds
    if left < seconds and left < POLL_SECONDS_MIN:
        code = Code.ILLEGAL_POLLING_TIME if caller.version >= POLLING_VERSION else Code.BAD_REQUEST
        raise Refused(
            code, f"{left:.3f} s are left until the deadline, a receive needs {POLL_SECONDS_MIN:g} s"
        )
    return min(seconds, left - MARGIN_SECONDS)


async def _never() -> None:
    """Wait for ever: a call is cancelled when its client leaves."""
    await asyncio.get_running_loop().create_future()
