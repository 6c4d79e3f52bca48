"""The advice of an error fits its cause."""

import re
from pathlib import Path

import pytest
from scripted_cluster import Broker, cluster

from gantrymq import Message, NoRoute, Producer, PullConsumer, Refused
from gantrymq.errors import _ADVICE_OF_REASON

pytestmark = pytest.mark.anyio
PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"


def test_each_reason_has_its_own_advice() -> None:
    line = next(
        line for line in PROTOCOL.read_text().splitlines() if line.startswith("| answer to a refusal")
    )
    reasons = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", line))
    assert "IDEMPOTENCY_CONFLICT" in reasons
    assert reasons <= set(_ADVICE_OF_REASON)


def test_a_key_conflict_advises_a_new_key_and_a_too_large_message_a_shorter_one() -> None:
    conflict = Refused(13, "the key was used", "sending to T", "IDEMPOTENCY_CONFLICT")
    assert "give new content a new key" in str(conflict)
    assert "shorten" not in str(conflict)
    assert "shorten the message" in str(Refused(13, "the limit is 4194304", "sending to T"))


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("%RETRY%billing", "brokers create it when a consumer of group billing joins"),
        ("%DLQ%billing", "brokers create it with the first dead letter of group billing"),
        ("orders", "create it first"),
    ],
)
async def test_a_topic_that_brokers_create_need_not_be_created(topic: str, words: str) -> None:
    async with (
        cluster(Broker("a"), topics=(), creates=False) as (_, address),
        Producer("g", nameservers=address) as producer,
        PullConsumer("audit", nameservers=address) as consumer,
    ):
        for ask in (producer.queues(topic), consumer.queues(topic), producer.send(Message(topic, b"x"))):
            with pytest.raises(NoRoute) as refused:
                await ask
            assert words in str(refused.value)
            assert ("create it first" in str(refused.value)) == (topic == "orders")


async def test_a_topic_created_by_a_send_gets_the_common_default() -> None:
    broker = Broker("a")
    async with (
        cluster(broker, topics=()) as (_, address),
        Producer("g", nameservers=address) as producer,
    ):
        await producer.send(Message("New", b"x"))
    assert broker.sends[0].ext["d"] == "8"
