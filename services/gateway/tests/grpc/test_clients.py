"""The registry of clients: who is alive, who is connected, and whose stream is whose."""

from __future__ import annotations

import pytest
from gateway_grpc_peers import Steady

from gateway.grpc.clients import ALONE_SECONDS_MAX, EXPIRY_SECONDS, TOPICS_MAX, Clients
from gateway.grpc.codes import Refused
from gateway.grpc.proto.enums import ClientType, Code
from gateway.grpc.proto.telemetry import TelemetryCommand


class Written:
    def __init__(self, *, is_full=False):
        self.commands, self.is_full = [], is_full

    def push(self, command):
        self.commands.append(command)
        return not self.is_full


@pytest.fixture
def now():
    return Steady()


@pytest.fixture
def clients(now):
    return Clients(now)


def producer(clients, client_id, *topics):
    client = clients.seen(client_id, "JAVA", "")
    clients.describe(client, ClientType.PRODUCER, "", set(topics))
    return client


def test_the_end_of_an_old_stream_leaves_the_new_one(clients):
    client, first, second = clients.seen("c1", "HTTP", ""), Written(), Written()
    clients.opened(client, first)
    clients.opened(client, second)
    clients.opened(client, second)
    clients.closed("c1", first)
    assert clients.is_connected("c1")
    assert clients.push("c1", TelemetryCommand())
    assert (len(first.commands), len(second.commands)) == (0, 1)
    clients.closed("c1", second)
    assert not clients.is_connected("c1")
    assert not clients.push("c1", TelemetryCommand())


def test_the_newest_stream_gets_the_commands(clients):
    client, first, second = clients.seen("c1", "HTTP", ""), Written(), Written(is_full=True)
    clients.opened(client, first)
    clients.opened(client, second)
    assert not clients.push("c1", TelemetryCommand()), "it is full"
    assert not first.commands


def test_producers_are_found_by_the_topics_of_settings_and_transactions(clients):
    one, other = producer(clients, "p1", "orders"), producer(clients, "p2")
    clients.opened(one, Written())
    clients.opened(other, Written())
    clients.bind_topic("p2", "orders")
    clients.bind_topic("nobody", "orders")
    assert clients.producers_of("orders") == [one, other]
    assert clients.topics_of_producers() == ["orders"]
    producer(clients, "p2")  # settings again, without topics
    assert clients.producers_of("orders") == [one, other]
    clients.leave("p1")
    assert clients.producers_of("orders") == [other]


def test_a_consumer_is_no_producer(clients):
    client = clients.seen("c1", "PYTHON", "")
    clients.describe(client, ClientType.PUSH_CONSUMER, "g1", {"orders"})
    clients.opened(client, Written())
    assert (client.group, client.topics) == ("g1", {"orders"})
    assert clients.producers_of("orders") == []


def test_a_producer_that_becomes_a_consumer_is_no_producer(clients):
    client = producer(clients, "c1", "orders")
    clients.opened(client, Written())
    clients.describe(client, ClientType.PUSH_CONSUMER, "g1", {"payments"})
    assert clients.topics_of_producers() == []
    clients.leave("c1")
    assert clients.producers_of("orders") == []


def test_a_producer_is_bound_to_so_many_topics(clients):
    client = producer(clients, "p1", *(f"t{n}" for n in range(TOPICS_MAX)))
    clients.opened(client, Written())
    clients.bind_topic("p1", "t0")
    clients.bind_topic("p1", "further")
    assert len(clients.topics_of_producers()) == TOPICS_MAX
    assert clients.producers_of("further") == []


def test_a_producer_without_a_stream_cannot_be_asked(clients):
    producer(clients, "p1", "orders")
    assert clients.producers_of("orders") == []


def test_a_client_that_leaves_is_reported_once(clients):
    left = []
    clients.on_left(left.append)
    clients.seen("c1", "", "")
    clients.leave("c1")
    clients.leave("c1")
    assert left == ["c1"]
    assert clients.get("c1") is None


def test_a_silent_client_has_left(clients, now):
    left = []
    clients.on_left(left.append)
    clients.seen("c1", "", "")
    now.seconds += EXPIRY_SECONDS
    clients.seen("c2", "", "")
    clients.sweep()
    assert (left, clients.get("c1") is None) == ([], False)
    now.seconds += 0.1
    clients.sweep()
    assert (left, len(clients), clients.is_alive("c1")) == (["c1"], 1, False)


def test_a_client_without_a_stream_lives_by_its_heartbeats(clients, now):
    one = clients.seen("c1", "", "")
    now.seconds += ALONE_SECONDS_MAX
    assert clients.is_alive("c1")
    now.seconds += 0.1
    assert not clients.is_alive("c1")
    clients.opened(one, Written())
    assert clients.is_alive("c1")


def test_a_silent_client_with_a_stream_is_reported_once_and_may_come_back(clients, now):
    left = []
    clients.on_left(left.append)
    one = producer(clients, "p1", "orders")
    clients.opened(one, Written())
    now.seconds += EXPIRY_SECONDS + 1
    clients.sweep()
    clients.sweep()
    assert (left, clients.producers_of("orders")) == (["p1"], [])
    clients.seen("p1", "", "")
    assert clients.producers_of("orders") == [one]
    now.seconds += EXPIRY_SECONDS + 1
    clients.sweep()
    assert left == ["p1", "p1"]


def test_there_is_a_most_of_clients(now):
    clients = Clients(now, clients_max=2)
    clients.seen("c1", "", "")
    clients.seen("c2", "", "")
    with pytest.raises(Refused) as refused:
        clients.seen("c3", "", "")
    assert refused.value.code == Code.TOO_MANY_REQUESTS
    now.seconds += EXPIRY_SECONDS + 1
    clients.seen("c3", "", "")
    assert clients.get("c1") is None


def test_the_id_of_a_client_belongs_to_its_user(clients, now):
    clients.seen("c1", "", "")  # the permissive mode let it pass
    clients.seen("c1", "", "alice")
    clients.seen("c1", "", "")
    with pytest.raises(Refused) as refused:
        clients.seen("c1", "", "mallory")
    assert refused.value.code == Code.FORBIDDEN
    now.seconds += EXPIRY_SECONDS + 1
    clients.sweep()
    assert clients.seen("c1", "", "mallory").user == "mallory"
