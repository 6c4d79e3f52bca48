"""What fails in the gateway itself is answered with 500 on the fast path and on the slow path, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json

import pytest
from gateway_fast_line import ACK, RECEIVE, SEND, line_to, shown

from gateway.connection.fast_path import FastAnswers
from gateway.http.call import Call
from gateway.receive import acking
from gateway.receive import routes as receive_routes
from gateway.receive.receiving import LeasePass
from gateway.send import routes as send_routes
from gateway.send import sending

pytestmark = pytest.mark.anyio

JSON = "content-type: application/json"
UNKNOWN = "x-request-id: plain"
"""A head with it is never known: its request takes the slow path."""
ONE = b'{"messages":[{"body":"x"}]}'
TWO = b'{"messages":[{"body":"x"},{"body":"y"}]}'
NO_HANDLE = b'{"acks":[{"receiptHandle":"?"}]}'


class Fault(Exception):
    """What nobody foresees."""


def failing(*_arguments, **_options):
    raise Fault


@pytest.fixture
async def line(system):
    async with line_to(system) as one:
        yield one


async def prepared(line) -> bytes:
    """Have every head known; return an acknowledgement of a lease that has ended."""
    for _ in range(2):
        for body in (ONE, TWO):
            await line.post(body, JSON)
        answer = await line.post(b"{}", JSON, path=RECEIVE)
        await line.post(NO_HANDLE, JSON, path=ACK)
        line.system.leases.stores["broker-a"].expire()
    handle = json.loads(answer[2])["messages"][0]["receiptHandle"]
    line.fast.clear()
    return json.dumps({"acks": [{"receiptHandle": handle}]}).encode()


async def on_both_paths(line, path: str, body: bytes, *, is_fast: bool = True):
    """Return the answer of the fast path, which is the same as that of the slow path."""
    fast, slow = [await line.post(body, *headers, path=path) for headers in ((JSON,), (JSON, UNKNOWN))]
    assert line.fast[path] == is_fast
    answers = [shown(answer) for answer in (fast, slow)]
    for (_status, _headers, (problem,)), (_, _, shown_body) in zip(answers, (fast, slow), strict=True):
        assert json.loads(shown_body)["requestId"] in problem.pop("detail")
    assert answers[0] == answers[1]
    return fast


def is_internal_error(answer) -> bool:
    problem = json.loads(answer[2])
    return (answer[0], problem["code"], problem["retryable"]) == (500, "SYSTEM_ERROR", False)


async def settled(line) -> set[asyncio.Task]:
    """Return the tasks that still run once the loop had time to end what is over."""
    for _ in range(10):
        await asyncio.sleep(0)
    return asyncio.all_tasks()


@pytest.mark.parametrize(
    ("module", "name"),
    [(sending, "result_of"), (send_routes, "_only"), (sending.SilentBrokers, "around")],
    ids=["the result", "the reply", "the next broker"],
)
async def test_a_send_whose_result_cannot_be_handled_is_answered(line, monkeypatch, module, name):
    await prepared(line)
    before = await settled(line)
    with monkeypatch.context() as patched:
        if name == "around":
            line.system.stores["broker-a"].away = sending.PeerAway("broker-a", True, "no answer")
        patched.setattr(module, name, failing)
        assert is_internal_error(await on_both_paths(line, SEND, ONE))
    line.system.stores["broker-a"].away = None
    assert await settled(line) == before
    assert (await line.post(ONE, JSON))[0] == 200


async def test_a_batch_whose_result_cannot_be_handled_is_answered(line, monkeypatch):
    await prepared(line)
    before = await settled(line)
    with monkeypatch.context() as patched:
        patched.setattr(sending, "result_of", failing)
        assert is_internal_error(await on_both_paths(line, SEND, TWO, is_fast=False))
    assert await settled(line) == before
    assert (await line.post(TWO, JSON))[0] == 200


@pytest.mark.parametrize(
    ("module", "name"),
    [(LeasePass, "_taken"), (receive_routes, "json_of")],
    ids=["the messages", "the reply"],
)
async def test_a_receive_whose_messages_cannot_be_handled_is_answered_and_gives_them_back(
    line, monkeypatch, module, name
):
    await prepared(line)
    before, store = await settled(line), line.system.leases.stores["broker-a"]
    with monkeypatch.context() as patched:
        patched.setattr(module, name, failing)
        assert is_internal_error(await on_both_paths(line, RECEIVE, b'{"maxMessages":2}'))
    assert await settled(line) == before
    if name == "json_of":  # what cannot be read has no place to give back; its lease ends by time
        assert len(store.released) == 4
    store.expire()
    assert json.loads((await line.post(b"{}", JSON, path=RECEIVE))[2])["messages"]


async def test_messages_of_the_first_broker_are_given_back_if_those_of_the_second_cannot_be_handled(
    pair, monkeypatch
):
    async with line_to(pair) as line:
        await prepared(line)
        seen, taken = [], LeasePass._taken

        def second_fails(*arguments):
            seen.append(arguments[-1])
            return failing() if len(seen) == 2 else taken(*arguments)

        stores = list(pair.leases.stores.values())
        for headers in ((JSON,), (JSON, UNKNOWN)):
            seen.clear()
            for store in stores:
                store.expire()
                store.released.clear()
            with monkeypatch.context() as patched:
                patched.setattr(LeasePass, "_taken", second_fails)
                answer = await line.post(b'{"maxMessages":200}', *headers, path=RECEIVE)
            assert is_internal_error(answer)
            await settled(line)
            first, _second = seen
            assert sum(len(store.released) for store in stores) == len(first.runs) > 0
        assert line.fast[RECEIVE] == 1


@pytest.mark.parametrize("name", ["_other", "_together"], ids=["the statuses", "the handles"])
async def test_an_acknowledgement_that_cannot_be_handled_is_answered(line, monkeypatch, name):
    ended = await prepared(line)
    before = await settled(line)
    with monkeypatch.context() as patched:
        patched.setattr(acking, name, failing)
        assert is_internal_error(await on_both_paths(line, ACK, ended))
    assert await settled(line) == before
    assert (await line.post(ended, JSON, path=ACK))[0] == 200


@pytest.mark.parametrize(("path", "body"), [(SEND, ONE), (RECEIVE, b"{}"), (ACK, NO_HANDLE)])
async def test_a_quick_answer_that_cannot_be_written_becomes_a_500(line, monkeypatch, path, body):
    await prepared(line)
    if path == ACK:
        answer = await line.post(b'{"maxMessages":1}', JSON, path=RECEIVE)
        body = json.dumps(
            {"acks": [{"receiptHandle": json.loads(answer[2])["messages"][0]["receiptHandle"]}]}
        )
        body = body.encode()
    with monkeypatch.context() as patched:
        patched.setattr(FastAnswers, "write_json", failing)
        assert is_internal_error(await line.post(body, JSON, path=path))
    await settled(line)
    messages = sum(map(len, line.system.stores["broker-a"].queues.values()))
    released = line.system.leases.stores["broker-a"].released
    assert len(released) == (messages if path == RECEIVE else 0)
    assert (await line.post(ONE, JSON))[0] == 200


@pytest.mark.parametrize(("path", "body"), [(SEND, ONE), (SEND, TWO), (RECEIVE, b"{}"), (ACK, NO_HANDLE)])
async def test_a_connection_is_closed_if_no_answer_can_be_written(line, monkeypatch, path, body):
    await prepared(line)
    reported = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: reported.append(context["message"])
    )
    with monkeypatch.context() as patched:
        patched.setattr(FastAnswers, "write_json", failing)
        patched.setattr(Call, "answer", failing)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await line.post(body, JSON, path=path)
    assert reported == ["a request could not be answered"]
    await line.reconnect()
    assert (await line.post(ONE, JSON))[0] == 200
