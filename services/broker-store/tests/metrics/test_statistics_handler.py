"""315: counters under RocketMQ's names."""

import pytest
from memory_store import MemoryPeer

from broker_store.metrics.metrics import StoreMetrics
from broker_store.metrics.statistics_handler import StatisticsHandlers
from gantry_chassis.metrics import Metrics
from gantry_wire.bodies import BrokerStatsData, decode_body
from gantry_wire.encode import encode_request
from gantry_wire.errors import RefusedRequest
from gantry_wire.frame import FrameDecoder, decode_command


@pytest.fixture
def figures():
    """A minute in which 60 messages came in, 40 went out in 4 answers, and 2 came back."""
    figures = StoreMetrics(Metrics(), 0)
    figures.on_put("orders", 0, 0)
    figures.on_get("orders", "g", 0, 0, 0)
    figures.on_sent_back("orders", "g")
    figures.sample(1_000, 0)
    figures.on_put("orders", 60, 6_000)
    for _ in range(4):
        figures.on_get("orders", "g", 10, 1_000, 0)
    for _ in range(2):
        figures.on_sent_back("orders", "g")
    figures.sample(1_060, 0)
    return figures


def view(figures, name, key):
    frame = encode_request(315, 1, {"statsName": name, "statsKey": key})
    handlers = StatisticsHandlers(figures, "DefaultCluster")
    ((_, handle),) = handlers.commands().values()
    reply = handle(MemoryPeer(), decode_command(FrameDecoder().receive(frame)[0]))
    (answer,) = FrameDecoder().receive(reply)
    return decode_body(decode_command(answer).body, BrokerStatsData)


@pytest.mark.parametrize(
    ("name", "key", "total", "average"),
    [
        ("TOPIC_PUT_NUMS", "orders", 60, 1.0),
        ("TOPIC_PUT_SIZE", "orders", 6_000, 100.0),
        ("GROUP_GET_NUMS", "orders@g", 40, 10.0),
        ("GROUP_GET_SIZE", "orders@g", 4_000, 1_000.0),
        ("SNDBCK_PUT_NUMS", "orders@g", 2, 1.0),
        ("BROKER_PUT_NUMS", "DefaultCluster", 60, 0.0),
        ("BROKER_GET_NUMS", "DefaultCluster", 40, 0.0),
    ],
)
def test_a_counter_has_sum_rate_and_average_of_the_last_minute(figures, name, key, total, average):
    minute = view(figures, name, key).stats_minute
    assert (minute.sum, minute.tps, minute.avgpt) == (total, pytest.approx(total / 60), average)


@pytest.mark.parametrize(
    ("name", "key"),
    [("TOPIC_PUT_NUMS", "x"), ("GROUP_GET_NUMS", "orders"), ("BROKER_PUT_NUMS", "other"), ("NONE", "orders")],
)
def test_what_is_not_counted_is_said_in_rocketmqs_words(figures, name, key):
    with pytest.raises(RefusedRequest, match=f"^The stats <{name}> <{key}> not exist$") as refused:
        view(figures, name, key)
    assert refused.value.code == 1


def test_what_was_deleted_is_not_counted_any_more(figures):
    figures.forget_topic("orders")
    with pytest.raises(RefusedRequest):
        view(figures, "SNDBCK_PUT_NUMS", "orders@g")
    figures.on_sent_back("other", "g")
    figures.forget_group("g")
    with pytest.raises(RefusedRequest):
        view(figures, "SNDBCK_PUT_NUMS", "other@g")
