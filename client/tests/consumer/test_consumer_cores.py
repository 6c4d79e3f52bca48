"""The decisions of consumers, one by one: outcomes, first offsets, subscriptions, changed shares, rates."""

import pytest
from received import received

from gantry_wire.bodies.clients import ConsumeFromWhere
from gantry_wire.messages.properties import tags_code
from gantry_wire.subscription import SQL92
from gantrymq.consumer.push.consumer import PushConsumer
from gantrymq.consumer.retrying.outcomes import (
    ConsumeResult,
    Outcome,
    attempts_max_of,
    plan_orderly,
    split,
    understand,
)
from gantrymq.consumer.shared.rebalancing import change
from gantrymq.consumer.shared.starting import At, AtEnd, AtTime, first_offset
from gantrymq.consumer.shared.statistics import TopicStatistics
from gantrymq.consumer.subscriptions.making import make_subscription
from gantrymq.consumer.subscriptions.subscription import Subscription, describe_conflicts
from gantrymq.errors import ConfigurationError
from gantrymq.message import MessageQueue

FAILED = Outcome("no")


@pytest.mark.parametrize("returned", [None, ConsumeResult.SUCCESS])
def test_nothing_and_success_mean_success(returned: object) -> None:
    assert understand(returned).failure is None


@pytest.mark.parametrize(
    "returned", [ConsumeResult.RECONSUME_LATER, False, True, 0, "SUCCESS!", [], object()]
)
def test_anything_else_means_again(returned: object) -> None:
    assert understand(returned).failure


@pytest.mark.parametrize(
    ("outcome", "ack_index", "broadcasting", "done"),
    [
        (understand(None), None, False, 4),
        (understand(None), 1, False, 2),
        (understand(None), -1, False, 0),
        (understand(None), 99, False, 4),
        (FAILED, None, False, 0),
        (FAILED, 2, False, 0),
        (FAILED, None, True, 4),
    ],
)
def test_messages_after_the_ack_index_are_delivered_again(
    outcome: Outcome, ack_index: int | None, broadcasting: bool, done: int
) -> None:
    messages = [received(n) for n in range(4)]
    parts = split(outcome, messages, ack_index, broadcasting=broadcasting)
    assert [*parts.done, *parts.again] == messages
    assert len(parts.done) == done


def test_an_orderly_queue_pauses_and_makes_dead_letters_after_the_last_attempt() -> None:
    fresh, worn = received(1), received(2, reconsumed=3)
    assert plan_orderly(understand(None), [fresh], 3, 1.0).rest_seconds is None
    assert plan_orderly(FAILED, [fresh], 3, 1.0).rest_seconds == 1.0
    assert plan_orderly(FAILED, [fresh], 3, 99.0).rest_seconds == 30.0
    assert plan_orderly(FAILED, [fresh], 3, 0.0).rest_seconds == 0.01
    assert plan_orderly(FAILED, [worn], 3, 1.0).bury
    assert not plan_orderly(FAILED, [worn], -1, 1.0).bury, "-1: for ever"
    assert not plan_orderly(FAILED, [worn, fresh], 3, 1.0).bury, "the fresh one has tries left"
    assert attempts_max_of(None, orderly=True) == -1
    assert attempts_max_of(None, orderly=False) == 16
    assert attempts_max_of(5, orderly=True) == 5


@pytest.mark.parametrize(
    ("start", "topic", "committed", "where"),
    [
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, "T", 7, At(7)),
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, "T", None, AtEnd()),
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, "%RETRY%g", None, At(0)),
        (ConsumeFromWhere.CONSUME_FROM_MAX_OFFSET, "T", None, AtEnd()),
        (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, "T", None, At(0)),
        (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, "T", 7, At(7)),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, "T", None, AtTime(5)),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, "T", 0, At(0)),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, "%RETRY%g", None, AtEnd()),
    ],
)
def test_a_queue_starts_where_the_java_client_starts_it(
    start: ConsumeFromWhere, topic: str, committed: int | None, where: object
) -> None:
    assert first_offset(start, 5, topic, committed) == where


def test_tags_are_compared_again_because_brokers_compare_hashes() -> None:
    subscription = Subscription("T", "AaAa || other")
    assert tags_code("AaAa") == tags_code("BBBB")
    assert subscription.is_wanted(received(1, TAGS="AaAa"))
    assert not subscription.is_wanted(received(1, TAGS="BBBB"))
    assert not subscription.is_wanted(received(1))
    assert Subscription("T").is_wanted(received(1))
    data = subscription.data()
    assert (data.tags_set, data.code_set) == (["AaAa", "other"], [tags_code("AaAa"), tags_code("other")])


def test_differences_between_members_are_described() -> None:
    mine = {"T": Subscription("T", "a || b"), "%RETRY%g": Subscription("%RETRY%g")}
    same = {"T": Subscription("T", "b||a").data()}
    assert describe_conflicts(mine, same) == []
    other_tags = {"T": Subscription("T", "a").data()}
    assert "'a || b'" in describe_conflicts(mine, other_tags)[0]
    assert "'a'" in describe_conflicts(mine, other_tags)[0]
    by_sql = {"T": Subscription("T", "n > 1", SQL92).data()}
    assert "SQL92" in describe_conflicts(mine, by_sql)[0]
    other_topic = {"U": Subscription("U").data()}
    assert describe_conflicts(mine, other_topic) == ["this member subscribes T, another one U"]


@pytest.mark.parametrize(
    ("topic", "expression", "sql"),
    [
        ("", "*", None),
        (7, "*", None),
        ("T", None, None),
        ("T", "*", 7),
        ("T/x", "*", None),
        ("T", "||", None),
        ("T", "a", "n > 1"),
        ("T", "*", " "),
    ],
)
def test_wrong_subscriptions_are_refused(topic: str, expression: str, sql: str | None) -> None:
    with pytest.raises(ConfigurationError):
        make_subscription("", topic, expression, sql, 1)


def test_a_change_names_only_the_changed_queues() -> None:
    a, b, c = (MessageQueue("T", "b", n) for n in range(3))
    wanted = change([a, b], [c, b])
    assert (wanted.take, wanted.drop) == ([c], [a])


def test_rates_are_those_of_the_last_minute() -> None:
    counts = TopicStatistics(0.0)
    counts.consumed, counts.failed, counts.calls, counts.call_seconds = 1000, 5, 100, 2.0
    counts.sample(100.0)
    counts.consumed, counts.calls, counts.call_seconds = 1600, 160, 2.6
    rates = counts.rates(130.0)
    assert rates.consumed_per_second == pytest.approx(20.0)
    assert rates.call_ms == pytest.approx(10.0)
    assert (rates.failed_per_second, rates.failed_in_hour) == (0.0, 5)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("concurrency", 0),
        ("batch_size", 2.5),
        ("batch_size", "16"),
        ("pull_batch_size", 1025),
        ("queue_messages_max", True),
        ("attempts_max", -2),
        ("suspend_seconds", 31),
        ("consume_timeout", 0),
        ("model", "BROADCASTING"),
        ("start", "CONSUME_FROM_FIRST_OFFSET"),
        ("start", ConsumeFromWhere.CONSUME_FROM_TIMESTAMP),
        ("strategy", "AVG"),
        ("batchsize", 3),
    ],
)
def test_a_wrong_option_is_refused_with_its_name(option: str, value: object) -> None:
    with pytest.raises(
        ConfigurationError, match="start_time" if value is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP else option
    ):
        PushConsumer("g", **{"nameservers": "127.0.0.1:9876", option: value})
