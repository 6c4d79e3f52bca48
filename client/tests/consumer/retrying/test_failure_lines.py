"""Each failed message has a log line: its place, its attempt, the reason, and when it is delivered again."""

import asyncio
import logging
import re
from time import monotonic

import pytest
from received import received
from scripted_cluster import cluster, eventually
from scripted_group import MESSAGES, GroupBroker, consumer_at

from gantrymq import ConsumeContext, MessageModel, ReceivedMessage
from gantrymq.consumer.retrying.failures import FailureLog, next_delivery
from gantrymq.consumer.retrying.outcomes import Outcome

pytestmark = pytest.mark.anyio
LINE = re.compile(
    r"group g: attempt (\d+) of message (\S+) of T \(queue broker-a:(\d), offset (\d)\) failed: (.*); (it .*)"
)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, ...]]:
    found = [LINE.fullmatch(record.getMessage()) for record in caplog.records]
    return [each.groups() for each in found if each is not None]


@pytest.mark.parametrize("way", ["coroutine", "thread", "quick"])
async def test_each_message_of_each_failed_call_is_logged(caplog: pytest.LogCaptureFixture, way: str) -> None:
    broker = GroupBroker()

    def plain(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        if messages[0].queue_id:
            context.delay_level = -1
        raise ValueError(f"no {messages[0].queue_offset}")

    async def coroutine(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        plain(messages, context)

    async with cluster(broker) as (_, address):
        consumer = consumer_at(address)
        if way == "coroutine":
            consumer.on_messages(coroutine)
        else:
            consumer.on_messages(plain, quick=way == "quick")
        with caplog.at_level(logging.WARNING, "gantrymq"):
            async with consumer:
                await eventually(lambda: len(broker.back) == 2 * MESSAGES)
    logged = lines(caplog)
    expected = [
        ("1", str(queue), str(n), f"the listener raised ValueError: no {n}")
        for queue in range(2)
        for n in range(MESSAGES)
    ]
    assert sorted((attempt, *rest[:3]) for attempt, _, *rest in logged) == expected
    then = {queue: next_step for _, _, queue, _, _, next_step in logged}
    assert then == {"0": "it is delivered again in 10s (delay level 3)", "1": "it becomes a dead letter"}
    assert any(record.exc_info for record in caplog.records)


async def test_failures_of_orderly_and_slow_listeners_are_logged_alike(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(messages: list[ReceivedMessage]) -> None:
        raise ValueError("never")

    async def hangs(messages: list[ReceivedMessage]) -> None:
        await asyncio.sleep(3600)

    async with cluster(broker := GroupBroker()) as (_, address):
        consumer = consumer_at(address, orderly=True, suspend_seconds=0.01, attempts_max=1)
        consumer.on_messages(fails)
        with caplog.at_level(logging.WARNING, "gantrymq"):
            async with consumer:
                await eventually(lambda: len(broker.back) == 2 * MESSAGES)
    logged = [(attempt, next_step) for attempt, *_, next_step in lines(caplog)]
    assert set(logged) == {
        ("1", "it is delivered again here in 0.01 s, the rest of its queue after it"),
        ("2", "it becomes a dead letter"),
    }
    assert len(logged) == 2 * 2 * MESSAGES
    caplog.clear()
    async with cluster(broker := GroupBroker()) as (_, address):
        consumer = consumer_at(address, consume_timeout=0.1, close_timeout=0.1)
        consumer.on_messages(hangs)
        with caplog.at_level(logging.WARNING, "gantrymq"):
            async with consumer:
                await eventually(lambda: len(broker.back) == 2 * MESSAGES)
    logged = [(reason, next_step) for *_, reason, next_step in lines(caplog)]
    words = "the listener took longer than 0.1 s, its result is ignored"
    assert logged == [(words, "it is delivered again in 10s (delay level 3)")] * 2 * MESSAGES


async def test_unacknowledged_messages_and_broadcast_failures_are_logged(
    caplog: pytest.LogCaptureFixture, tmp_path
) -> None:
    def half(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        context.ack_index = 0

    def fails(messages: list[ReceivedMessage]) -> None:
        raise ValueError("no")

    async with cluster(broker := GroupBroker()) as (_, address):
        consumer = consumer_at(address, batch_size=MESSAGES)
        consumer.on_messages(half, quick=True)
        with caplog.at_level(logging.WARNING, "gantrymq"):
            async with consumer:
                await eventually(lambda: len(broker.back) == 2 * (MESSAGES - 1))
    assert {line[4] for line in lines(caplog)} == {"the listener acknowledged only those before it"}
    assert len(lines(caplog)) == 2 * (MESSAGES - 1)
    caplog.clear()
    async with cluster(GroupBroker()) as (_, address):
        consumer = consumer_at(address, model=MessageModel.BROADCASTING, offsets_dir=str(tmp_path))
        consumer.on_messages(fails, quick=True)
        with caplog.at_level(logging.WARNING, "gantrymq"):
            async with consumer:
                await eventually(lambda: len(lines(caplog)) == 2 * MESSAGES)
    assert {line[5] for line in lines(caplog)} == {
        "it is not delivered again: broadcast messages have no retries"
    }


def test_a_log_line_stays_one_line_whatever_the_sender_wrote(caplog: pytest.LogCaptureFixture) -> None:
    message = received(7, UNIQ_KEY="U\nX", KEYS="order-7 a\x1b[2J", reconsumed=2)
    with caplog.at_level(logging.WARNING, "gantrymq"):
        FailureLog("g", monotonic).write([message], Outcome("no"), ["it becomes a dead letter"])
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert "attempt 3" in record.getMessage()
    assert "order-7" in record.getMessage()


@pytest.mark.parametrize(
    ("level", "reconsumed", "attempts_max", "words"),
    [
        (0, 0, None, "10s (delay level 3)"),
        (0, 15, None, "2h (delay level 18)"),
        (0, 16, None, "dead letter"),
        (0, 99, -1, "2h"),
        (0, 2, 2, "dead letter"),
        (1, 0, None, "1s (delay level 1)"),
        (-1, 0, None, "dead letter"),
    ],
)
def test_the_log_says_when_a_message_is_delivered_again(
    level: int, reconsumed: int, attempts_max: int | None, words: str
) -> None:
    assert words in next_delivery(level, reconsumed, attempts_max)
