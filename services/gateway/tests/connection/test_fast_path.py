"""The fast path answers requests with known heads like the slow path: same replies, same refusals, same stored messages."""

from __future__ import annotations

import asyncio
import json

import pytest
from gateway_fast_line import ACK, RECEIVE, SEND, ended, line_to, shown
from gateway_memory import MemorySystem
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry_wire.records.message_record import decode_record
from gateway.connection.serving import KEEP_ALIVE_SECONDS
from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio


@pytest.fixture
async def line(system):
    async with line_to(system) as one:
        yield one


def stored(system):
    """Return body and properties, without the id, of every stored message."""
    records = [
        decode_record(record) for queue in system.stores["broker-a"].queues.values() for record in queue
    ]
    records.sort(key=lambda record: record.position)
    return [(record.body, record.properties.split(b"\x02", 1)[1]) for record in records]


text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
message = st.fixed_dictionaries(
    {},
    optional={
        "body": text,
        "bodyBase64": st.sampled_from(["", "AAEC", "?", "eA=="]),
        "tag": st.sampled_from(["a", "*", "a||b", "", "x\x01"]),
        "keys": st.lists(st.sampled_from(["k", "k l", ""]), max_size=3),
        "properties": st.dictionaries(
            st.sampled_from(["a", "b", "WAIT", "TAGS", "c\x02", ""]), text, max_size=3
        ),
        "shardingKey": st.sampled_from(["s", ""]),
        "queueId": st.sampled_from([0, 3, 4, -1, "0", 1.0, 1.5]),
        "broker": st.sampled_from(["broker-a", "broker-z", ""]),
        "delayLevel": st.sampled_from([0, 1, 19]),
        "delayMs": st.sampled_from([0, 5, -1]),
        "deliverAt": st.sampled_from([0, "2026-01-01T00:00:00Z", "soon"]),
        "other": st.just(1),
    },
)
bodies = st.one_of(
    st.lists(message, max_size=3).map(lambda items: json.dumps({"messages": items}).encode()),
    message.map(lambda item: json.dumps({"messages": [item]}, separators=(",", ":")).encode()),
    st.binary(max_size=30),
    st.sampled_from(
        [
            b'{"messages":[{"body":"a","body":"b"}]}',
            b'{"messages":[{"body":"\\ud800"}]}',
            b'{"messages":[],"messages":[{"body":"x"}]}',
            b"[" * 5000,
        ]
    ),
)
kinds = st.lists(
    st.sampled_from(
        [
            "content-type: application/json",
            "Content-Type: application/json; charset=utf-8",
            "content-type: text/plain",
            "content-type: application/x-www-form-urlencoded",
            "content-type: application/cloudevents+json",
            "mq-tag: t",
            "mq-tag: *",
            "mq-queue-id: 1",
            "mq-queue-id: 99",
            "mq-delay-ms: 100",
            "mq-property-a: b",
            "mq-properties: a=1&b=2",
            "mq-keys: k l",
            "mq-unknown: 1",
            "connection: keep-alive",
            "accept-encoding: gzip",
            "host: evil.example",
            "origin: https://evil.example",
            "origin: http://gateway",
            "sec-fetch-site: cross-site",
            "sec-fetch-site: same-origin",
        ]
    ),
    max_size=4,
    unique=True,
)


async def compared(line, cases) -> None:
    system = line.system

    async def post(body, *headers):
        answer = await line.post(body, *headers)
        if dict(answer[1]).get("connection") == "close":
            assert await asyncio.wait_for(line.reader.read(), 60) == b""
            await line.reconnect()
        return shown(answer)

    for body, chosen in cases:
        headers = chosen or ["content-type: application/json"]
        plain = await post(body, *headers, "x-request-id: plain")
        before = stored(system)
        first = await post(body, *headers)  # its head becomes known
        begun = line.known
        known = await post(body, *headers)
        assert line.known == begun + 1
        assert plain == first == known
        new = stored(system)[len(before) :]
        assert new[: len(new) // 2] == new[len(new) // 2 :]


def test_the_fast_and_the_slow_path_answer_and_store_any_send_alike():
    system = MemorySystem()
    system.add_topic("orders")
    with asyncio.Runner() as runner:
        context = line_to(system)
        line = runner.run(context.__aenter__())

        @settings(max_examples=60)
        @given(cases=st.lists(st.tuples(bodies, kinds), min_size=1, max_size=3))
        def compare(cases):
            runner.run(compared(line, cases))

        try:
            compare()
        finally:
            runner.run(context.__aexit__(None, None, None))


async def one_known(line) -> None:
    for _ in range(2):
        assert (await line.post(b'{"messages":[{"body":"x"}]}', "content-type: application/json"))[0] == 200
    assert line.known == 1


@pytest.mark.parametrize(
    "failure",
    [
        StoreRefused(14, "the disk is full", "DISK_FULL"),
        StoreRefused(1, "?"),
        StoreRefused(17, "no topic"),
        StoreRefused(2, "busy"),
        StoreRefused(13, "illegal"),
        PeerAway("broker-a", True, "no answer"),
        PeerAway("broker-a", False, "not connected"),
    ],
)
async def test_the_fast_and_the_slow_path_return_the_same_refusals(line, failure):
    await one_known(line)
    store = line.system.stores["broker-a"]
    one = b'{"messages":[{"body":"x"}]}', "content-type: application/json"
    store.refuse = failure
    known = shown(await line.post(*one))
    store.refuse = None
    line.system.clocks.advance(5)
    await line.post(*one)
    store.refuse = failure
    plain = shown(await line.post(*one, "x-request-id: plain"))
    assert known == plain
    assert known[0] >= 400


async def test_a_message_that_is_certainly_not_stored_goes_to_another_broker(pair):
    async with line_to(pair) as line:
        await one_known(line)
        away, other = pair.stores.values()
        away.away = PeerAway(away.broker, False, "not connected")
        for _ in range(8):
            status, _headers, body = await line.post(
                b'{"messages":[{"body":"x"}]}', "content-type: application/json"
            )
            assert (status, json.loads(body)["results"][0]["broker"]) == (200, other.broker)


async def test_a_keyed_send_takes_the_fast_path_and_is_stored_once(line):
    one = b'{"messages":[{"body":"x","idempotencyKey":"k"}]}', "content-type: application/json"
    answers = [json.loads((await line.post(*one))[2])["results"][0] for _ in range(4)]
    assert line.known == 3
    assert [one.get("duplicate", False) for one in answers] == [False, True, True, True]
    assert len({one["messageId"] for one in answers}) == 1


@pytest.mark.parametrize("sent", [True, False])
async def test_sends_are_fast_again_once_the_store_answers(line, sent):
    store = line.system.stores["broker-a"]

    async def send(message):
        body = json.dumps({"messages": [message]}).encode()
        return (await line.post(body, "content-type: application/json"))[0]

    assert [await send({"body": "x", "idempotencyKey": f"{key}"}) for key in range(3)] == [200] * 3
    store.refuse = PeerAway("broker-a", sent, "no answer")
    assert await send({"body": "x", "idempotencyKey": "3"}) >= 500
    store.refuse = None
    assert await send({"body": "x", "idempotencyKey": "4"}) == 200  # reads route and list again
    before = line.fast[SEND]
    assert [await send({"body": "x", "idempotencyKey": f"{key}"}) for key in range(5, 15)] == [200] * 10
    assert await send({"body": "x"}) == 200
    assert line.fast[SEND] - before == 11


async def test_receive_and_ack_take_the_fast_path(line):
    json_type = "content-type: application/json"
    for n in range(6):
        await line.post(b'{"messages":[{"body":"%d"}]}' % n, json_type)
    begun = line.known
    for _ in range(3):
        status, _headers, body = await line.post(b'{"maxMessages":2}', json_type, path=RECEIVE)
        (one, two) = json.loads(body)["messages"]
        acks = {
            "acks": [{"receiptHandle": m["receiptHandle"]} for m in (one, two)] + [{"receiptHandle": "?"}]
        }
        status, _headers, body = await line.post(json.dumps(acks).encode(), json_type, path=ACK)
        assert status == 200
        assert [r["status"] for r in json.loads(body)["results"]] == ["acked", "acked", "invalidHandle"]
    assert line.known == begun + 4
    for body in (b"{", b'{"acks":[]}', b'{"acks":1}'):
        known = shown(await line.post(body, json_type, path=ACK))
        assert known == shown(await line.post(body, json_type, "x-request-id: r", path=ACK))


async def test_a_known_head_needs_its_token_too(system):
    async with line_to(system, token="secret") as line:
        one, kind = b'{"messages":[{"body":"x"}]}', "content-type: application/json"
        for name in ("x-request-id: plain", "a: 1", "a: 1", "a: 1"):
            assert (await line.post(one, kind, name, "authorization: Bearer secret"))[0] == 200
            for given_token in ("a: 2", "authorization: Bearer Secret"):
                status, headers, _body = await line.post(one, kind, name, given_token)
                assert (status, dict(headers)["connection"]) == (401, "close")
                assert await asyncio.wait_for(line.reader.read(), 60) == b""
                await line.reconnect()
        assert line.known == 6


async def test_known_requests_behind_each_other_are_answered_in_order(line):
    await one_known(line)
    whole = (
        b"POST %s HTTP/1.1\r\nhost: gateway\r\ncontent-length: %d\r\ncontent-type: application/json\r\n\r\n%s"
    )
    for n in range(3):
        bodies = [b'{"messages":[{"body":"x","queueId":%d}]}' % (m % 4) for m in range(4)]
        for body in bodies:
            line.writer.write(whole % (SEND.encode(), len(body), body))
            if n:
                await asyncio.sleep(0.001 * n)
        found = [json.loads((await line.answer())[2])["results"][0]["queueId"] for _ in bodies]
        assert found == [0, 1, 2, 3]


async def test_a_client_that_leaves_gets_its_message_stored_and_nothing_breaks(line):
    await one_known(line)
    _reader, writer = await asyncio.open_connection("127.0.0.1", line.port)
    body = b'{"messages":[{"body":"left"}]}'
    writer.write(
        b"POST %s HTTP/1.1\r\nhost: gateway\r\ncontent-length: %d\r\ncontent-type: application/json\r\n\r\n%s"
        % (SEND.encode(), len(body), body)
    )
    await writer.drain()
    writer.transport.abort()
    await ended(writer)
    assert (await line.post(b'{"messages":[{"body":"x"}]}', "content-type: application/json"))[0] == 200


async def test_a_fast_call_running_at_shutdown_is_answered_and_its_connection_closed(line):
    json_type = "content-type: application/json"
    await line.post(b'{"maxMessages":2}', json_type, path=RECEIVE)
    held = b'{"waitSeconds":30}'
    line.writer.write(
        b"POST %s HTTP/1.1\r\nhost: gateway\r\ncontent-length: %d\r\n%s\r\n\r\n%s"
        % (RECEIVE.encode(), len(held), json_type.encode(), held)
    )
    while line.known == 0:
        await asyncio.sleep(0.01)
    line.gateway.drain()
    closing = asyncio.ensure_future(line.http.close())
    status, headers, _body = await line.answer()
    assert (status, dict(headers)["connection"]) == (200, "close")
    assert await asyncio.wait_for(line.reader.read(), 60) == b""
    await closing


async def test_a_connection_is_kept_while_it_is_used_and_closed_when_silent(line):
    await one_known(line)
    (connection,) = line.http.connections
    await line.post(b'{"messages":[{"body":"x"}]}', "content-type: application/json")
    connection.timeout_keep_alive_handler()
    assert not connection.transport.is_closing()
    connection._answered_at -= KEEP_ALIVE_SECONDS
    connection.timeout_keep_alive_handler()
    assert await asyncio.wait_for(line.reader.read(), 60) == b""


async def test_a_fast_reply_ends_with_a_newline_like_a_slow_one(line):
    json_type = "content-type: application/json"
    for path, body in ((SEND, b'{"messages":[{"body":"x"}]}'), (RECEIVE, b'{"maxMessages":1}')):
        for more in (["x-request-id: plain"], [], []):
            answer = (await line.post(body, json_type, *more, path=path))[2]
            assert answer.endswith(b"}\n")
            handles = [one["receiptHandle"] for one in json.loads(answer).get("messages", [])]
            for handle in handles:
                acks = json.dumps({"acks": [{"receiptHandle": handle}]}).encode()
                assert (await line.post(acks, json_type, *more, path=ACK))[
                    2
                ] == b'{"results":[{"status":"acked"}]}\n'
    assert line.known == 3
