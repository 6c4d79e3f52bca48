"""The adapters over a scripted remoting server: requests, responses and failures."""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial

import pytest

from gantry_link.clients.nameservers import NameserverClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.serving.server import RemotingServer
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.messages.batch import BatchItem, decode_batch
from gateway.ports.stores import (
    Broker,
    GroupSettings,
    PeerAway,
    QueueBounds,
    QueueData,
    QueueProgress,
    StoreRefused,
    TopicSettings,
    Unusable,
    outcome_of,
)
from gateway.routing.queue_lists import QUEUES_MAX
from gateway.stores.link_leases import LinkLeaseStores
from gateway.stores.link_names import LinkNames
from gateway.stores.link_store import STORES_MAX, LinkStores

pytestmark = pytest.mark.anyio

STORED = {
    "msgId": "7F00000100002A9F0000000000000010",
    "queueId": "2",
    "queueOffset": "7",
    "transactionId": "U1",
    "durability": "fsync",
}
HOST = "7F00000100002A9F"


class Script:
    """Answers request codes from a table: (code, fields, body, remark), or None for silence. Records requests."""

    def __init__(self, table) -> None:
        self.table, self.requests = table, []

    def __call__(self, peer, frame) -> None:
        request = decode_command(frame)
        self.requests.append(request)
        answer = self.table.get(int(request.code))
        if answer is not None:
            code, fields, body, remark = (*answer, {}, b"", None)[: len(answer)] + (None, {}, b"", None)[
                len(answer) :
            ]
            peer.send(encode_response(code, request.opaque, fields, body, remark))

    @property
    def last(self):
        return self.requests[-1]


@contextlib.asynccontextmanager
async def scripted(table):
    script = Script(table)
    server = RemotingServer(script)
    port = await server.listen("127.0.0.1", 0)
    pool = ConnectionPool()
    try:
        yield script, f"127.0.0.1:{port}", pool
    finally:
        await pool.close()
        await server.close()


@contextlib.asynccontextmanager
async def store_of(table, timeout_seconds=60.0):
    async with scripted(table) as (script, address, pool):
        yield script, LinkStores(pool, lambda: 1234, timeout_seconds).at("broker-a", address)


async def test_a_send_has_no_default_topic_so_that_it_creates_none():
    async with store_of({310: (0, STORED)}) as (script, store):
        (stored,) = await outcome_of(store.send, "orders", 2, b"hi", "TAGS\x01a\x02")
    sent = script.last.fields.to_fields() if hasattr(script.last.fields, "to_fields") else script.last.fields
    assert (sent["a"], sent["b"], sent["c"], sent["e"], sent["g"]) == (
        "GANTRY_GATEWAY",
        "orders",
        "",
        "2",
        "1234",
    )
    assert (sent["i"], script.last.body) == ("TAGS\x01a\x02", b"hi")
    assert "gantryProbe" not in sent
    assert (stored.offset_message_id, stored.message_id, stored.queue_offset) == (STORED["msgId"], "U1", 7)
    assert (stored.is_durable, stored.is_duplicate, stored.code) == (True, False, 0)


async def test_a_send_may_say_when_it_was_born_and_how_it_is_compressed():
    async with store_of({310: (0, STORED)}) as (script, store):
        for sys_flag, born_ms in ((1, 77), (0, None), (1, 0), (0, 5)):
            send = partial(store.send, sys_flag=sys_flag, born_ms=born_ms)
            await outcome_of(send, "orders", 2, b"hi", "")
            fields = script.last.fields
            sent = fields.to_fields() if hasattr(fields, "to_fields") else fields
            assert (sent["f"], sent["g"]) == (str(sys_flag), "1234" if born_ms is None else str(born_ms))


async def test_a_duplicate_and_a_written_message_are_marked():
    reply = STORED | {"durability": "written", "duplicate": "true"}
    async with store_of({310: (0, reply)}) as (_script, store):
        (stored,) = await outcome_of(store.send, "orders", 2, b"hi", "")
    assert (stored.is_durable, stored.is_duplicate) == (False, True)


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_less_than_the_requested_durability_is_an_error(code):
    async with store_of({310: (code, STORED), 320: (code, STORED)}) as (_script, store):
        with pytest.raises(StoreRefused) as refused:
            await outcome_of(store.send, "orders", 2, b"hi", "")
        assert refused.value.code == code
        with pytest.raises(StoreRefused):
            await outcome_of(store.send_batch, "orders", 2, [BatchItem(0, b"a", b"")])


async def test_an_error_has_code_remark_and_gantry_code():
    async with store_of({310: (14, {"gantryCode": "DISK_FULL"}, b"", "the disk is full")}) as (
        _script,
        store,
    ):
        with pytest.raises(StoreRefused) as refused:
            await outcome_of(store.send, "orders", 2, b"hi", "")
    assert (refused.value.code, refused.value.remark, refused.value.gantry_code) == (
        14,
        "the disk is full",
        "DISK_FULL",
    )


async def test_a_send_without_a_response_may_have_been_done():
    async with store_of({}, timeout_seconds=0.5) as (_script, store):
        with pytest.raises(PeerAway) as away:
            await outcome_of(store.send, "orders", 2, b"hi", "")
    assert (away.value.sent, away.value.peer) == (True, "broker-a")


async def test_a_refused_connection_sends_nothing():
    pool = ConnectionPool()
    store = LinkStores(pool, lambda: 0, 1.0).at("broker-a", "127.0.0.1:1")
    with pytest.raises(PeerAway) as away:
        await outcome_of(store.send, "orders", 2, b"hi", "")
    assert away.value.sent is False
    await pool.close()


async def test_a_batch_gives_each_message_its_own_result():
    items = [
        {"queueOffset": 7, "position": 16, "uniqKey": "U1", "queueId": 2, "duplicate": False, "code": 0},
        {"queueOffset": 3, "position": 5, "uniqKey": "OLD", "queueId": 1, "duplicate": True, "code": 0},
        {"code": 13, "gantryCode": "IDEMPOTENCY_CONFLICT"},
    ]
    async with store_of({320: (0, STORED, json.dumps(items).encode())}) as (script, store):
        messages = [BatchItem(0, body, b"UNIQ_KEY\x01U1\x02") for body in (b"a", b"b", b"c")]
        first, second, third = await outcome_of(store.send_batch, "orders", 2, messages)
        assert decode_batch(script.last.body) == messages
    assert (first.offset_message_id, first.queue_offset, first.is_durable) == (
        f"{HOST}0000000000000010",
        7,
        True,
    )
    assert (second.message_id, second.queue_id, second.is_duplicate) == ("OLD", 1, True)
    assert (third.code, third.gantry_code, third.offset_message_id) == (13, "IDEMPOTENCY_CONFLICT", "")


async def test_a_batch_with_another_number_of_results_has_an_unknown_result():
    async with store_of({320: (0, STORED, b"[]")}) as (_script, store):
        with pytest.raises(PeerAway) as away:
            await outcome_of(store.send_batch, "orders", 2, [BatchItem(0, b"a", b"")])
    assert away.value.sent is True


async def test_a_pull_waits_only_on_request_and_always_sends_its_filter():
    offsets = {"suggestWhichBrokerId": "0", "nextBeginOffset": "5", "minOffset": "1", "maxOffset": "9"}
    async with store_of({11: (0, offsets, b"records")}) as (script, store):
        pulled = await store.pull("orders", 1, 4, 32, 0, "")
        assert (
            pulled.code,
            pulled.next_offset,
            pulled.min_offset,
            pulled.max_offset,
            bytes(pulled.records),
        ) == (0, 5, 1, 9, b"records")
        assert (script.last.ext["sysFlag"], script.last.ext["subscription"]) == ("4", "*")
        await store.pull("orders", 1, 4, 32, 3000, "a||b")
        assert (
            script.last.ext["sysFlag"],
            script.last.ext["subscription"],
            script.last.ext["suspendTimeoutMillis"],
        ) == ("6", "a||b", "3000")
        assert script.last.ext["consumerGroup"] == "GANTRY_GATEWAY"


async def test_a_cancelled_pull_ends_at_the_store():
    async with store_of({}) as (script, store):
        pulls = [
            asyncio.ensure_future(store.pull("orders", 1, 4, 32, wait_ms, "")) for wait_ms in (3000, 3000, 0)
        ]
        while len(script.requests) < 3:
            await asyncio.sleep(0.005)
        numbers = [request.ext.get("gantryWaitId") for request in script.requests]
        assert numbers[0] != numbers[1]
        assert numbers[2] is None
        for pull in pulls:
            pull.cancel()
        await asyncio.gather(*pulls, return_exceptions=True)
        while len(script.requests) < 5:
            await asyncio.sleep(0.005)
        ends = script.requests[3:]
        assert [(int(end.code), end.is_oneway, end.ext) for end in ends] == [
            (9035, True, {"waitId": number}) for number in numbers[:2]
        ]


async def test_bounds_and_progress_are_read_from_rocketmqs_tables():
    first, second = (json.dumps({"brokerName": "broker-a", "queueId": n, "topic": "orders"}) for n in (1, 0))
    stats = f'{{"offsetTable":{{{first}:{{"maxOffset":9,"minOffset":2}},{second}:{{"maxOffset":1,"minOffset":0}}}}}}'
    progress = f'{{"offsetTable":{{{first}:{{"brokerOffset":9,"consumerOffset":3,"lastTimestamp":1}}}}}}'
    async with store_of({202: (0, {}, stats.encode()), 208: (0, {}, progress.encode())}) as (script, store):
        assert await store.queue_bounds("orders") == [QueueBounds(0, 0, 1), QueueBounds(1, 2, 9)]
        assert await store.progress("g1", "") == [QueueProgress("orders", 1, 3, 9)]
        assert "topic" not in script.last.ext


async def test_topics_and_groups_are_created_and_deleted_with_rocketmqs_bodies():
    topics = b'{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":{"orders":{"perm":6,"readQueueNums":4,"topicName":"orders","writeQueueNums":3}}}'
    groups = b'{"dataVersion":{"counter":1,"timestamp":1},"subscriptionGroupTable":{"g1":{"groupName":"g1","consumeEnable":false,"retryMaxTimes":3,"brokerId":7}}}'
    async with store_of({21: (0, {}, topics), 201: (0, {}, groups), 17: (0,), 200: (0,)}) as (script, store):
        assert await store.topics() == [TopicSettings("orders", 4, 3, 6)]
        assert await store.groups() == [GroupSettings("g1", False, True, 3, 1)]
        await store.put_topic(TopicSettings("new", 2, 2, 4))
        assert (script.last.ext["readQueueNums"], script.last.ext["perm"]) == ("2", "4")
        await store.put_group(GroupSettings("g1", True, True, 5, 1))
        written = json.loads(script.last.body)
        assert (written["consumeEnable"], written["retryMaxTimes"]) == (True, 5)
        assert written["brokerId"] == 7, "what HTTP does not show stays"


ROUTE = {
    "brokerDatas": [
        {
            "brokerAddrs": {"0": "127.0.0.1:10911", "1": "127.0.0.1:10921"},
            "brokerName": "broker-a",
            "cluster": "C",
        },
        {"brokerAddrs": {"1": "127.0.0.1:10931"}, "brokerName": "broker-b", "cluster": "C"},
    ],
    "queueDatas": [
        {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "writeQueueNums": 3, "topicSysFlag": 0}
    ],
}
CLUSTER = {
    "brokerAddrTable": {"broker-a": ROUTE["brokerDatas"][0], "broker-b": ROUTE["brokerDatas"][1]},
    "clusterAddrTable": {"C": ["broker-a", "broker-b"]},
}


@contextlib.asynccontextmanager
async def names_of(table):
    async with scripted(table) as (script, address, pool):
        names = LinkNames(pool, NameserverClient(pool, [address, "127.0.0.1:1"], 0.5), 0.5)
        yield script, names, address


async def test_a_route_has_masters_only():
    async with names_of({105: (0, {}, json.dumps(ROUTE).encode())}) as (_script, names, address):
        route = await names.route("orders")
        assert route is not None
        assert route.queues == (QueueData("broker-a", 4, 3, 6),)
        assert route.addresses == {"broker-a": "127.0.0.1:10911"}
        assert await names.route_at(address, "orders") == route


async def test_an_unknown_topic_is_none_and_silent_nameservers_are_an_error():
    async with names_of({105: (17, {}, b"", "No topic route info")}) as (_script, names, address):
        assert await names.route("orders") is None
        assert await names.route_at(address, "orders") is None
        with pytest.raises(PeerAway):
            await names.route_at("127.0.0.1:1", "orders")
    async with names_of({}) as (_script, names, _address):
        with pytest.raises(PeerAway):
            await names.route("orders")


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"{", b"[]", b'{"queueDatas":[1]}'])
async def test_an_unreadable_answer_of_a_nameserver_is_an_error(body):
    async with names_of({105: (0, {}, body), 106: (0, {}, body), 206: (0, {}, body)}) as (_, names, address):
        for asked in (names.route("orders"), names.route_at(address, "orders")):
            with pytest.raises(Unusable, match="unreadable answer"):
                await asked
        if body != b'{"queueDatas":[1]}':  # no field of theirs: an empty cluster
            for asked in (names.brokers(), names.topics()):
                with pytest.raises(Unusable):
                    await asked


@pytest.mark.parametrize("field", ["readQueueNums", "writeQueueNums"])
@pytest.mark.parametrize("count", [QUEUES_MAX + 1, 2**31, 10**30])
async def test_a_route_with_too_many_queues_is_refused(field, count):
    route = json.loads(json.dumps(ROUTE))
    route["queueDatas"][0][field] = count
    async with names_of({105: (0, {}, json.dumps(route).encode())}) as (_script, names, address):
        for asked in (names.route("orders"), names.route_at(address, "orders")):
            with pytest.raises(Unusable, match=f"at most {QUEUES_MAX}"):
                await asked


async def test_brokers_are_masters_with_the_hosts_of_their_address():
    cluster = json.loads(json.dumps(CLUSTER))
    cluster["brokerAddrTable"]["broker-b"]["brokerAddrs"] = {"0": "localhost:10931"}
    async with names_of({106: (0, {}, json.dumps(cluster).encode())}) as (_script, names, address):
        first, second = await names.brokers()
        assert first == Broker("broker-a", "C", "127.0.0.1:10911", ("127.0.0.1",))
        assert "127.0.0.1" in second.hosts
        assert list(names.addresses) == [address, "127.0.0.1:1"]


async def test_writes_go_to_every_nameserver_and_return_those_that_failed():
    async with names_of(
        {100: (0,), 101: (0, {"value": "a:4"}), 102: (22, {}, b"", "no such key"), 216: (0,)}
    ) as (script, names, _address):
        assert await names.put_value("NS", "orders", "a:4") == ["127.0.0.1:1"]
        assert await names.value("NS", "orders") == "a:4"
        assert await names.delete_value("NS", "orders") == ["127.0.0.1:1"], "what is not there is deleted"
        assert await names.delete_topic("orders") == ["127.0.0.1:1"]
        assert [int(request.code) for request in script.requests] == [100, 101, 102, 216]


async def test_stores_that_move_from_address_to_address_do_not_stay_in_memory():
    pool = ConnectionPool()
    for stores in (LinkStores(pool, lambda: 0, 1.0), LinkLeaseStores(pool, 1.0)):
        assert stores.at("broker-a", "127.0.0.1:1") is stores.at("broker-a", "127.0.0.1:1")
        for number in range(2 * STORES_MAX):
            stores.at("broker-a", f"127.0.0.1:{number}")
        assert len(stores._stores) == STORES_MAX
    await pool.close()
