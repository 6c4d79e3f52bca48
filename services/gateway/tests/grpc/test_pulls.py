"""PullMessage and the calls about offsets."""

from __future__ import annotations

import asyncio

import pytest
from gateway_grpc_consumers import caller_of

from gateway.admin.groups import GroupAdmin
from gateway.grpc.codes import Refused, code_of
from gateway.grpc.consuming.lite import sync_lite_subscription
from gateway.grpc.consuming.pulls import Pulls
from gateway.grpc.messages.pulled import pulled
from gateway.grpc.proto.common import FilterExpression, MessageQueue, Resource
from gateway.grpc.proto.duration import duration
from gateway.grpc.proto.enums import Code, FilterType, QueryOffsetPolicy
from gateway.grpc.proto.pulling import (
    GetOffsetRequest,
    PullMessageRequest,
    PullMessageResponse,
    QueryOffsetRequest,
    UpdateOffsetRequest,
)
from gateway.grpc.proto.routing import SyncLiteSubscriptionRequest
from gateway.grpc.proto.timestamp import timestamp
from gateway.http.problems import Problem
from gateway.pull.pulling import Puller

pytestmark = pytest.mark.anyio
G1 = Resource(name="g1")


class Pulling:
    """The calls over one broker."""

    def __init__(self, system) -> None:
        self.system, gateway = system, system.gateway()
        routes, now = gateway.routes, system.clocks.monotonic
        self.puller = Puller(routes, system, gateway.known, pulled, now)
        groups = GroupAdmin(gateway.fleet, routes, system, system.clocks.wall_ms)
        self.pulls = Pulls(self.puller, routes, system, groups, None)

    async def put(self, *bodies: str, tag: str = "a") -> None:
        for body in bodies:
            properties = f"UNIQ_KEY\x01{len(body):032X}\x02TAGS\x01{tag}\x02"
            await self.system.stores["broker-a"].put("orders", 1, body.encode(), properties)

    async def pull(self, offset: int = 0, *, batch: int = 32, wait_ms: int = 0, filter_=None, **place):
        sent: list[PullMessageResponse] = []

        async def send(data: bytes) -> None:
            sent.append(PullMessageResponse.FromString(data))

        request = PullMessageRequest(
            group=G1,
            message_queue=queue(**place),
            offset=offset,
            batch_size=batch,
            long_polling_timeout=duration(wait_ms),
        )
        if filter_ is not None:
            request.filter_expression.CopyFrom(FilterExpression(type=filter_[0], expression=filter_[1]))
        await self.pulls.pull(caller_of(), request, send)
        return sent


@pytest.fixture
def pulling(system) -> Pulling:
    return Pulling(system)


def queue(topic: str = "orders", broker: str = "broker-a", queue_id: int = 1) -> MessageQueue:
    one = MessageQueue(topic=Resource(name=topic), id=queue_id)
    one.broker.name = broker
    return one


def bodies(responses) -> list[bytes]:
    return [one.message.body for one in responses[1:-1]]


async def code_from(call) -> int:
    try:
        return (await call).status.code
    except Refused as error:
        return error.code
    except Problem as error:
        return code_of(error)


async def test_a_pull_sends_the_status_the_messages_and_the_next_offset(pulling):
    await pulling.put("a", "bb", "ccc")
    first, *found, last = await pulling.pull(1)
    assert first.status.code == Code.OK
    assert [one.message.body for one in found] == [b"bb", b"ccc"]
    assert last.next_offset == 3
    system = found[0].message.system_properties
    assert (system.queue_id, system.queue_offset, system.HasField("receipt_handle")) == (1, 1, False)
    assert found[0].message.topic.name == "orders"
    assert bodies(await pulling.pull(0, batch=2)) == [b"a", b"bb"]


async def test_filters_select(pulling):
    await pulling.put("a", tag="x")
    await pulling.put("bb", tag="y")
    assert bodies(await pulling.pull(filter_=(FilterType.TAG, "y || z"))) == [b"bb"]
    assert bodies(await pulling.pull(filter_=(FilterType.TAG, "*"))) == [b"a", b"bb"]
    with pytest.raises(Problem) as refused:
        await pulling.pull(filter_=(FilterType.SQL, "a >"))
    assert code_of(refused.value) == Code.ILLEGAL_FILTER_EXPRESSION


async def test_a_pull_without_messages_says_where_to_continue(pulling):
    await pulling.put("a")
    status, last = await pulling.pull(1)
    assert (status.status.code, last.next_offset) == (Code.MESSAGE_NOT_FOUND, 1)
    status, last = await pulling.pull(7)
    assert (status.status.code, last.next_offset) == (Code.ILLEGAL_OFFSET, 1)


async def test_a_held_pull_is_answered_by_a_drain_and_ends_with_its_call(pulling):
    call = asyncio.ensure_future(pulling.pull(wait_ms=20_000))
    while not pulling.puller.held_count:
        await asyncio.sleep(0)
    pulling.puller.drain()
    status, _last = await call
    assert status.status.code == Code.MESSAGE_NOT_FOUND


async def test_a_cancelled_pull_is_held_no_longer(pulling):
    call = asyncio.ensure_future(pulling.pull(wait_ms=20_000))
    while not pulling.puller.held_count:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not pulling.puller.held_count


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"offset": -1}, Code.ILLEGAL_OFFSET),
        ({"batch": 0}, Code.BAD_REQUEST),
        ({"topic": ""}, Code.ILLEGAL_TOPIC),
        ({"topic": "missing"}, Code.TOPIC_NOT_FOUND),
        ({"broker": ""}, Code.BAD_REQUEST),
        ({"broker": "broker-z"}, Code.BAD_REQUEST),
        ({"queue_id": -1}, Code.BAD_REQUEST),
    ],
)
async def test_a_pull_may_be_refused(pulling, fields, code):
    with pytest.raises((Refused, Problem)) as refused:
        await pulling.pull(**fields)
    error = refused.value
    assert (error.code if isinstance(error, Refused) else code_of(error)) == code


async def test_a_groups_offset_is_set_and_read(pulling):
    await pulling.put("a", "bb")
    get = GetOffsetRequest(group=G1, message_queue=queue())
    update = UpdateOffsetRequest(group=G1, message_queue=queue(), offset=1)
    assert (await pulling.pulls.update_offset(caller_of(), update)).status.code == Code.OK
    response = await pulling.pulls.get_offset(caller_of(), get)
    assert (response.status.code, response.offset) == (Code.OK, 1)
    update.offset = 3
    assert await code_from(pulling.pulls.update_offset(caller_of(), update)) == Code.ILLEGAL_OFFSET
    update.group.name = "missing"
    assert await code_from(pulling.pulls.update_offset(caller_of(), update)) == Code.CONSUMER_GROUP_NOT_FOUND
    update.message_queue.id = 9
    update.group.name = "g1"
    assert await code_from(pulling.pulls.update_offset(caller_of(), update)) == Code.BAD_REQUEST


async def test_a_group_without_an_offset_has_none(pulling):
    request = GetOffsetRequest(group=G1, message_queue=queue())
    assert await code_from(pulling.pulls.get_offset(caller_of(), request)) == Code.OFFSET_NOT_FOUND
    pulling.system.stores["broker-a"].offsets["g1", "orders", 0] = 0
    assert (await pulling.pulls.get_offset(caller_of(), request)).offset == 0
    request.message_queue.id = 9
    assert await code_from(pulling.pulls.get_offset(caller_of(), request)) == Code.OFFSET_NOT_FOUND
    request.message_queue.broker.name = "broker-z"
    assert await code_from(pulling.pulls.get_offset(caller_of(), request)) == Code.BAD_REQUEST
    request.message_queue.topic.name = "missing"
    assert await code_from(pulling.pulls.get_offset(caller_of(), request)) == Code.TOPIC_NOT_FOUND


async def test_offsets_are_found_by_place_and_by_time(pulling):
    await pulling.put("a")
    pulling.system.clocks.advance(10)
    await pulling.put("bb")
    pulling.system.stores["broker-a"].min_offsets["orders", 1] = 1

    async def ask(policy: int, ms: int | None = None) -> int:
        request = QueryOffsetRequest(message_queue=queue(), query_offset_policy=policy)
        if ms is not None:
            request.timestamp.CopyFrom(timestamp(ms))
        return (await pulling.pulls.query_offset(caller_of(), request)).offset

    now = pulling.system.clocks.wall_ms()
    assert await ask(QueryOffsetPolicy.BEGINNING) == 1
    assert await ask(QueryOffsetPolicy.END) == 2
    assert await ask(QueryOffsetPolicy.TIMESTAMP, now - 5) == 1
    assert await ask(QueryOffsetPolicy.TIMESTAMP, -(1 << 62)) == 0
    assert await ask(QueryOffsetPolicy.TIMESTAMP, 1 << 62) == 2
    assert await ask(QueryOffsetPolicy.TIMESTAMP, now + 5) == 2


@pytest.mark.parametrize(
    ("policy", "queue_id"), [(3, 1), (QueryOffsetPolicy.TIMESTAMP, 1), (QueryOffsetPolicy.END, 9)]
)
async def test_questions_that_make_no_sense_are_refused(pulling, policy, queue_id):
    request = QueryOffsetRequest(message_queue=queue(queue_id=queue_id), query_offset_policy=policy)
    assert await code_from(pulling.pulls.query_offset(caller_of(), request)) == Code.BAD_REQUEST


async def test_lite_topics_are_refused(pulling):
    response = await sync_lite_subscription(caller_of(), SyncLiteSubscriptionRequest())
    assert response.status.code == Code.NOT_IMPLEMENTED
