"""The settings that clients get: what each official client needs to start, and what the group decides."""

from __future__ import annotations

import pytest

from gateway.grpc.proto.duration import duration_ms
from gateway.grpc.proto.enums import ClientType, Language
from gateway.grpc.proto.settings import UA, Metric, Publishing, Settings, Subscription
from gateway.grpc.telemetry.settings_answers import consumer_settings, producer_settings
from gateway.ports.stores import GroupSettings

LIST, GROWING = "list:1500ms,3000ms", "exponential:initial=2s,multiplier=3,max=30s"


def group(policy="", order="", retries=3):
    return GroupSettings("g1", True, True, retries, 1, policy, order)


def consumer(language=Language.JAVA, kind=ClientType.PUSH_CONSUMER):
    return Settings(client_type=kind, user_agent=UA(language=language), subscription=Subscription())


def delays(answer):
    return [duration_ms(one) for one in answer.backoff_policy.customized_backoff.next]


def test_a_producer_gets_a_size_a_check_and_exponential_retries():
    sent = Settings(publishing=Publishing(max_body_size=134217728), metric=Metric(on=True))
    answer = producer_settings(sent)
    assert answer.publishing.max_body_size == 4194304
    assert answer.publishing.validate_message_type
    assert answer.backoff_policy.max_attempts == 3
    backoff = answer.backoff_policy.exponential_backoff
    assert (duration_ms(backoff.initial), duration_ms(backoff.max), backoff.multiplier) == (10, 1000, 2)
    assert not answer.metric.on
    assert sent.publishing.max_body_size == 134217728


def test_a_consumer_gets_what_it_needs_to_start():
    answer = consumer_settings(consumer(), None).subscription
    assert (answer.fifo, answer.receive_batch_size, duration_ms(answer.long_polling_timeout)) == (False, 32, 20_000)  # fmt: skip
    assert answer.HasField("fifo")
    assert not answer.HasField("lite_subscription_quota")


def test_a_lite_consumer_gets_its_limits():
    answer = consumer_settings(consumer(kind=ClientType.LITE_PUSH_CONSUMER), None).subscription
    assert answer.lite_subscription_quota > 0
    assert answer.max_lite_topic_size == 64


def test_order_and_attempts_are_the_groups():
    answer = consumer_settings(consumer(), group(order="shardingKey"))
    assert answer.subscription.fifo
    assert answer.backoff_policy.max_attempts == 4
    assert consumer_settings(consumer(), None).backoff_policy.max_attempts == 17


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (LIST, [1500, 3000]),
        (GROWING, [2000, 6000, 18_000, 30_000]),
        ("exponential:initial=1s,multiplier=1,max=1h", [1000]),
    ],
)
def test_python_gets_a_list_of_delays(policy, expected):
    assert delays(consumer_settings(consumer(Language.PYTHON), group(policy))) == expected


def test_a_group_without_a_policy_has_rocketmqs_delays():
    for language in (Language.PYTHON, Language.JAVA):
        found = delays(consumer_settings(consumer(language), group()))
        assert found[:5] == [1000, 5000, 10_000, 30_000, 60_000]
        assert (len(found), found[-1]) == (18, 7_200_000)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(LIST, (1500, 3000, 2)), (GROWING, (2000, 30_000, 3)), ("", (1000, 7_200_000, 2))],
)
def test_node_gets_exponential_growth(policy, expected):
    backoff = consumer_settings(consumer(Language.NODE_JS), group(policy)).backoff_policy.exponential_backoff
    assert (duration_ms(backoff.initial), duration_ms(backoff.max), backoff.multiplier) == expected


def test_the_others_get_the_policy_as_it_is():
    assert delays(consumer_settings(consumer(), group(LIST))) == [1500, 3000]
    answer = consumer_settings(consumer(), group(GROWING)).backoff_policy
    assert answer.WhichOneof("strategy") == "exponential_backoff"
