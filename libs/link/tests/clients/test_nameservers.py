import asyncio
import contextlib

import pytest
from scripted_broker import Script
from scripted_link import eventually, serving

from gantry_link.clients import nameservers as nameserver_client
from gantry_link.clients.nameservers import NameserverClient, Registered
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError, NotConnected, RequestTimedOut, UnreadableAnswer
from gantry_wire.bodies.cluster import (
    ClusterInfo,
    DataVersion,
    KVTable,
    QueueData,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicRouteData,
)
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.bodies.register_broker import body_crc, decode_register_body
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.nameserver import BrokerHeartbeatHeader, BrokerIdentityHeader, RegisterBrokerHeader

pytestmark = pytest.mark.anyio

ROUTE = TopicRouteData(
    queue_datas=[QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, write_queue_nums=4)]
)
KNOWS = {105: (0, None, encode_body(ROUTE, standard=True))}
KNOWS_NOT = {105: (17, None, b"", "No topic route info")}
WHO = {"broker_name": "broker-a", "broker_addr": "h:1", "cluster_name": "C", "broker_id": 0}
BODY = RegisterBrokerBody(
    topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
        topic_config_table={"T": TopicConfig(topic_name="T")}
    )
)


@contextlib.asynccontextmanager
async def nameservers(*answers, timeout_seconds=30.0):
    """Yield (client, scripts, addresses) with one scripted nameserver per set of answers. None is one that is down."""
    scripts, addresses = [Script(each) for each in answers], []
    async with contextlib.AsyncExitStack() as stack:
        for script, each in zip(scripts, answers, strict=True):
            server, port = await stack.enter_async_context(serving(script))
            addresses.append(f"127.0.0.1:{port}")
            if each is None:
                await server.close()
        pool = ConnectionPool()
        client = NameserverClient(pool, addresses, timeout_seconds)
        client._first = 0
        try:
            yield client, scripts, addresses
        finally:
            await pool.close()


async def test_a_route_query_goes_to_one_nameserver():
    async with nameservers(KNOWS, KNOWS) as (client, scripts, _):
        assert await client.route("T") == ROUTE
        assert [len(script.asked) for script in scripts] == [1, 0]
        assert scripts[0].last.ext == {"topic": "T", "acceptStandardJsonOnly": "true"}


async def test_the_next_nameserver_is_asked_and_kept_when_one_is_down():
    async with nameservers(None, KNOWS) as (client, scripts, _):
        for _ in range(3):
            assert await client.route("T") == ROUTE
        assert len(scripts[1].asked) == 3
        assert client._first == 1


async def test_the_next_nameserver_is_asked_when_one_hangs():
    async with nameservers({}, KNOWS, timeout_seconds=0.5) as (client, _, _):
        assert await client.route("T") == ROUTE


async def test_a_hanging_nameserver_costs_a_short_time_once(monkeypatch):
    monkeypatch.setattr(nameserver_client, "FAILOVER_SECONDS", 0.1)
    async with nameservers({}, KNOWS, timeout_seconds=600) as (client, scripts, _):
        for _ in range(3):
            assert await client.route("T") == ROUTE
        assert [len(script.asked) for script in scripts] == [1, 3]


async def test_a_nameserver_that_accepts_no_connection_costs_a_short_time_once(monkeypatch, full_listener):
    monkeypatch.setattr(nameserver_client, "FAILOVER_SECONDS", 0.1)
    async with nameservers(KNOWS, timeout_seconds=600) as (_, scripts, addresses):
        pool = ConnectionPool(connect_seconds=600)
        client = NameserverClient(pool, [full_listener, *addresses], 600)
        client._first = 0
        for _ in range(3):
            assert await client.route("T") == ROUTE
        assert client._first == 1
        assert len(scripts[0].asked) == 3
        await pool.close()


async def test_slow_nameservers_are_asked_again_with_the_full_timeout(monkeypatch):
    monkeypatch.setattr(nameserver_client, "FAILOVER_SECONDS", 0.1)
    async with nameservers({}, {}, timeout_seconds=60) as (client, scripts, _):
        asking = asyncio.ensure_future(client.route("T"))
        await eventually(lambda: [len(script.asked) for script in scripts] == [2, 1])
        assert not asking.done()
        connection = next(iter(scripts[0].peers))
        connection.send(encode_response(0, scripts[0].last.opaque, None, KNOWS[105][2]))
        assert await asking == ROUTE


async def test_the_next_nameserver_is_asked_when_one_does_not_know():
    async with nameservers(KNOWS_NOT, KNOWS) as (client, _, _):
        for _ in range(2):
            assert await client.route("T") == ROUTE
        assert client._first == 0  # it will know once brokers register with it


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"queueDatas":[1]}', b"[" * 100_000])
async def test_the_next_nameserver_is_asked_when_an_answer_is_unreadable(body):
    broken = {105: (0, None, body), 101: (0, None, b"")}
    async with nameservers(broken, KNOWS) as (client, scripts, _):
        assert (await client.route("T")).queue_datas == ROUTE.queue_datas
        assert [len(script.asked) for script in scripts] == [1, 1]
    async with nameservers(broken) as (client, _, addresses):
        with pytest.raises(UnreadableAnswer, match=addresses[0]) as failure:
            await client.route("T")
        assert failure.value.sent


async def test_unknown_everywhere_is_a_refusal_even_if_another_is_down():
    async with nameservers(KNOWS_NOT, None) as (client, _, _):
        with pytest.raises(BrokerRefused) as refused:
            await client.route("T")
        assert refused.value.code == 17


async def test_any_other_refusal_ends_the_query():
    async with nameservers({105: (1, None, b"", "name server not ready")}, KNOWS) as (client, scripts, _):
        with pytest.raises(BrokerRefused, match="not ready"):
            await client.route("T")
        assert not scripts[1].asked


async def test_no_reachable_nameserver_is_a_link_error():
    async with nameservers(None, None) as (client, _, _):
        with pytest.raises(NotConnected):
            await client.route("T")


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_registration_goes_to_all_and_returns_answers_by_address(compressed):
    order = {103: (0, {"masterAddr": "m:1"}, encode_body(KVTable(table={"orders": "broker-a:8"})))}
    failing = {103: (1, None, b"", "register broker failed")}
    async with nameservers(order, {103: (0,)}, failing, None) as (client, scripts, addresses):
        header = RegisterBrokerHeader(**WHO, compressed=compressed)
        answers = await client.register_broker(header, BODY)
        assert list(answers) == addresses
        first, second, third, fourth = answers.values()
        assert isinstance(first, Registered)
        assert (first.reply.master_addr, first.order_config) == ("m:1", {"orders": "broker-a:8"})
        assert second.order_config == {}
        assert isinstance(third, BrokerRefused)
        assert isinstance(fourth, LinkError)
        asked = scripts[0].last
        assert asked.ext["bodyCrc32"] == str(body_crc(asked.body))
        assert decode_register_body(asked.body, compressed=compressed) == BODY


async def test_changes_go_to_every_nameserver():
    codes = (104, 904, 216, 205, 327, 100, 102, 318)
    everything = dict.fromkeys(codes, (0,))
    async with nameservers(everything, everything) as (client, scripts, addresses):
        calls = (
            client.unregister_broker(BrokerIdentityHeader(**WHO)),
            client.heartbeat(BrokerHeartbeatHeader(**WHO)),
            client.delete_topic("T", "C"),
            client.wipe_write_perm("broker-a"),
            client.add_write_perm("broker-a"),
            client.kv_put("n", "k", "v"),
            client.kv_delete("n", "k"),
            client.update_config({"orderMessageEnable": "true"}),
        )
        for call in calls:
            answers = await call
            assert list(answers) == addresses
            assert all(isinstance(answer, Command) for answer in answers.values())
        assert [c.code for c in scripts[0].asked] == [c.code for c in scripts[1].asked] == list(codes)


async def test_a_data_version_counts_as_changed_without_an_answer():
    same, other = {322: (0, {"changed": "false"})}, {322: (0, {"changed": "true"})}
    async with nameservers(same, other, None) as (client, _, addresses):
        answers = await client.data_version_changed(BrokerIdentityHeader(**WHO), DataVersion(counter=1))
        assert answers == dict(zip(addresses, (False, True, True), strict=True))


async def test_cluster_queries_return_their_content():
    info = ClusterInfo(cluster_addr_table={"C": ["broker-a"]})
    topics = (0, None, encode_body(TopicList(topic_list=["T"])))
    async with nameservers({106: (0, None, encode_body(info)), 206: topics, 224: topics}) as (client, _, _):
        assert await client.cluster_info() == info
        assert await client.topics() == ["T"]
        assert await client.topics_of_cluster("C") == ["T"]


async def test_kv_values_are_queried_with_failover():
    table = encode_body(KVTable(table={"k": "v"}))
    knows, knows_not = {101: (0, {"value": "v"}), 219: (0, None, table)}, {101: (22,), 219: (22,)}
    async with nameservers(knows_not, knows) as (client, _, _):
        assert await client.kv_get("n", "k") == "v"
        assert await client.kv_list("n") == {"k": "v"}
    async with nameservers(knows_not) as (client, _, _):
        assert await client.kv_get("n", "k") is None
        assert await client.kv_list("n") == {}


async def test_settings_are_returned_for_nameservers_that_answer():
    async with nameservers({319: (0, None, b"a=b\n")}, None) as (client, _, addresses):
        assert await client.configs() == {addresses[0]: {"a": "b"}}


async def test_a_hanging_nameserver_is_a_timeout_under_its_address():
    async with nameservers({}, {205: (0,)}, timeout_seconds=1.0) as (client, _, _):
        first, second = (await client.wipe_write_perm("b")).values()
        assert isinstance(first, RequestTimedOut)
        assert isinstance(second, Command)


async def test_an_unreadable_registration_answer_is_an_error_under_its_address():
    async with nameservers({103: (0, None, b"[1]")}, {103: (0,)}) as (client, _, _):
        first, second = (await client.register_broker(RegisterBrokerHeader(**WHO), BODY)).values()
    assert isinstance(first, UnreadableAnswer)
    assert isinstance(second, Registered)
