"""Routes and the life of clients, over in-memory stores."""

from __future__ import annotations

import pytest
from gateway_grpc_peers import Steady, caller

from gateway.grpc.calls import Refused
from gateway.grpc.clients import Clients
from gateway.grpc.messages.accepted_types import shown_types
from gateway.grpc.proto.common import Address, Endpoints, Resource
from gateway.grpc.proto.enums import AddressScheme, ClientType, Code, MessageType, Permission
from gateway.grpc.proto.routing import (
    HeartbeatRequest,
    NotifyClientTerminationRequest,
    QueryAssignmentRequest,
    QueryRouteRequest,
)
from gateway.grpc.routing.endpoints import OwnEndpoints
from gateway.grpc.routing.routes import ClientLife, RouteAnswers
from gateway.http.problems import Problem
from gateway.ports.stores import TopicSettings
from gateway.routing.brokers import KnownBrokers
from gateway.routing.leaders import Leaders
from gateway.routing.route_cache import RouteCache
from gateway.routing.topic_types import TopicTypes

pytestmark = pytest.mark.anyio
ASKED = QueryRouteRequest(
    topic=Resource(name="orders"),
    endpoints=Endpoints(scheme=AddressScheme.IPv4, addresses=[Address(host="192.0.2.1", port=18081)]),
)


def answers_of(system, *, advertise="", ensure=None):
    leaders = Leaders(system, system.leave)
    routes = RouteCache(system, KnownBrokers(600.0), leaders, system.clocks.monotonic)
    return RouteAnswers(routes, TopicTypes(routes, system), OwnEndpoints(advertise, 8081), ensure)


async def test_every_queue_of_every_broker_is_in_the_route(pair):
    answer = await answers_of(pair).route(caller(), ASKED)
    assert answer.status.code == Code.OK
    found = {(queue.broker.name, queue.id) for queue in answer.message_queues}
    assert found == {(broker, n) for broker in ("broker-a", "broker-b") for n in range(4)}
    for queue in answer.message_queues:
        assert queue.broker.id == 0
        assert queue.permission == Permission.READ_WRITE
        assert queue.topic.name == "orders"
        assert set(queue.accept_message_types) == {1, 2, 3, 4, 5, 6}
        address = queue.broker.endpoints.addresses[0]
        assert (address.host, address.port) == ("192.0.2.1", 18081)
        assert queue.broker.endpoints.scheme == AddressScheme.IPv4


@pytest.mark.parametrize(
    ("reads", "writes", "perm", "expected"),
    [
        (3, 2, 6, [Permission.READ_WRITE, Permission.READ_WRITE, Permission.READ]),
        (1, 2, 6, [Permission.READ_WRITE, Permission.WRITE]),
        (2, 2, 4, [Permission.READ, Permission.READ]),
        (2, 2, 0, [Permission.NONE, Permission.NONE]),
    ],
)
async def test_queue_0_may_be_used_if_any_may(system, reads, writes, perm, expected):
    store = system.stores["broker-a"]
    store.kept_topics["orders"] = TopicSettings("orders", reads, writes, perm)
    answer = await answers_of(system).route(caller(), ASKED)
    assert [queue.permission for queue in answer.message_queues] == expected
    assert [queue.id for queue in answer.message_queues] == list(range(len(expected)))


async def test_the_topic_decides_about_types(system):
    system.stores["broker-a"].kept_topics["orders"] = TopicSettings("orders", 4, 4, 6, "FIFO")
    answer = await answers_of(system).route(caller(), ASKED)
    assert list(answer.message_queues[0].accept_message_types) == [MessageType.FIFO]


@pytest.mark.parametrize("name", ["", "a b", "GANTRY_SYS_TASKS"])
async def test_illegal_names_and_names_of_the_system_are_refused(system, name):
    with pytest.raises(Refused) as refused:
        await answers_of(system).route(caller(), QueryRouteRequest(topic=Resource(name=name)))
    assert refused.value.code == Code.ILLEGAL_TOPIC


async def test_a_missing_topic_is_created_where_the_setting_says_so(system):
    made = []

    async def ensure(topic):
        made.append(topic)
        system.add_topic(topic)

    asked = QueryRouteRequest(topic=Resource(name="new"))
    with pytest.raises(Problem) as problem:
        await answers_of(system).route(caller(), asked)
    assert problem.value.code == "TOPIC_NOT_EXIST"
    answer = await answers_of(system, ensure=ensure).route(caller(x_mq_namespace="shop"), asked)
    assert answer.message_queues
    assert made == ["shop%new"]


async def test_consumers_get_one_assignment_per_broker(pair):
    asked = QueryAssignmentRequest(
        topic=Resource(name="orders"), group=Resource(name="g1"), endpoints=ASKED.endpoints
    )
    answer = await answers_of(pair).assignment(caller(), asked)
    queues = [one.message_queue for one in answer.assignments]
    assert [(queue.broker.name, queue.id) for queue in queues] == [("broker-a", -1), ("broker-b", -1)]
    assert all(queue.broker.endpoints.addresses[0].port == 18081 for queue in queues)


async def test_a_topic_that_may_not_be_read_has_no_assignment(system):
    system.stores["broker-a"].kept_topics["orders"] = TopicSettings("orders", 2, 2, 2)
    asked = QueryAssignmentRequest(topic=Resource(name="orders"), group=Resource(name="g1"))
    with pytest.raises(Refused) as refused:
        await answers_of(system).assignment(caller(), asked)
    assert refused.value.code == Code.FORBIDDEN


def endpoints(*addresses, scheme=0):
    return Endpoints(scheme=scheme, addresses=[Address(host=host, port=port) for host, port in addresses])


@pytest.mark.parametrize(
    ("asked", "authority", "advertise", "expected"),
    [
        (endpoints(("10.0.0.1", 80)), "", "", (AddressScheme.IPv4, [("10.0.0.1", 80)])),
        (endpoints(("10.0.0.1", 0)), "", "", (AddressScheme.IPv4, [("10.0.0.1", 8081)])),
        (endpoints(("::1", 5)), "", "", (AddressScheme.IPv6, [("::1", 5)])),
        (endpoints(("a", 1), ("b", 2)), "", "", (AddressScheme.DOMAIN_NAME, [("a", 1)])),
        (endpoints(("10.0.0.1", 1), ("10.0.0.2", 2)), "", "", (AddressScheme.IPv4, [("10.0.0.1", 1), ("10.0.0.2", 2)])),
        (endpoints(), "gw.example:99", "", (AddressScheme.DOMAIN_NAME, [("gw.example", 99)])),
        (endpoints(), "[::1]:99", "", (AddressScheme.IPv6, [("::1", 99)])),
        (endpoints(), "", "", (AddressScheme.IPv4, [("127.0.0.1", 8081)])),
        (endpoints(("10.0.0.1", 80)), "", "mq.example:443", (AddressScheme.DOMAIN_NAME, [("mq.example", 443)])),
    ],
)  # fmt: skip
def test_clients_are_sent_back_the_way_they_came(asked, authority, advertise, expected):
    info = caller(**({":authority": authority} if authority else {})).info
    found = OwnEndpoints(advertise, 8081).of(asked, info)
    assert (found.scheme, [(one.host, one.port) for one in found.addresses]) == expected


@pytest.mark.parametrize(
    ("kind", "language", "version", "expected"),
    [
        ("", "PYTHON", "5.1.2", [1, 2, 3, 4, 5, 6]),
        ("MIXED", "", "", [1, 2, 3, 4, 5, 6]),
        ("", "JAVA", "5.0.8", [1, 2, 3, 4]),
        ("", "JAVA", "5.1.0", [1, 2, 3, 4, 5]),
        ("", "JAVA", "5.2.0-SNAPSHOT", [1, 2, 3, 4, 5, 6]),
        ("", "DOTNET", "5.2.0", [1, 2, 3, 4]),
        ("PRIORITY", "JAVA", "5.0.8", [1]),
        ("DELAY", "JAVA", "5.0.8", [3]),
    ],
)
def test_a_client_gets_the_types_that_it_can_read(kind, language, version, expected):
    assert shown_types(kind, language, version) == expected


async def test_a_heartbeat_describes_a_client_and_a_termination_forgets_it():
    clients = Clients(Steady())
    life = ClientLife(clients)
    clients.seen("c1", "PYTHON", "")
    asked = HeartbeatRequest(group=Resource(name="g1"), client_type=ClientType.SIMPLE_CONSUMER)
    assert life.heartbeat(caller(x_mq_namespace="shop"), asked).status.code == Code.OK
    client = clients.get("c1")
    assert client is not None
    assert (client.group, client.kind) == ("shop%g1", ClientType.SIMPLE_CONSUMER)
    for _ in range(2):
        answer = life.terminate(caller(), NotifyClientTerminationRequest())
        assert answer.status.code == Code.OK
    assert clients.get("c1") is None
