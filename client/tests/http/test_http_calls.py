"""HTTP calls without a system: which are retried, with which keys, and the error of each refusal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

import gantrymq
from gantrymq.errors import (
    ConfigurationError,
    ConnectionFailed,
    InvalidMessage,
    NoRoute,
    NotRunning,
    TimedOut,
)
from gantrymq.http import Consumer, GatewayRefused, LeasedMessage, LeaseExpired, Producer
from gantrymq.http.leased import message_body

pytestmark = pytest.mark.anyio
STORED = {
    "status": "SEND_OK", "messageId": "A1", "offsetMessageId": "B2", "broker": "broker-a", "queueId": 3, "queueOffset": 17,
    "durability": "fsync",
}  # fmt: skip
AWAY = {
    "code": "SERVICE_NOT_AVAILABLE",
    "detail": "broker-a is away",
    "status": 503,
    "retryable": True,
    "retryAfterMs": 1,
}
MESSAGE = {
    "messageId": "A1", "topic": "orders", "broker": "broker-a", "queueId": 3, "queueOffset": 17, "offsetMessageId": "B2", "keys": ["o-1"],
    "properties": {"x": "1"}, "reconsumeTimes": 0, "bornTimestamp": "2026-01-01T00:00:00.000Z", "storeTimestamp": "2026-01-01T00:00:00.001Z",
    "receiptHandle": "H1", "invisibleUntil": "2026-01-01T00:00:30.000Z", "deliveryAttempt": 1, "body": "hi",
}  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Script:
    """A gateway that answers what a test says, one call after the other, and remembers what it was asked."""

    def __init__(self, *answers: httpx.Response | type[httpx.TransportError]) -> None:
        self.answers, self.asked, self.bodies = list(answers), [], []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.raw_path.decode()}")
        self.bodies.append(json.loads(request.content or b"{}"))
        answer = self.answers.pop(0)
        if isinstance(answer, httpx.Response):
            return answer
        raise answer("gone", request=request)

    @property
    def keys(self) -> list[str]:
        return [body["messages"][0].get("idempotencyKey") for body in self.bodies]


async def started(client: Producer | Consumer, script: Script) -> None:
    await client.start()
    await client._gateway.close()
    client._gateway._client = httpx.AsyncClient(base_url="http://x", transport=httpx.MockTransport(script))


def ok(body: object) -> httpx.Response:
    return httpx.Response(200, json=body)


def stored(**fields: object) -> httpx.Response:
    return ok({"results": [{**STORED, **fields}]})


async def send(script: Script, **options: object) -> gantrymq.SendResult:
    own = {name: options.pop(name) for name in ("idempotency_key", "timeout") if name in options}
    producer = Producer(http="http://x", **options)
    await started(producer, script)
    try:
        return await producer.send(gantrymq.Message("orders", b"hi"), **own)
    finally:
        await producer.close()


async def test_a_send_returns_the_stored_place() -> None:
    result = await send(script := Script(stored()))
    assert (result.message_id, result.queue, result.queue_offset) == ("A1", ("orders", "broker-a", 3), 17)
    assert script.asked == ["POST /v1/topics/orders/messages"]
    assert script.bodies[0]["messages"][0]["body"] == "hi"
    assert script.keys[0]


async def test_after_a_lost_answer_the_same_key_is_sent_again() -> None:
    result = await send(
        script := Script(httpx.ReadError, httpx.Response(503, json=AWAY), stored(duplicate=True))
    )
    assert result.duplicate
    assert len(set(script.keys)) == 1


async def test_after_a_refusal_another_key_leads_to_another_queue() -> None:
    await send(script := Script(httpx.Response(503, json=AWAY), httpx.ConnectError, stored()))
    assert len(set(script.keys)) == 3


async def test_a_users_own_key_is_kept() -> None:
    await send(script := Script(httpx.Response(503, json=AWAY), stored()), idempotency_key="payment-1")
    assert script.keys == ["payment-1", "payment-1"]


async def test_without_a_key_a_send_with_unknown_outcome_is_not_repeated() -> None:
    with pytest.raises(ConnectionFailed) as failed:
        await send(script := Script(httpx.ReadError), idempotent=False)
    assert failed.value.sent
    assert script.keys == [None]
    await send(script := Script(httpx.ConnectError, stored()), idempotent=False)
    assert script.keys == [None, None]


async def test_retries_are_limited() -> None:
    with pytest.raises(GatewayRefused) as refused:
        await send(script := Script(*[httpx.Response(503, json=AWAY)] * 3), retries=2)
    assert (refused.value.name, refused.value.status, refused.value.retryable) == (
        "SERVICE_NOT_AVAILABLE",
        503,
        True,
    )
    assert refused.value.code == 14
    assert len(script.asked) == 3
    with pytest.raises(GatewayRefused):
        await send(script := Script(httpx.Response(429, json={**AWAY, "retryAfterMs": 60_000})), timeout=5.0)


@pytest.mark.parametrize(
    ("status", "problem", "kind"),
    [
        (404, {"code": "TOPIC_NOT_EXIST", "detail": "no orders"}, NoRoute),
        (400, {"code": "INVALID_PARAMETER", "detail": "too many", "field": "messages[0].keys"}, InvalidMessage),
        (422, {"code": "IDEMPOTENCY_CONFLICT", "detail": "another content"}, GatewayRefused),
        (401, {"code": "UNAUTHORIZED", "detail": "no token"}, GatewayRefused),
        (504, {"code": "UNKNOWN_WHETHER_STORED", "detail": "no answer", "retryable": True}, TimedOut),
    ],
)  # fmt: skip
async def test_a_refusal_raises_the_matching_error(
    status: int, problem: dict[str, object], kind: type[Exception]
) -> None:
    with pytest.raises(kind) as raised:
        await send(Script(httpx.Response(status, json=problem)), retries=0)
    assert str(problem["detail"]) in str(raised.value)
    assert getattr(raised.value, "field", "keys") in {"keys", ""}


async def test_an_answer_of_a_proxy_is_reported() -> None:
    with pytest.raises(GatewayRefused, match="502") as refused:
        await send(Script(httpx.Response(502, text="<html>")), retries=0)
    assert refused.value.retryable


REFUSED = {"code": "SERVICE_NOT_AVAILABLE", "detail": "broker-b is away", "retryable": True}
UNKNOWN = {"code": "UNKNOWN_WHETHER_STORED", "detail": "no answer", "retryable": True}
FATES = {"stored": STORED, "refused": REFUSED, "unknown": UNKNOWN}


@given(
    fates=some.lists(
        some.lists(some.sampled_from(list(FATES)), min_size=6, max_size=6), min_size=1, max_size=4
    )
)
def test_a_batch_reports_each_outcome_and_resumes_without_duplicates_or_losses(fates) -> None:
    """Whatever is refused or unknown, call by call: each message that is unknown keeps its key, none that is stored is sent again."""
    asyncio.run(resume_until_stored([*fates, ["stored"] * 6]))


async def resume_until_stored(fates: list[list[str]]) -> None:
    stored: dict[str, str] = {}
    """By key: what a broker of ours would have."""
    calls = iter(fates)

    def gateway(request: httpx.Request) -> httpx.Response:
        results = []
        for one, fate in zip(json.loads(request.content)["messages"], next(calls), strict=False):
            key, body = one["idempotencyKey"], one["body"]
            duplicate = stored.get(key) == body
            if fate != "refused":
                assert stored.setdefault(key, body) == body
            results.append(
                {**STORED, "messageId": key, "duplicate": duplicate} if fate == "stored" else FATES[fate]
            )
        return ok({"results": results})

    messages = [gantrymq.Message("orders", b"m%d" % n) for n in range(6)]
    producer = Producer(http="http://x")
    await started(producer, gateway)
    incomplete: gantrymq.BatchIncomplete | None = None
    results: list[gantrymq.SendResult] = []
    for _ in fates:
        try:
            results = await (producer.resume(incomplete) if incomplete else producer.send_batch(messages))
            break
        except gantrymq.BatchIncomplete as error:
            incomplete = error
            check_positions(error, stored)
        except GatewayRefused:
            assert incomplete is None, "nothing is stored: the batch is sent again as it is"
    await producer.close()
    assert [stored[result.message_id] for result in results] == [f"m{n}" for n in range(6)]
    assert sorted(stored.values()) == [f"m{n}" for n in range(6)], "none is lost, none is there twice"


def check_positions(incomplete: gantrymq.BatchIncomplete, stored: dict[str, str]) -> None:
    assert len(incomplete.results) == 6
    positions = [*incomplete.stored, *incomplete.not_stored, *incomplete.unknown]
    assert sorted(positions) == list(range(6))
    for n in incomplete.stored:
        assert stored[incomplete.results[n].message_id] == f"m{n}"


async def test_a_batch_without_an_answer_is_unknown_and_resumed_with_its_keys() -> None:
    producer = Producer(http="http://x", retries=1)
    script = Script(httpx.ReadTimeout, httpx.ConnectError, ok({"results": [STORED, STORED]}))
    await started(producer, script)
    messages = [gantrymq.Message("orders", b"1"), gantrymq.Message("orders", b"2")]
    with pytest.raises(
        gantrymq.BatchIncomplete, match="0 of 2 messages were stored, the outcome of 2 is unknown"
    ) as failed:
        await producer.send_batch(messages)
    assert failed.value.unknown == [0, 1]
    assert len(await producer.resume(failed.value)) == 2
    keys = [[one["idempotencyKey"] for one in body["messages"]] for body in script.bodies]
    assert keys[0] == keys[1] == keys[2]
    await producer.close()


async def test_a_refusal_after_an_unknown_outcome_says_that_it_may_be_stored() -> None:
    with pytest.raises(ConnectionFailed, match="may have been carried out") as failed:
        await send(Script(httpx.ReadTimeout, httpx.Response(503, json=AWAY)), retries=1)
    assert failed.value.sent


@pytest.mark.parametrize("status", [404, 400])
async def test_a_final_refusal_after_an_unknown_outcome_says_so_too(status: int) -> None:
    code = {404: "TOPIC_NOT_EXIST", 400: "MESSAGE_ILLEGAL"}[status]
    refused = httpx.Response(status, json={"code": code, "detail": "no", "status": status})
    with pytest.raises(ConnectionFailed, match="may have been carried out") as failed:
        await send(Script(httpx.ReadTimeout, refused))
    assert failed.value.sent


async def test_messages_refused_after_an_unknown_outcome_are_unknown_and_keep_their_keys() -> None:
    """With other keys those that the first try has stored would be stored twice."""
    producer = Producer(http="http://x")
    script = Script(httpx.ReadError, ok({"results": [STORED, REFUSED]}), ok({"results": [STORED]}))
    await started(producer, script)
    with pytest.raises(gantrymq.BatchIncomplete) as incomplete:
        await producer.send_batch([gantrymq.Message("orders", b"1"), gantrymq.Message("orders", b"2")])
    assert (incomplete.value.stored, incomplete.value.unknown) == ([0], [1])
    await producer.resume(incomplete.value)
    keys = [[one["idempotencyKey"] for one in body["messages"]] for body in script.bodies]
    assert keys[0] == keys[1]
    assert keys[2] == keys[0][1:]
    await producer.close()


async def test_a_batch_has_a_key_for_each_message_or_none() -> None:
    producer = Producer(http="http://x")
    await started(producer, script := Script(ok({"results": [STORED, REFUSED]}), ok({"results": [STORED]})))
    messages = [gantrymq.Message("orders", b"1"), gantrymq.Message("orders", b"2")]
    with pytest.raises(InvalidMessage, match="1 keys for 2 messages"):
        await producer.send_batch(messages, idempotency_keys=["a"])
    with pytest.raises(gantrymq.BatchIncomplete, match="1 of 2 messages were stored") as incomplete:
        await producer.send_batch(messages, idempotency_keys=["a", "b"])
    await producer.resume(incomplete.value)
    keys = [[one["idempotencyKey"] for one in body["messages"]] for body in script.bodies]
    assert keys == [["a", "b"], ["b"]]
    with pytest.raises(InvalidMessage, match="number 1 is for topic other"):
        await producer.send_batch([gantrymq.Message("orders", b"1"), gantrymq.Message("other", b"2")])
    with pytest.raises(InvalidMessage, match="a batch has 1 to 1000"):
        await producer.send_batch([])
    await producer.close()


async def test_received_messages_have_the_names_of_the_remoting_ones() -> None:
    consumer = Consumer("g", "orders", "a || b", http="http://x")
    await started(consumer, script := Script(ok({"messages": [MESSAGE]})))
    [message] = await consumer.receive(4, wait=1, invisible=60)
    assert script.asked == ["POST /v1/topics/orders/groups/g/messages:receive"]
    assert script.bodies[0]["filter"] == {"type": "tag", "expression": "a || b"}
    assert (message.body, message.keys, message.queue, message.tag) == (
        b"hi",
        ["o-1"],
        ("orders", "broker-a", 3),
        None,
    )
    assert message.store_timestamp_ms - message.born_timestamp_ms == 1
    assert message.invisible_until == datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
    await consumer.close()


async def test_each_handle_gets_its_result() -> None:
    message = msgspec.convert(MESSAGE, LeasedMessage)
    consumer = Consumer("g", "orders", http="http://x")
    away = {"code": "SERVICE_NOT_AVAILABLE", "detail": "away", "retryable": True}
    answers: list[Callable[[], httpx.Response]] = [
        lambda: ok({"results": [{"status": "acked"}]}),
        lambda: ok({"results": [{"status": "leaseExpired"}]}),
        lambda: ok({"results": [{"status": "invalidHandle"}]}),
        lambda: ok({"results": [away]}),
    ]
    await started(consumer, script := Script(*(make() for make in answers)))
    await consumer.ack(message)
    with pytest.raises(LeaseExpired) as late:
        await consumer.nack(message, delay=1.5, reason="no stock")
    assert late.value.messages == [message]
    assert script.bodies[1] == {"nacks": [{"receiptHandle": "H1", "delaySeconds": 1.5, "reason": "no stock"}]}
    with pytest.raises(InvalidMessage, match="not of g in orders"):
        await consumer.extend(message, invisible=9)
    assert script.bodies[2] == {"extends": [{"receiptHandle": "H1"}], "invisibleSeconds": 9}
    with pytest.raises(GatewayRefused, match="away"):
        await consumer.ack(message)
    with pytest.raises(InvalidMessage, match="give at least one"):
        await consumer.ack()
    await consumer.close()


def test_unsupported_fields_are_refused_before_sending() -> None:
    with pytest.raises(InvalidMessage, match="flag: HTTP has no flag"):
        message_body(gantrymq.Message("t", b"x", flag=1), None, None)
    with pytest.raises(InvalidMessage, match="4194305 bytes; the limit is 4194304"):
        message_body(gantrymq.Message("t", b"x" * 4_194_305), None, None)
    with pytest.raises(InvalidMessage, match="a queue or a sharding key"):
        message_body(
            gantrymq.Message("t", b"x", sharding_key="k"), gantrymq.MessageQueue("t", "broker-a", 0), None
        )
    with pytest.raises(InvalidMessage, match="it belongs to other"):
        message_body(gantrymq.Message("t", b"x"), gantrymq.MessageQueue("other", "broker-a", 0), None)
    binary = message_body(
        gantrymq.Message("t", b"\xff", deliver_at=datetime(2026, 1, 1, tzinfo=UTC)), None, "k"
    )
    assert binary == {"bodyBase64": "/w==", "deliverAt": "2026-01-01T00:00:00.000Z", "idempotencyKey": "k"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, 'pass http="http://127.0.0.1:8080" or set GANTRY_HTTP'),
        ({"http": "localhost:8080"}, "http: must be an address as"),
        ({"http": "http://x", "timeout": 0}, "timeout: 0 is outside"),
        ({"http": "http://x", "retries": True}, "retries: must be a number"),
        ({"http": "http://x", "tries": 3}, "unknown option tries; available: http, token"),
    ],
)  # fmt: skip
def test_wrong_options_are_named(
    options: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GANTRY_HTTP", raising=False)
    with pytest.raises(ConfigurationError) as wrong:
        Producer(**options)
    assert words in str(wrong.value)


async def test_a_client_that_was_not_started_says_so() -> None:
    with pytest.raises(NotRunning, match="use it in `async with`"):
        await Producer(http="http://x").send(gantrymq.Message("t", b"x"))
    with pytest.raises(InvalidMessage, match="idempotency_key: must be a text of 1 to 100 bytes"):
        await Producer(http="http://x").send(gantrymq.Message("t", b"x"), idempotency_key="ä" * 51)
    with pytest.raises(ConfigurationError, match="wait: 31 is outside 0 to 30"):
        await Consumer("g", "t", http="http://x").receive(wait=31)
