"""Transactions of gRPC producers: half messages, decisions, and checks of those that nobody decided; beside HTTP's."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from gateway_grpc_peers import caller
from gateway_grpc_producers import Producers, plain

from gateway.grpc.codes import Refused, code_of
from gateway.grpc.producing.transactions import EndsTransactions
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.enums import ClientType, Code, MessageType, TransactionResolution, TransactionSource
from gateway.grpc.proto.sending import EndTransactionRequest
from gateway.http.problems import Problem
from gateway.ports.stores import TopicSettings

pytestmark = pytest.mark.anyio
COMMIT, ROLLBACK = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK


class Stream:
    """A Telemetry stream: keeps what is pushed."""

    def __init__(self) -> None:
        self.pushed = []
        self.is_full = False
        self.news = asyncio.Event()

    def push(self, command) -> bool:
        if not self.is_full:
            self.pushed.append(command.recover_orphaned_transaction_command)
            self.news.set()
        return not self.is_full

    async def next(self):
        async with asyncio.timeout(10):
            while not self.pushed:
                self.news.clear()
                await self.news.wait()
        return self.pushed.pop(0)


@pytest.fixture
def producers(system):
    return Producers(system)


@pytest.fixture
def ends(producers):
    return EndsTransactions(producers.transactions, checks_topics=False)


def connect(producers, client_id, *topics):
    client, stream = producers.clients.seen(client_id, "PYTHON", ""), Stream()
    producers.clients.describe(client, ClientType.PRODUCER, "", set(topics))
    producers.clients.opened(client, stream)
    return stream


async def begin(producers, message_id="U1"):
    (entry,) = (
        await producers.send(plain(message_id=message_id, message_type=MessageType.TRANSACTION))
    ).entries
    assert entry.status.code == Code.OK
    return entry.transaction_id


def end(id_, resolution, source=TransactionSource.SOURCE_CLIENT, topic="orders"):
    return EndTransactionRequest(
        topic=Resource(name=topic), transaction_id=id_, resolution=resolution, source=source
    )


@asynccontextmanager
async def running(*orphans):
    tasks = [asyncio.ensure_future(one.run()) for one in orphans]
    try:
        yield
    finally:
        for one in orphans:
            one.drain()
        async with asyncio.timeout(10):
            await asyncio.gather(*tasks)
        assert not any(one.topics for one in orphans)


@pytest.mark.parametrize(
    ("resolution", "state"), [(COMMIT, "committed"), (ROLLBACK, "rolledBack"), (0, "open"), (9, "open")]
)
async def test_a_producer_decides_as_often_as_it_likes(system, producers, ends, client, resolution, state):
    id_ = await begin(producers)
    for _ in range(2):
        answer = await ends.end(caller(), end(id_, resolution))
        assert answer.status.code == Code.OK
    shown = (await client.get(f"/v1/transactions/{id_}")).json()
    assert (shown["state"], shown["producerGroup"], shown["topic"]) == (state, "orders", "orders")


async def test_the_opposite_decision_says_so(producers, ends):
    id_ = await begin(producers)
    await ends.end(caller(), end(id_, COMMIT))
    with pytest.raises(Problem) as problem:
        await ends.end(caller(), end(id_, ROLLBACK))
    assert code_of(problem.value) == Code.PRECONDITION_FAILED
    assert "committed before" in problem.value.detail


@pytest.mark.parametrize("id_", ["", " ", "broker-a.NONE", "nobody.U1", "U1"])
async def test_an_unknown_transaction_has_rocketmqs_code(producers, ends, id_):
    with pytest.raises(Refused) as refused:
        await ends.end(caller(), end(id_, COMMIT))
    assert refused.value.code == Code.INVALID_TRANSACTION_ID


async def test_with_access_control_a_right_for_one_topic_decides_nothing_of_another(system, producers):
    system.add_topic("other")
    ends = EndsTransactions(producers.transactions, checks_topics=True)
    id_ = await begin(producers)
    with pytest.raises(Refused) as refused:
        await ends.end(caller(), end(id_, COMMIT, topic="other"))
    assert refused.value.code == Code.INVALID_TRANSACTION_ID
    assert system.transactions.decided == {}
    await ends.end(caller(), end(id_, COMMIT))
    assert system.transactions.decided == {("broker-a", "U1"): "committed"}


async def test_the_audit_record_names_the_client(system, producers, ends):
    id_ = await begin(producers)
    await ends.end(caller(), end(id_, COMMIT, TransactionSource.SOURCE_SERVER_CHECK))
    (order,) = system.transactions.orders
    assert order.by == "grpc 10.0.0.7 c1 after a check"


# Beside HTTP


async def test_begun_over_grpc_and_decided_over_http(system, producers, ends, client):
    id_ = await begin(producers)
    (listed,) = (await client.get("/v1/transactions?producerGroup=orders")).json()["transactions"]
    assert (listed["transactionId"], listed["messageId"]) == (id_, "U1")
    assert (await client.post(f"/v1/transactions/{id_}:commit")).status_code == 200
    await ends.end(caller(), end(id_, COMMIT))
    with pytest.raises(Problem):
        await ends.end(caller(), end(id_, ROLLBACK))


async def test_begun_over_http_and_decided_over_grpc(system, producers, ends, client):
    body = {"producerGroup": "orders", "message": {"body": "paid"}}
    made = (await client.post("/v1/topics/orders/transactions", json=body)).json()
    stream = connect(producers, "c1", "orders")
    async with running(producers.orphans):
        system.transactions.checker.ask("broker-a", made["messageId"])
        command = await stream.next()
    assert (command.transaction_id, command.message.body) == (made["transactionId"], b"paid")
    await ends.end(caller(), end(command.transaction_id, ROLLBACK))
    shown = (await client.get(f"/v1/transactions/{made['transactionId']}")).json()
    assert shown["state"] == "rolledBack"


# Checks


async def test_an_orphan_goes_to_another_producer_of_its_topic(system, producers, ends):
    id_ = await begin(producers)
    stream = connect(producers, "c2", "orders")
    async with running(producers.orphans):
        system.transactions.checker.ask("broker-a", "U1")
        command = await stream.next()
        assert command.transaction_id == id_
        message = command.message
        assert (message.topic.name, message.body) == ("orders", b"hi")
        assert message.system_properties.message_id == "U1"
        assert message.system_properties.message_type == MessageType.TRANSACTION
        await ends.end(caller("c2"), end(command.transaction_id, COMMIT))
    assert system.transactions.decided == {("broker-a", "U1"): "committed"}
    assert producers.orphans.pushed == 1


async def test_each_check_goes_to_one_producer_and_the_next_one_to_the_next(system, producers):
    await begin(producers)
    streams = [connect(producers, name, "orders") for name in ("c1", "c2")]
    asked = []
    async with running(producers.orphans):
        for attempt in (1, 2, 3, 4):
            system.transactions.checker.ask("broker-a", "U1", attempt)
            while producers.orphans.pushed < attempt:
                await asyncio.sleep(0.01)
            asked.append([len(stream.pushed) for stream in streams])
    assert asked == [[1, 0], [1, 1], [2, 1], [2, 2]]


async def test_each_check_goes_to_one_of_the_gateways(system, producers):
    other = Producers(system)
    for one in (producers, other):
        connect(one, "c1", "orders")
    for n in range(6):
        await begin(producers, f"U{n}")
    async with running(producers.orphans, other.orphans):
        for n in range(6):
            system.transactions.checker.ask("broker-a", f"U{n}")
        while len(system.transactions.checker.taken) < 6:
            await asyncio.sleep(0.01)
    assert producers.orphans.pushed + other.orphans.pushed >= 6
    assert system.transactions.checker.taken == {f"U{n}": 1 for n in range(6)}


async def test_a_producer_that_takes_nothing_is_passed_over(system, producers):
    await begin(producers)
    full, stream = connect(producers, "c1", "orders"), connect(producers, "c2", "orders")
    full.is_full = True
    async with running(producers.orphans):
        system.transactions.checker.ask("broker-a", "U1")
        await stream.next()
        system.transactions.checker.ask("broker-a", "U1", 2)
        await stream.next()
    assert not full.pushed


async def test_a_checker_of_an_earlier_version_repeats_checks_and_no_producer_sees_it(system, producers):
    system.transactions.checker.is_old = True
    await begin(producers)
    stream = connect(producers, "c1", "orders")
    async with running(producers.orphans):
        system.transactions.checker.ask("broker-a", "U1")
        await stream.next()
        while len(system.transactions.checker.returned) < 3:
            await asyncio.sleep(0.01)
    assert not stream.pushed


async def test_transactions_of_other_topics_of_a_group_of_that_name_are_not_asked_about(
    system, producers, client
):
    system.add_topic("other")
    body = {"producerGroup": "orders", "message": {"body": "x"}}
    made = (await client.post("/v1/topics/other/transactions", json=body)).json()
    await begin(producers)
    stream = connect(producers, "c1", "orders")
    async with running(producers.orphans):
        system.transactions.checker.ask("broker-a", made["messageId"])
        system.transactions.checker.ask("broker-a", "U1")
        assert (await stream.next()).transaction_id == "broker-a.U1"
    assert not stream.pushed


async def test_a_topic_without_producers_is_left(system, producers, monkeypatch):
    monkeypatch.setattr("gateway.grpc.producing.orphans.HOLD_SECONDS", 0.05)
    monkeypatch.setattr("gateway.grpc.producing.orphans.LOOK_SECONDS", 0.01)
    async with running(producers.orphans):
        await asyncio.sleep(0.05)
        assert producers.orphans.topics == system.transactions.checker.queries == []
        connect(producers, "c1", "orders")
        while not system.transactions.checker.queries:
            await asyncio.sleep(0.01)
        assert producers.orphans.topics == ["orders"]
        producers.clients.leave("c1")
        while producers.orphans.topics:
            await asyncio.sleep(0.01)


async def test_a_topic_that_takes_no_transactions_is_not_watched(system, producers, monkeypatch):
    monkeypatch.setattr("gateway.grpc.producing.orphans.LOOK_SECONDS", 0.01)
    for kind, topics in (("NORMAL", []), ("TRANSACTION", ["orders"])):
        system.stores["broker-a"].kept_topics["orders"] = TopicSettings("orders", 4, 4, 6, kind)
        made = Producers(system)
        await made.types.get("orders")
        connect(made, "c1", "orders")
        async with running(made.orphans):
            await asyncio.sleep(0.05)
            assert made.orphans.topics == topics


async def test_the_watch_outlives_its_brokers(system, producers, monkeypatch):
    monkeypatch.setattr("gateway.grpc.producing.orphans.LOOK_SECONDS", 0.01)
    await begin(producers)
    stream = connect(producers, "c1", "orders")
    system.silent_nameservers.add("127.0.0.1:9876")
    system.kill("broker-a")
    async with running(producers.orphans):
        system.transactions.checker.ask("broker-a", "U1")
        await asyncio.sleep(0.1)
        assert not stream.pushed
        system.silent_nameservers.clear()
        system.revive("broker-a")
        await stream.next()
