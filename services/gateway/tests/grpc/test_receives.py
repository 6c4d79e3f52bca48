"""ReceiveMessage: bounds, filters, the order of responses, and messages that reach nobody."""

from __future__ import annotations

import asyncio

import pytest
from gateway_grpc_consumers import Consumers, caller_of, handle_of, receive_request

from gateway.grpc.codes import Refused, code_of
from gateway.grpc.consuming.receive import read_request
from gateway.grpc.proto.enums import Code
from gateway.http.problems import Problem
from gateway.ports.stores import StoreRefused

pytestmark = pytest.mark.anyio
NOW = 50.0


def wanted(seconds: float | None = None, version: str = "5.1.2", namespace: str = "", **fields):
    caller = caller_of(version=version, namespace=namespace)
    deadline = None if seconds is None else NOW + seconds
    return read_request(
        caller._replace(info=caller.info._replace(deadline=deadline)), receive_request(**fields), NOW
    )


def refusal(seconds: float | None = None, version: str = "5.1.2", **fields) -> Code:
    try:
        wanted(seconds, version, **fields)
    except Refused as error:
        return error.code
    except Problem as error:
        return code_of(error)
    raise AssertionError("not refused")


async def test_the_status_comes_first_then_the_messages_then_the_time(consumers):
    await consumers.put("a", "bb")
    first, *found, last = await consumers.receive()
    assert first.status.code == Code.OK
    assert [one.message.body for one in found] == [b"a", b"bb"]
    assert last.delivery_timestamp.seconds == consumers.system.clocks.wall_ms() // 1000


async def test_messages_come_from_all_brokers_whatever_queue_is_named(pair):
    consumers = Consumers(pair)
    await consumers.put("a", queue_id=1)
    await consumers.put("b", queue_id=2, broker="broker-b")
    assert {one.body for one in await consumers.messages()} == {b"a", b"b"}


async def test_without_messages_a_held_call_ends_with_not_found_and_the_time(consumers):
    call = asyncio.ensure_future(consumers.receive())
    while not consumers.receiver.waiting:
        await asyncio.sleep(0)
    consumers.receiver.drain()
    status, time = await call
    assert status.status.code == Code.MESSAGE_NOT_FOUND
    assert time.WhichOneof("content") == "delivery_timestamp"


async def test_a_message_ends_a_held_call(consumers):
    call = asyncio.ensure_future(consumers.messages())
    while not consumers.receiver.waiting:
        await asyncio.sleep(0)
    await consumers.put("late")
    assert [one.body for one in await call] == [b"late"]


@pytest.mark.parametrize(
    ("asked_ms", "left", "waits"),
    [
        (None, None, 20.0),
        (20_000, None, 20.0),
        (1000, None, 5.0),
        (30_000, 33.0, 20.0),
        (1000, 10.0, 5.0),
        (20_000, 20.1, 19.9),
        (20_000, 15.0, 14.8),
        (10_000, 13.0, 10.0),
        (None, 13.0, 11.5),
        (None, 60.0, 20.0),
        (5000, 5.0, 4.8),
    ],
)
async def test_a_call_is_held_within_bounds_and_ends_before_its_deadline(asked_ms, left, waits):
    assert wanted(left, poll_ms=asked_ms).wait_seconds == pytest.approx(waits)


@pytest.mark.parametrize(
    ("version", "code"),
    [("5.0.3", Code.ILLEGAL_POLLING_TIME), ("5.0.2", Code.BAD_REQUEST), ("", Code.BAD_REQUEST)],
)
async def test_a_deadline_too_near_is_refused(version, code):
    assert refusal(4.9, version, poll_ms=2000) == code


@pytest.mark.parametrize("ms", [-1, 0, 9_999, 43_200_001])
async def test_a_lease_has_bounds(ms):
    assert refusal(invisible_ms=ms) == Code.ILLEGAL_INVISIBLE_TIME


@pytest.mark.parametrize(("ms", "renew", "lease_ms"), [(10_000, False, 10_000), (43_200_000, False, 43_200_000), (1, True, 60_000), (-1, True, 60_000)])  # fmt: skip
async def test_a_lease_that_is_renewed_begins_with_a_minute(ms, renew, lease_ms):
    assert wanted(invisible_ms=ms, renew=renew).ask.invisible_ms == lease_ms


@pytest.mark.parametrize(("asked", "count"), [(1, 1), (32, 32), (33, 32), (1000, 32)])
async def test_a_batch_has_at_most_32_messages(asked, count):
    assert wanted(batch=asked).ask.count_max == count


@pytest.mark.parametrize("count", [0, -1])
async def test_a_batch_without_messages_is_refused(count):
    assert refusal(batch=count) == Code.BAD_REQUEST


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": ""}, Code.ILLEGAL_TOPIC),
        ({"topic": "a b"}, Code.ILLEGAL_TOPIC),
        ({"topic": "GANTRY_SYS_ACKS"}, Code.ILLEGAL_TOPIC),
        ({"group": ""}, Code.ILLEGAL_CONSUMER_GROUP),
        ({"group": "CID_RMQ_SYS_x"}, Code.ILLEGAL_CONSUMER_GROUP),
        ({"tags": "||"}, Code.ILLEGAL_FILTER_EXPRESSION),
        ({"sql": "a >"}, Code.ILLEGAL_FILTER_EXPRESSION),
    ],
)
async def test_illegal_names_and_filters_are_refused(fields, code):
    assert refusal(**fields) == code


async def test_a_new_group_starts_at_the_latest_message_and_an_attempt_can_be_repeated():
    ask = wanted(attempt_id="try-1").ask
    assert (ask.start, ask.attempt_id) == ("latest", "try-1")
    assert not wanted().ask.attempt_id


async def test_names_carry_their_namespace():
    ask = wanted(namespace="shop").ask
    assert (ask.topic, ask.group) == ("shop%orders", "shop%g1")


@pytest.mark.parametrize(
    ("fields", "filter_"),
    [
        ({"tags": ""}, ("TAG", "*")),
        ({"tags": "*"}, ("TAG", "*")),
        ({"tags": "b || a"}, ("TAG", "a||b")),
        ({"sql": " a > 3 "}, ("SQL92", "a > 3")),
    ],
)
async def test_a_filter_is_given_to_the_stores_in_their_form(fields, filter_):
    ask = wanted(**fields).ask
    assert (ask.expression_type, ask.expression) == filter_


async def test_a_filter_takes_the_place_of_the_groups_only_where_it_differs(consumers):
    await consumers.put("a")
    assert await consumers.messages(tags="x")
    asks = consumers.store.asks
    assert not any(ask.is_filter_new for ask in asks)
    await consumers.put("bb")
    assert await consumers.messages(tags="y")
    assert consumers.store.filters["g1"] == ("TAG", "y")
    assert sum(ask.is_filter_new for ask in asks) == 1


async def test_filters_that_replace_each_other_without_end_are_refused(consumers):
    await consumers.put("a")
    receive = consumers.store._receive

    async def meddle(ask):
        if ask.count_max:
            consumers.store.filters["g1"] = ("TAG", "other")
        return await receive(ask)

    consumers.store._receive = meddle
    with pytest.raises(Refused) as refused:
        await consumers.receive(tags="x")
    assert refused.value.code == Code.ILLEGAL_FILTER_EXPRESSION


async def test_a_missing_topic_and_a_paused_group_have_codes_of_their_own(consumers):
    with pytest.raises(Problem) as missing:
        await consumers.receive(topic="missing")
    assert code_of(missing.value) == Code.TOPIC_NOT_FOUND
    consumers.system.stores["broker-a"].refuse = StoreRefused(16, "subscription group no permission")
    with pytest.raises(Refused) as paused:
        await consumers.receive()
    assert paused.value.code == Code.FORBIDDEN


async def test_a_rate_limit_refuses(system):
    class Limits:
        async def take(self, client: str, topic: str, count: int) -> int:
            assert client == "127.0.0.1"
            return 5

    with pytest.raises(Problem) as limited:
        await Consumers(system, Limits()).receive()
    assert code_of(limited.value) == Code.TOO_MANY_REQUESTS


@pytest.mark.parametrize("at", [0, 1, 2, 3])
async def test_messages_that_cannot_be_sent_are_given_back_at_once(consumers, at):
    await consumers.put("a", "bb")
    consumers.alive.add("push")
    sent: list[bytes] = []

    async def send(data: bytes) -> None:
        if len(sent) == at:
            raise ConnectionError
        sent.append(data)

    with pytest.raises(ConnectionError):
        await consumers.receives.receive(caller_of("push"), receive_request(renew=True), send)
    again = await consumers.messages()
    assert [one.body for one in again] == [b"a", b"bb"]
    assert len(consumers.store.released) == 2
    assert consumers.renewals.count == 0


async def test_messages_of_a_call_that_is_cancelled_while_it_sends_are_given_back(consumers):
    await consumers.put("a")
    blocked = asyncio.Event()

    async def send(_data: bytes) -> None:
        blocked.set()
        await asyncio.get_running_loop().create_future()

    call = asyncio.ensure_future(consumers.receives.receive(caller_of(), receive_request(), send))
    await blocked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await consumers.messages()


async def test_messages_of_a_call_that_is_cancelled_while_it_leases_are_given_back(consumers):
    await consumers.put("a")
    await consumers.messages()  # now the store knows the filter
    await consumers.put("bb")
    leased = len(consumers.store.leased)
    gate = consumers.store.gate = asyncio.Event()
    call = asyncio.ensure_future(consumers.receive())
    while len(consumers.store.leased) == leased:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    gate.set()
    assert [one.body for one in await consumers.messages()] == [b"bb"]


async def test_a_held_call_that_is_cancelled_leases_nothing(consumers):
    call = asyncio.ensure_future(consumers.receive())
    while not consumers.receiver.waiting:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await consumers.put("a")
    assert not consumers.receiver.waiting
    assert not consumers.store.leased


async def test_only_leases_of_known_clients_are_renewed_but_all_are_served(consumers):
    await consumers.put("a")
    assert await consumers.messages(caller_of("push"), renew=True)
    assert consumers.renewals.count == 0
    await consumers.put("bb")
    consumers.alive.add("push")
    (message,) = await consumers.messages(caller_of("push"), renew=True)
    assert consumers.renewals.holds("push", handle_of(message))
    await consumers.put("ccc")
    await consumers.messages(caller_of("push"))
    assert consumers.renewals.count == 1


async def test_delivered_messages_are_counted(consumers):
    await consumers.put("a", "bb")
    await consumers.messages()
    assert consumers.receives.messages == 2
