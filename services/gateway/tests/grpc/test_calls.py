"""From the bytes of a call to its handler and back: clients always get a status in the response."""

from __future__ import annotations

import asyncio

import pytest
from gateway_grpc_peers import info_of

from gantry_chassis.metrics import Metrics
from gateway.grpc.calls import Calls, Refused, caller_of
from gateway.grpc.clients import Clients
from gateway.grpc.codes import status
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.enums import Code
from gateway.grpc.proto.receiving import (
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
)
from gateway.grpc.proto.routing import QueryRouteRequest, QueryRouteResponse
from gateway.http.metrics import CallCounts
from gateway.http.problems import topic_missing

pytestmark = pytest.mark.anyio
ASKED = QueryRouteRequest(topic=Resource(name="orders")).SerializeToString()


class NotedCounts(CallCounts):
    def __init__(self):
        super().__init__(Metrics(), lambda: 0.0, "gateway_grpc_call", "gRPC", ("method", "code"))
        self.counted = []

    def count(self, name, result, seconds):
        super().count(name, result, seconds)
        self.counted.append((name, result))


class OneToken:
    """Rate limits with one token for each client."""

    def __init__(self):
        self.taken = set()

    async def take(self, client, topic, count):
        if client in self.taken:
            return 250
        self.taken.add(client)
        return 0


def calls_of(
    counts=None, *, admit=lambda method, caller, request: "", moment=None, limits=None, clients=None
):
    return Calls(
        admit,
        moment or (lambda: None),
        clients if clients is not None else Clients(lambda: 0.0),
        limits,
        counts or NotedCounts(),
    )


async def response_of(call, data=ASKED, response=QueryRouteResponse, **headers):
    result = call(info_of(**headers), data)
    return response.FromString(result if isinstance(result, bytes) else await result)


def test_the_metadata_names_the_client():
    caller = caller_of(
        info_of("a@1", x_mq_language="PYTHON", x_mq_client_version="5.1.2", x_mq_namespace="shop")
    )
    assert caller[:4] == ("a@1", "PYTHON", "5.1.2", "shop")
    assert caller.address == "10.0.0.7"
    assert caller_of(info_of("a", peer="[::1]:80")).address == "::1"


async def test_a_client_without_an_id_is_refused():
    counts = NotedCounts()
    call = calls_of(counts).unary("QueryRoute", lambda caller, request: QueryRouteResponse())
    answer = await response_of(call, client_id=" ")
    assert answer.status.code == Code.CLIENT_ID_REQUIRED
    assert counts.counted == [("QueryRoute", Code.CLIENT_ID_REQUIRED)]


@pytest.mark.parametrize("way", ["value", "coroutine", "future", "done"])
async def test_a_handler_may_answer_at_once_or_later(way):
    clients = Clients(lambda: 7.0)

    async def later(caller, request):
        await asyncio.sleep(0)
        return answer(caller, request)

    def answer(caller, request):
        return QueryRouteResponse(status=status(Code.OK, f"{caller.client_id} {request.topic.name}"))

    def as_future(caller, request):
        future = asyncio.get_running_loop().create_future()
        response = answer(caller, request)
        if way == "done":
            future.set_result(response)
        else:
            asyncio.get_running_loop().call_soon(future.set_result, response)
        return future

    handler = {"value": answer, "coroutine": later}.get(way, as_future)
    found = await response_of(calls_of(clients=clients).unary("QueryRoute", handler))
    assert (found.status.code, found.status.message) == (Code.OK, "c1 orders")
    assert clients.is_alive("c1")


@pytest.mark.parametrize("way", ["value", "coroutine", "future"])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (topic_missing("orders"), Code.TOPIC_NOT_FOUND),
        (Refused(Code.ILLEGAL_MESSAGE_KEY, "no"), Code.ILLEGAL_MESSAGE_KEY),
        (KeyError("bug"), Code.INTERNAL_SERVER_ERROR),
    ],
)
async def test_an_error_is_the_status_of_the_response(way, error, code):
    def fail(caller, request):
        raise error

    async def later(caller, request):
        raise error

    def as_future(caller, request):
        future = asyncio.get_running_loop().create_future()
        future.set_exception(error)
        return future

    handler = {"value": fail, "coroutine": later, "future": as_future}[way]
    answer = await response_of(calls_of().unary("QueryRoute", handler))
    assert answer.status.code == code
    assert "bug" not in answer.status.message


async def test_bytes_that_are_no_request_are_refused():
    answer = await response_of(calls_of().unary("QueryRoute", lambda caller, request: None), b"\xff\xff")
    assert answer.status.code == Code.BAD_REQUEST


async def test_a_refused_change_returns_the_handle():
    def fail(caller, request):
        raise Refused(Code.INVALID_RECEIPT_HANDLE, "gone")

    asked = ChangeInvisibleDurationRequest(receipt_handle="h1").SerializeToString()
    call = calls_of().unary("ChangeInvisibleDuration", fail)
    answer = await response_of(call, asked, ChangeInvisibleDurationResponse)
    assert (answer.status.code, answer.receipt_handle) == (Code.INVALID_RECEIPT_HANDLE, "h1")


async def test_a_call_over_the_limit_of_its_client_is_refused():
    call = calls_of(limits=OneToken()).unary(
        "QueryRoute", lambda caller, request: QueryRouteResponse(status=status(Code.OK))
    )
    codes = [(await response_of(call)).status.code for _ in range(2)]
    assert codes == [Code.OK, Code.TOO_MANY_REQUESTS]


async def test_cancelling_a_call_cancels_the_future_of_its_handler():
    future = asyncio.get_running_loop().create_future()
    answered = calls_of().unary("QueryRoute", lambda caller, request: future)(info_of(), ASKED)
    answered.cancel()
    await asyncio.sleep(0)
    assert future.cancelled()


async def test_who_is_not_admitted_reaches_no_handler():
    def admit(method, caller, request):
        raise Refused(Code.UNAUTHORIZED, f"{method} {request.topic.name}")

    call = calls_of(admit=admit).unary("QueryRoute", lambda caller, request: pytest.fail("reached"))
    answer = await response_of(call)
    assert (answer.status.code, answer.status.message) == (Code.UNAUTHORIZED, "QueryRoute orders")


class OneRequest:
    def __init__(self, data):
        self.info, self._data, self.sent = info_of(), data, []

    async def receive(self):
        return self._data

    async def send(self, message):
        self.sent.append(message)


async def test_a_failed_stream_ends_with_its_status_and_what_closes_it():
    async def fail(caller, request, send):
        await send(ReceiveMessageResponse(status=status(Code.OK)).SerializeToString())
        raise topic_missing("orders")

    closing = [ReceiveMessageResponse(delivery_timestamp={"seconds": 5}).SerializeToString()]
    stream = OneRequest(ReceiveMessageRequest().SerializeToString())
    counts = NotedCounts()
    await calls_of(counts).streaming("ReceiveMessage", fail, lambda: closing)(stream)
    _first, refusal, last = map(ReceiveMessageResponse.FromString, stream.sent)
    assert refusal.status.code == Code.TOPIC_NOT_FOUND
    assert last.delivery_timestamp.seconds == 5
    assert counts.counted == [("ReceiveMessage", Code.TOPIC_NOT_FOUND)]


async def test_a_stream_is_admitted_again_once_rights_have_changed():
    moments, admitted = [1], []

    def admit(method, caller, request):
        admitted.append(moments[0])
        if moments[0] == 3:
            raise Refused(Code.FORBIDDEN, "no longer")

    async def hold(caller, request, send):
        for moment in (1, 2, 2, 3):
            moments[0] = moment
            await send(b"")

    stream = OneRequest(ReceiveMessageRequest().SerializeToString())
    await calls_of(admit=admit, moment=lambda: moments[0]).streaming("ReceiveMessage", hold, list)(stream)
    assert admitted == [1, 2, 3]
    *given, refusal = map(ReceiveMessageResponse.FromString, stream.sent)
    assert (len(given), refusal.status.code) == (3, Code.FORBIDDEN)


@pytest.mark.parametrize(
    ("client_id", "data", "code"),
    [("c" * 256, ASKED, Code.BAD_REQUEST), ("c1", b"\x0a\x00" * 300_000, Code.PAYLOAD_TOO_LARGE)],
)
async def test_what_would_hold_much_memory_is_refused(client_id, data, code):
    clients = Clients(lambda: 0.0)
    call = calls_of(clients=clients).unary("QueryRoute", lambda caller, request: pytest.fail("reached"))
    result = call(info_of(client_id), data)
    assert QueryRouteResponse.FromString(result).status.code == code
    assert len(clients) == 0
