"""PullMessage, UpdateOffset, GetOffset and QueryOffset: consumers that count offsets of single queues themselves."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from gantry_wire.limits import PULL_MESSAGES_MAX
from gantry_wire.subscription import EVERYTHING
from gateway.admin.groups import GroupAdmin, OffsetChange
from gateway.grpc.calls import Caller
from gateway.grpc.codes import Refused, code_of, status
from gateway.grpc.consuming.receive import MARGIN_SECONDS, POLL_SECONDS_MAX, Send
from gateway.grpc.messages.checked_names import group_of, topic_of
from gateway.grpc.messages.sent import TIME_MS_MAX
from gateway.grpc.proto.common import FilterExpression, MessageQueue, Status
from gateway.grpc.proto.duration import duration_ms
from gateway.grpc.proto.enums import Code, FilterType, QueryOffsetPolicy
from gateway.grpc.proto.pulling import (
    GetOffsetRequest,
    GetOffsetResponse,
    PullMessageRequest,
    PullMessageResponse,
    QueryOffsetRequest,
    QueryOffsetResponse,
    UpdateOffsetRequest,
    UpdateOffsetResponse,
)
from gateway.grpc.proto.timestamp import timestamp_ms
from gateway.http.problems import Problem, broker_away, broker_missing, rate_limited, refused, unanswered
from gateway.messages.sql_filters import checked_sql
from gateway.ports.stores import PeerAway, RateLimits, Store, StoreRefused, Stores
from gateway.pull.pulling import Found, Puller, Selection
from gateway.pull.routes import tags_of
from gateway.routing.route_cache import RouteCache

_CODES: Final = {
    "FOUND": Code.OK,
    "NO_NEW_MSG": Code.MESSAGE_NOT_FOUND,
    "NO_MATCHED_MSG": Code.MESSAGE_NOT_FOUND,
    "OFFSET_ILLEGAL": Code.ILLEGAL_OFFSET,
}


class Queue(NamedTuple):
    """One queue of one broker."""

    topic: str
    broker: str
    id: int


class _Present:
    """The client of a pull whose call is cancelled when it leaves."""

    is_lost = False

    def when_lost(self, call: Callable[[], object] | None) -> None:
        """Ignore the callback: the cancellation ends a held pull."""


class Pulls:
    """Answers the calls of consumers that pull."""

    def __init__(
        self,
        puller: Puller[bytes],
        routes: RouteCache,
        stores: Stores,
        groups: GroupAdmin,
        limits: RateLimits | None,
    ) -> None:
        """`puller` formats each message as one serialized PullMessageResponse."""
        self._puller, self._routes, self._stores = puller, routes, stores
        self._groups, self._limits = groups, limits
        self.messages = 0
        """How many messages were returned."""

    async def pull(self, caller: Caller, request: PullMessageRequest, send: Send) -> None:
        """Send a status, the messages, and the offset to continue at. Raises Problem and Refused."""
        found = await self._found(caller, request)
        answer = status(_CODES[found.status], "" if found.messages else found.status)
        await send(PullMessageResponse(status=answer).SerializeToString())
        for part in found.messages:
            await send(part)
        await send(PullMessageResponse(next_offset=found.next_offset).SerializeToString())
        self.messages += len(found.messages)

    async def update_offset(self, caller: Caller, request: UpdateOffsetRequest) -> UpdateOffsetResponse:
        """Set a group's offset in a queue, durably. Raises Problem and Refused."""
        group, queue = group_of(request.group, caller.namespace), _queue(caller, request.message_queue)
        await self._take(caller)
        try:
            await self._groups.set_offsets(group, [OffsetChange(*queue, request.offset)])
        except Problem as problem:
            code = Code.ILLEGAL_OFFSET if problem.field.endswith(".offset") else code_of(problem)
            raise Refused(code, problem.detail) from problem
        return UpdateOffsetResponse(status=_OK)

    async def get_offset(self, caller: Caller, request: GetOffsetRequest) -> GetOffsetResponse:
        """Return a group's offset in a queue. Raises Problem and Refused."""
        group, queue = group_of(request.group, caller.namespace), _queue(caller, request.message_queue)
        await self._take(caller)
        store = await self._store(queue)
        try:
            progress = await store.progress(group, queue.topic)
            offset = next((one.offset for one in progress if one.queue_id == queue.id), -1)
            if not offset:  # a store says 0 of every topic in which the group has none
                its_own = await store.progress(group, "")
                offset = 0 if any(one.topic == queue.topic for one in its_own) else -1
        except (StoreRefused, PeerAway) as error:
            raise _problem(error) from error
        if offset < 0:
            detail = (
                f"group {group} has no offset in queue {queue.id} of topic {queue.topic} at {queue.broker}"
            )
            raise Refused(Code.OFFSET_NOT_FOUND, detail)
        return GetOffsetResponse(status=_OK, offset=offset)

    async def query_offset(self, caller: Caller, request: QueryOffsetRequest) -> QueryOffsetResponse:
        """Return the first offset of a queue, the one behind its last, or the first at a time. Raises Problem and Refused."""
        queue, policy = _queue(caller, request.message_queue), request.query_offset_policy
        if policy not in set(QueryOffsetPolicy):
            raise Refused(Code.BAD_REQUEST, f"query_offset_policy {policy} does not exist")
        if policy == QueryOffsetPolicy.TIMESTAMP and not request.HasField("timestamp"):
            raise Refused(Code.BAD_REQUEST, "query_offset_policy TIMESTAMP needs a timestamp")
        await self._take(caller)
        store = await self._store(queue)
        try:
            bounds = {one.queue_id: one for one in await store.queue_bounds(queue.topic)}.get(queue.id)
            if bounds is None:
                raise Refused(
                    Code.BAD_REQUEST, f"topic {queue.topic} has no queue {queue.id} at {queue.broker}"
                )
            if policy == QueryOffsetPolicy.TIMESTAMP:
                time_ms = min(max(timestamp_ms(request.timestamp), 0), TIME_MS_MAX)  # requests hold no others
                offset = await store.offset_at(queue.topic, queue.id, time_ms)
            else:
                is_end = policy == QueryOffsetPolicy.END
                offset = bounds.max_offset if is_end else bounds.min_offset
        except (StoreRefused, PeerAway) as error:
            raise _problem(error) from error
        return QueryOffsetResponse(status=_OK, offset=offset)

    async def _found(self, caller: Caller, request: PullMessageRequest) -> Found[bytes]:
        group_of(request.group, caller.namespace)
        queue, selection = _queue(caller, request.message_queue), _selection(request.filter_expression)
        if request.offset < 0:
            raise Refused(Code.ILLEGAL_OFFSET, f"offset is {request.offset}, it is 0 at least")
        if request.batch_size < 1:
            raise Refused(Code.BAD_REQUEST, f"batch_size is {request.batch_size}, it is 1 at least")
        await self._take(caller)
        return await self._puller.pull(
            *queue,
            request.offset,
            count_max=min(request.batch_size, PULL_MESSAGES_MAX),
            wait_ms=_wait_ms(caller, request),
            selection=selection,
            client=_Present(),
        )

    async def _store(self, queue: Queue) -> Store:
        route = self._routes.fresh(queue.topic) or await self._routes.get(queue.topic)
        address = route.addresses.get(queue.broker)
        if address is None:
            raise (
                broker_missing(queue.broker)
                if route.share(queue.broker) is None
                else broker_away(queue.broker)
            )
        return self._stores.at(queue.broker, address)

    async def _take(self, caller: Caller) -> None:
        """Take from the rate limit of the client's host. Raises Problem."""
        if self._limits is not None:
            wait_ms = await self._limits.take(caller.address, "", 1)
            if wait_ms:
                raise rate_limited(wait_ms)


_OK: Final[Status] = status(Code.OK)


def _queue(caller: Caller, queue: MessageQueue) -> Queue:
    """Return the queue that a request names. Raises Refused."""
    topic = topic_of(queue.topic, caller.namespace)
    if not queue.broker.name:
        raise Refused(Code.BAD_REQUEST, "message_queue.broker.name is missing")
    if queue.id < 0:
        raise Refused(Code.BAD_REQUEST, f"message_queue.id is {queue.id}, it is 0 at least")
    return Queue(topic, queue.broker.name, queue.id)


def _selection(filter_: FilterExpression) -> Selection:
    """Return what a request selects. Raises Problem."""
    if filter_.type == FilterType.SQL:
        return Selection(EVERYTHING, checked_sql(filter_.expression.strip(), "filter").expression)
    return Selection(tags_of(filter_.expression))


def _wait_ms(caller: Caller, request: PullMessageRequest) -> int:
    """Return how long to hold a pull: as long as the client wants, up to a limit and to its deadline."""
    seconds = min(duration_ms(request.long_polling_timeout) / 1000, POLL_SECONDS_MAX)
    deadline = caller.info.deadline
    if deadline is not None:
        seconds = min(seconds, deadline - MARGIN_SECONDS - asyncio.get_running_loop().time())
    return max(0, int(seconds * 1000))


def _problem(error: StoreRefused | PeerAway) -> Problem:
    return refused(error) if isinstance(error, StoreRefused) else unanswered(error, is_write=False)
