"""The fast path answers receives and acknowledgements like the slow path, and no message that reached no client stays leased."""

import asyncio
import json

import pytest
from gateway_fast_line import ACK, RECEIVE, SEND, ended, line_to, shown

from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio
JSON = "content-type: application/json"
PLAIN = "x-request-id: plain"
"""A head with it is never learned."""


async def put(line, count: int, size: int = 4) -> None:
    for n in range(count):
        await line.post(b'{"messages":[{"body":"%s"}]}' % (b"%d" % n * size), JSON, path=SEND)


async def lease(line, body: bytes, *headers: str):
    answer = await line.post(body, *(headers or (JSON,)), path=RECEIVE)
    assert answer[0] == 200
    return [one["receiptHandle"] for one in json.loads(answer[2])["messages"]]


def acks(*handles: str) -> bytes:
    return json.dumps({"acks": [{"receiptHandle": one} for one in handles]}).encode()


async def known(line) -> None:
    """Make the heads of both calls known, with nothing leased."""
    for _ in range(2):
        await lease(line, b'{"maxMessages":1}')
        await line.post(acks("?"), JSON, path=ACK)
    line.fast.clear()


async def test_the_fast_path_answers_both_calls(system):
    async with line_to(system) as line:
        await known(line)
        await put(line, 7)
        store = system.leases.stores["broker-a"]
        store.expire()
        handles = await lease(line, b'{"maxMessages":4}')
        assert len(handles) == 4
        answer = json.loads((await line.post(acks(*handles[:3]), JSON, path=ACK))[2])
        assert answer == {"results": [{"status": "acked"}] * 3}
        assert (line.fast[RECEIVE], line.fast[ACK]) == (1, 1)
        store.expire()
        answers = [shown(await line.post(acks(*handles), JSON, *more, path=ACK)) for more in ((), (PLAIN,))]
        assert answers[0] == answers[1]
        assert [one["status"] for one in answers[0][2]] == ["acked"] * 3 + ["leaseExpired"]
        assert line.fast[ACK] == 2


@pytest.mark.parametrize(
    "failure",
    [
        StoreRefused(1, "?"),
        StoreRefused(2, "busy"),
        StoreRefused(16, "the group may not read"),
        StoreRefused(17, "no topic"),
        PeerAway("broker-a", True, "no answer"),
        PeerAway("broker-a", False, "not connected"),
    ],
)
async def test_the_fast_path_answers_a_refusal_as_the_slow_path_does(system, failure):
    async with line_to(system) as line:
        await put(line, 3)
        handles = await lease(line, b'{"maxMessages":3}')
        await known(line)
        for path, body in ((RECEIVE, b'{"maxMessages":1}'), (ACK, acks(*handles)), (ACK, acks(handles[0]))):
            answers = []
            for more in ((), (PLAIN,)):
                system.clocks.advance(5)
                assert (await line.post(b'{"messages":[{"body":"x"}]}', JSON, path=SEND))[0] == 200
                system.stores["broker-a"].refuse = failure
                answers.append(shown(await line.post(body, JSON, *more, path=path)))
                system.stores["broker-a"].refuse = None
            assert answers[0] == answers[1]
            assert answers[0][0] >= 400 or path == ACK
        assert (line.fast[RECEIVE], line.fast[ACK]) == (1, 2)


async def test_a_store_with_too_few_messages_is_followed_by_the_next(pair):
    async with line_to(pair) as line:
        await put(line, 8)
        for _ in range(2):
            await line.post(b'{"maxMessages":1}', JSON, path=RECEIVE)
        for store in pair.leases.stores.values():
            store.expire()
        assert len(await lease(line, b'{"maxMessages":8,"waitSeconds":1}')) == 8
        assert line.fast[RECEIVE] == 2
        assert [len(store.asks) for store in pair.leases.stores.values()].count(0) == 0


async def test_a_receive_that_finds_nothing_waits(system):
    async with line_to(system) as line:
        await known(line)
        receiving = asyncio.ensure_future(lease(line, b'{"maxMessages":2,"waitSeconds":30}'))
        store = system.leases.stores["broker-a"]
        while not store.waits:
            await asyncio.sleep(0.01)
        async with line_to(system) as other:
            await put(other, 1)
        assert len(await asyncio.wait_for(receiving, 60)) == 1


@pytest.mark.parametrize("encoding", ["accept-encoding: gzip", "accept-encoding: gzip;q=0", "a: 1"])
@pytest.mark.parametrize("size", [4, 5000])
async def test_the_fast_path_packs_large_answers_as_the_slow_path_does(system, encoding, size):
    async with line_to(system) as line:
        await put(line, 1, size)
        heads = []
        for more in ((), (), (PLAIN,)):
            status, headers, _body = await line.post(b"{}", JSON, encoding, *more, path=RECEIVE)
            varying = {"date", "x-request-id", "content-length"}
            heads.append((status, [(name, "" if name in varying else value) for name, value in headers]))
            system.leases.stores["broker-a"].expire()
        assert heads[0] == heads[1] == heads[2]


async def test_messages_that_reach_no_client_are_given_back_at_once(system):
    async with line_to(system) as line:
        await known(line)
        await put(line, 3)
        store = system.leases.stores["broker-a"]
        store.expire()
        store.gate = asyncio.Event()
        _reader, writer = await asyncio.open_connection("127.0.0.1", line.port)
        head = f"POST {RECEIVE} HTTP/1.1\r\nhost: gateway\r\ncontent-length: 2\r\n{JSON}\r\n\r\n"
        writer.write(head.encode() + b"{}")
        await writer.drain()
        while not store.tasks or store.tasks[-1].done():
            await asyncio.sleep(0.01)
        writer.transport.abort()
        await ended(writer)
        while len(line.http.connections) > 1:
            await asyncio.sleep(0.01)
        store.gate.set()
        async with asyncio.timeout(60):
            while len(store.released) < 3:
                await asyncio.sleep(0.01)
        assert len(await lease(line, b"{}")) == 3
