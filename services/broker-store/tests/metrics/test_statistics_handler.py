"""Request 315: counters under RocketMQ's names."""

import pytest
from memory_store import MemoryPeer

from broker_store.metrics.statistics_handler import StatisticsHandlers
from broker_store.metrics.store_metrics import StoreMetrics
from gantry_chassis.metrics import Metrics
from gantry_wire.bodies.admin import BrokerStatsData
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder


@pytest.fixture
def store_metrics():
    """A minute in which 60 messages arrived, 40 were read in 4 answers, and 2 were sent back."""
    store_metrics = StoreMetrics(Metrics(), 0)
    store_metrics.on_put("orders", 0, 0)
    store_metrics.on_get("orders", "g", 0, 0, 0)
    store_metrics.on_sent_back("orders", "g")
    store_metrics.sample(1_000, 0)
    store_metrics.on_put("orders", 60, 6_000)
    for _ in range(4):
        store_metrics.on_get("orders", "g", 10, 1_000, 0)
    for _ in range(2):
        store_metrics.on_sent_back("orders", "g")
    store_metrics.sample(1_060, 0)
    return store_metrics


def view(store_metrics, name, key):
    frame = encode_request(315, 1, {"statsName": name, "statsKey": key})
    handlers = StatisticsHandlers(store_metrics, "DefaultCluster")
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
def test_a_counter_has_sum_rate_and_average_of_the_last_minute(store_metrics, name, key, total, average):
    minute = view(store_metrics, name, key).stats_minute
    assert (minute.sum, minute.tps, minute.avgpt) == (total, pytest.approx(total / 60), average)


@pytest.mark.parametrize(
    ("name", "key"),
    [("TOPIC_PUT_NUMS", "x"), ("GROUP_GET_NUMS", "orders"), ("BROKER_PUT_NUMS", "other"), ("NONE", "orders")],
)
def test_an_unknown_counter_is_refused_with_rocketmqs_remark(store_metrics, name, key):
    with pytest.raises(RefusedRequest, match=f"^The stats <{name}> <{key}> not exist$") as refused:
        view(store_metrics, name, key)
    assert refused.value.code == 1


def test_a_deleted_topic_or_group_is_not_counted_any_more(store_metrics):
    store_metrics.forget_topic("orders")
    with pytest.raises(RefusedRequest):
        view(store_metrics, "SNDBCK_PUT_NUMS", "orders@g")
    store_metrics.on_sent_back("other", "g")
    store_metrics.forget_group("g")
    with pytest.raises(RefusedRequest):
        view(store_metrics, "SNDBCK_PUT_NUMS", "other@g")
