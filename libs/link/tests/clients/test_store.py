import asyncio

import pytest
from scripted_broker import scripted
from scripted_link import eventually, serving

from gantry_link.clients.store import StoreClient, batch_stored_of
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, ConnectionLost, NotConnected, RequestTimedOut
from gantry_wire.errors import MalformedBatch
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_pull_reply_head
from gantry_wire.headers.messages import PullHeader, QueryMessageHeader, SendHeaderV2
from gantry_wire.messages.batch import BatchItem, decode_batch

pytestmark = pytest.mark.anyio

SEND = {
    "producer_group": "pg",
    "topic": "T",
    "default_topic": "TBW102",
    "default_topic_queue_nums": 4,
    "queue_id": 2,
    "sys_flag": 0,
    "born_timestamp": 1,
    "flag": 0,
}
REPLY = {"msgId": "AA", "queueId": "2", "queueOffset": "7", "transactionId": "u", "durability": "fsync"}
PULL = PullHeader(
    consumer_group="g",
    topic="T",
    queue_id=0,
    queue_offset=3,
    max_msg_nums=32,
    sys_flag=2,
    suspend_timeout_millis=100,
)


async def test_a_send_returns_ids_offset_and_durability():
    async with scripted({310: (0, REPLY)}) as (script, address, pool):
        stored = await StoreClient(pool, address).send(SendHeaderV2(**SEND, properties="a\x01b\x02"), b"body")
    assert (stored.code, stored.reply.msg_id, stored.reply.queue_offset) == (0, "AA", 7)
    assert stored.reply.durability == "fsync"
    assert (script.last.body, script.last.fields.properties) == (b"body", "a\x01b\x02")


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_a_message_stored_with_less_durability_is_stored(code):
    async with scripted({310: (code, REPLY)}) as (_, address, pool):
        assert (await StoreClient(pool, address).send(SendHeaderV2(**SEND), b"")).code == code


async def test_a_refused_send_has_code_remark_and_fields():
    answer = (14, {"gantryCode": "DISK_FULL"}, b"", "the disk is full")
    async with scripted({310: answer}) as (_, address, pool):
        with pytest.raises(BrokerRefused) as refused:
            await StoreClient(pool, address).send(SendHeaderV2(**SEND), b"")
    error = refused.value
    assert (error.code, error.remark, error.fields["gantryCode"]) == (14, "the disk is full", "DISK_FULL")


async def batch_sent(client, header, items):
    answer = asyncio.get_running_loop().create_future()
    client.start_send_batch(header, items, answer)
    return batch_stored_of(await answer)


async def test_a_batch_returns_one_result_per_message_on_request():
    items = [BatchItem(0, b"one", b""), BatchItem(0, b"two", b"k\x01v\x02")]
    results = (
        b'[{"queueOffset":7,"position":100,"storeTimestamp":5,"uniqKey":"u1","queueId":2,"duplicate":false,"code":0},'
        b'{"queueOffset":3,"position":50,"storeTimestamp":4,"uniqKey":"u2","queueId":2,"duplicate":true,"code":0}]'
    )
    async with scripted({320: (0, REPLY, results)}) as (script, address, pool):
        client = StoreClient(pool, address)
        answer = await batch_sent(client, SendHeaderV2(**SEND, batch=True, per_item=True), items)
        assert decode_batch(script.last.body) == items
        assert [(i.queue_offset, i.duplicate) for i in answer.items] == [(7, False), (3, True)]


async def test_only_a_batch_with_a_result_per_message_may_exceed_the_size_of_a_message():
    items = [BatchItem(0, bytes(3_000_000), b"")] * 2
    async with scripted({320: (0, REPLY, b"[]")}) as (script, address, pool):
        client = StoreClient(pool, address)
        await batch_sent(client, SendHeaderV2(**SEND, batch=True, per_item=True), items)
        assert decode_batch(script.last.body) == items
        with pytest.raises(MalformedBatch):
            await batch_sent(client, SendHeaderV2(**SEND, batch=True), items)


async def test_a_send_without_an_answer_is_unknown_and_one_without_a_connection_is_not_stored():
    async with scripted() as (_, address, pool):
        with pytest.raises(RequestTimedOut) as late:
            await StoreClient(pool, address, timeout_seconds=0.5).send(SendHeaderV2(**SEND), b"")
    assert late.value.sent
    other = ConnectionPool()
    with pytest.raises(NotConnected) as away:
        await StoreClient(other, address).send(SendHeaderV2(**SEND), b"")
    assert not away.value.sent
    await other.close()


@pytest.mark.parametrize("code", [0, 19, 20, 21])
async def test_a_pull_returns_offsets_and_the_bytes_of_the_log(code):
    fields = {"nextBeginOffset": "4", "minOffset": "0", "maxOffset": "9", "suggestWhichBrokerId": "0"}
    async with scripted({11: (code, fields, b"records", "FOUND")}) as (script, address, pool):
        pulled = await StoreClient(pool, address).pull(PULL)
    assert pulled == (code, 4, 0, 9, "FOUND", b"records", 0)
    assert script.last.fields.queue_offset == 3


async def test_a_pull_reply_from_its_template_is_read():
    def answer(peer, frame):
        opaque = decode_command(frame).opaque
        peer.send_parts([encode_pull_reply_head(0, opaque, 5, 1, 9, 0, "FOUND", 4), b"re", b"st"])

    async with serving(answer) as (_, port):
        pool = ConnectionPool()
        assert await StoreClient(pool, f"127.0.0.1:{port}").pull(PULL) == (0, 5, 1, 9, "FOUND", b"rest", 0)
        await pool.close()


async def test_a_refused_pull_raises():
    async with scripted({11: (17, None, b"", "no topic")}) as (_, address, pool):
        with pytest.raises(BrokerRefused, match="code 17: no topic"):
            await StoreClient(pool, address).pull(PULL)


async def test_begin_pull_passes_the_result_to_its_callback_and_needs_an_open_connection():
    fields = {"nextBeginOffset": "4", "minOffset": "0", "maxOffset": "9", "suggestWhichBrokerId": "0"}
    results = []
    async with scripted({11: (0, fields, b"records", "FOUND")}) as (_, address, pool):
        client = StoreClient(pool, address)
        assert not client.begin_pull(PULL, results.append, 30)
        assert results == []
        await pool.get(address, "bulk")
        assert client.begin_pull(PULL, results.append, 30)
        await eventually(lambda: results)
    assert results == [(0, 4, 0, 9, "FOUND", b"records", 0)]


async def test_begin_pull_passes_refusals_and_lost_connections_to_its_callback():
    results = []
    async with scripted({11: (17, None, b"", "no topic")}) as (_, address, pool):
        await pool.get(address, "bulk")
        assert StoreClient(pool, address).begin_pull(PULL, results.append, 30)
        await eventually(lambda: results)
        assert "code 17: no topic" in str(results[0])
    async with scripted() as (_, address, pool):
        connection = await pool.get(address, "bulk")
        assert StoreClient(pool, address).begin_pull(PULL, results.append, 30)
        connection.close()
        assert len(results) == 2
        assert isinstance(results[1], ConnectionLost)


async def test_the_timeout_of_a_held_pull_exceeds_its_hold():
    async with scripted() as (_, address, pool):
        client = StoreClient(pool, address, timeout_seconds=0.05)
        task = asyncio.ensure_future(client.pull(PULL))
        await eventually(lambda: pool.get_nowait(address, "bulk") is not None)
        connection = pool.get_nowait(address, "bulk")
        await eventually(lambda: connection.open_calls == 1)
        ((_, deadline, started),) = connection._calls._pending.values()
        assert deadline - started == pytest.approx(5.1)
        task.cancel()


OFFSET = (0, {"offset": "17"})


@pytest.mark.parametrize(
    ("ask", "code", "answer", "result", "fields"),
    [
        (lambda c: c.max_offset("T", 1), 30, OFFSET, 17, {"topic": "T", "queueId": "1"}),
        (lambda c: c.min_offset("T", 1), 31, OFFSET, 17, {"topic": "T", "queueId": "1"}),
        (lambda c: c.search_offset("T", 1, 5, "UPPER"), 29, OFFSET, 17, {"timestamp": "5", "boundaryType": "UPPER"}),
        (lambda c: c.earliest_store_time("T", 1), 32, (0, {"timestamp": "-1"}), -1, {"queueId": "1"}),
        (lambda c: c.consumer_offset("g", "T", 1), 14, OFFSET, 17, {"consumerGroup": "g"}),
        (lambda c: c.consumer_offset("g", "T", 1), 14, (22,), None, {}),
        (lambda c: c.commit_offset("g", "T", 1, 9), 15, (0,), None, {"commitOffset": "9"}),
        (lambda c: c.view_message(88), 33, (0, None, b"record"), b"record", {"offset": "88"}),
        (lambda c: c.query_messages(QueryMessageHeader(topic="T", key="k", max_num=1, begin_timestamp=0, end_timestamp=9)),
         12, (22,), b"", {"key": "k"}),
    ],
)  # fmt: skip
async def test_queue_queries_return_their_typed_answers(ask, code, answer, result, fields):
    async with scripted({code: answer}) as (script, address, pool):
        assert await ask(StoreClient(pool, address)) == result
        assert fields.items() <= script.last.ext.items()


@pytest.mark.parametrize(
    "ask",
    [lambda c: c.max_offset("T", 1), lambda c: c.consumer_offset("g", "T", 1), lambda c: c.view_message(1)],
)
async def test_any_other_code_is_a_refusal(ask):
    answers = dict.fromkeys((30, 14, 33), (1, None, b"", "broken"))
    async with scripted(answers) as (_, address, pool):
        with pytest.raises(BrokerRefused, match="broken"):
            await ask(StoreClient(pool, address))


async def test_a_oneway_commit_is_sent_without_waiting():
    async with scripted() as (script, address, pool):
        await StoreClient(pool, address).commit_offset_oneway("g", "T", 0, 5)
        await eventually(lambda: script.asked)
    assert (script.last.code, script.last.is_oneway, script.last.ext["commitOffset"]) == (15, True, "5")


async def test_is_reachable_reports_whether_a_connection_can_be_made():
    async with scripted() as (_, address, pool):
        assert await StoreClient(pool, address).is_reachable()
    other = ConnectionPool()
    assert not await StoreClient(other, address).is_reachable()
    await other.close()
