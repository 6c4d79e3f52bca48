"""The gRPC side of a gateway as it is assembled: every method is served, health and reflection beside them."""

from __future__ import annotations

import pytest
from gateway_grpc_peers import info_of
from gateway_guarded import SETTINGS, Access

from gateway.grpc.proto import METHODS, SERVICE
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.enums import ClientType, Code
from gateway.grpc.proto.routing import (
    HeartbeatRequest,
    HeartbeatResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    SyncLiteSubscriptionResponse,
)

pytestmark = pytest.mark.anyio
READY, NOT_READY = b"\x08\x01", b"\x08\x02"


def service_of(system, **settings):
    gateway = system.gateway(grpc_port=8081, **settings)
    assert gateway.grpc is not None
    return gateway.grpc


async def answer(service, method, request, response, **headers):
    call = service.methods.unary[f"/{SERVICE}/{method}"]
    result = call(info_of(**headers), request.SerializeToString())
    return response.FromString(result if isinstance(result, bytes) else await result)


def health(service):
    return service.methods.unary["/grpc.health.v1.Health/Check"](info_of(), b"")


async def test_every_method_is_served(system):
    service = service_of(system)
    served = service.methods.unary.keys() | service.methods.streaming.keys()
    assert {f"/{SERVICE}/{name}" for name in METHODS} <= served
    assert "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" in served
    streaming = {name for name, method in METHODS.items() if method.streams_responses}
    assert {f"/{SERVICE}/{name}" for name in streaming} <= service.methods.streaming.keys()


async def test_without_a_port_there_is_no_grpc(system):
    assert system.gateway(grpc_port=-1).grpc is None


async def test_a_route_over_the_whole_way(system):
    asked = QueryRouteRequest(topic=Resource(name="orders"))
    found = await answer(service_of(system), "QueryRoute", asked, QueryRouteResponse)
    assert found.status.code == Code.OK
    assert len(found.message_queues) == 4
    assert found.message_queues[0].broker.endpoints.addresses[0].port == 8081


async def test_lite_topics_are_refused(system):
    asked = METHODS["SyncLiteSubscription"].request()
    found = await answer(service_of(system), "SyncLiteSubscription", asked, SyncLiteSubscriptionResponse)
    assert found.status.code == Code.NOT_IMPLEMENTED


async def test_clients_leave_when_they_are_silent(system):
    service = service_of(system)
    asked = HeartbeatRequest(client_type=ClientType.PRODUCER)
    await answer(service, "Heartbeat", asked, HeartbeatResponse)
    assert service.clients.is_alive("c1")
    system.clocks.advance(121)
    service.sweep()
    assert len(service.clients) == 0


async def test_health_says_whether_the_port_is_ready(system):
    service = service_of(system)
    assert health(service) == NOT_READY
    service.sweep()
    assert health(service) == READY
    service.drain()
    assert health(service) == NOT_READY


async def test_users_and_rights_are_those_of_http(system):
    access = Access()
    header = access.user("alice", "Allow Pub Topic:orders")
    service = service_of(system, access_parts=access.parts, **SETTINGS)
    asked = QueryRouteRequest(topic=Resource(name="orders"))
    codes = [
        (await answer(service, "QueryRoute", asked, QueryRouteResponse, **headers)).status.code
        for headers in ({}, {"authorization": header})
    ]
    assert codes == [Code.UNAUTHORIZED, Code.OK]


async def test_the_token_is_the_one_of_http(system):
    service = service_of(system, token="word")
    asked = QueryRouteRequest(topic=Resource(name="orders"))
    codes = [
        (await answer(service, "QueryRoute", asked, QueryRouteResponse, **headers)).status.code
        for headers in ({}, {"authorization": "Bearer word"})
    ]
    assert codes == [Code.UNAUTHORIZED, Code.OK]
