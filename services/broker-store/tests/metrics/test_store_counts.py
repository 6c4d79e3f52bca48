"""Counters, their names in Prometheus, and the table of code 28."""

import asyncio

from broker_store.metrics.counts import TopicKind
from broker_store.metrics.rates import DAY_S
from broker_store.metrics.request_class_metrics import watch_classes
from broker_store.metrics.runtime_info import RuntimeState, distribution, runtime_info
from broker_store.metrics.store_metrics import LAG_ROWS_MAX, Lag, StoreMetrics, quantile
from broker_store.reading.page_cache_protection import groups_too_far_behind
from broker_store.requests.request_classes import request_classes
from gantry_chassis.metrics import Histogram, Metrics
from gantry_wire.names import GATEWAY_GROUP, TIMER_TOPIC


def made():
    metrics = Metrics()
    return StoreMetrics(metrics, 0), metrics


def test_puts_and_gets_are_counted_by_topic_and_group():
    store_metrics, metrics = made()
    store_metrics.on_put("t", 3, 300)
    store_metrics.on_put("t", 2, 200)
    store_metrics.on_get("t", "g", 4, 400, 1_000)
    text = asyncio.run(metrics.text()).decode()
    assert 'gantry_store_put_messages_total{topic="t"} 5.0' in text
    assert 'gantry_store_put_bytes_total{topic="t"} 500.0' in text
    assert 'gantry_store_get_messages_total{group="g",topic="t"} 4.0' in text
    assert 'gantry_store_group_behind_bytes{group="g",topic="t"} 1000.0' in text
    assert (store_metrics.puts().shown, store_metrics.put_bytes_total, store_metrics.gets().shown) == (
        5,
        500,
        4,
    )


def test_lag_and_other_numbers_are_read_when_asked():
    store_metrics, metrics = made()
    store_metrics.watch_lag(lambda: [Lag("g", "t", 3, 17)])
    store_metrics.watch("gantry_store_x", "Words.", lambda: 4)
    text = asyncio.run(metrics.text()).decode()
    assert 'gantry_store_group_lag_messages{group="g",queue="3",topic="t"} 17.0' in text
    assert "gantry_store_x 4.0" in text


def test_of_very_many_queues_the_worst_are_shown_and_all_are_summed():
    store_metrics, metrics = made()
    store_metrics.watch_lag(lambda: [Lag("g", "t", number, number) for number in range(LAG_ROWS_MAX + 2)])
    text = asyncio.run(metrics.text()).decode()
    assert 'queue="0"' not in text
    assert f'queue="{LAG_ROWS_MAX + 1}",topic="t"}} {LAG_ROWS_MAX + 1}.0' in text
    (line,) = [
        line for line in text.splitlines() if line.startswith("gantry_store_group_topic_lag_messages{")
    ]
    assert float(line.split(" ")[1]) == sum(range(LAG_ROWS_MAX + 2))


def test_a_deleted_topic_or_group_is_not_shown_any_more():
    store_metrics, metrics = made()
    store_metrics.on_put("t", 1, 1)
    store_metrics.on_get("t", "g", 1, 1, 0)
    store_metrics.on_get("u", "h", 1, 1, 0)
    store_metrics.forget_topic("t")
    store_metrics.forget_group("h")
    store_metrics.forget_topic("unknown")
    text = asyncio.run(metrics.text()).decode()
    assert 'topic="t"' not in text
    assert 'group="h"' not in text


def test_totals_do_not_fall_when_something_is_deleted():
    store_metrics, _ = made()
    store_metrics.on_put("t", 7, 70)
    store_metrics.on_get("t", "g", 3, 30, 0)
    store_metrics.sample(100, 0)
    store_metrics.forget_topic("t")
    store_metrics.on_put("u", 1, 10)
    store_metrics.sample(110, 0)
    assert (store_metrics.puts(), store_metrics.gets().shown, store_metrics.put_bytes_total) == (
        (8, 8),
        3,
        80,
    )
    assert store_metrics.put_rate.per_second(110) == 0.1


def test_rates_leave_out_what_is_ours_and_days_what_is_the_systems_too():
    kinds = {"GANTRY_SYS_X": TopicKind.INTERNAL, "rmq_sys_x": TopicKind.SYSTEM}
    store_metrics = StoreMetrics(Metrics(), 0, lambda topic: kinds.get(topic, TopicKind.USER))
    for topic in ("t", "rmq_sys_x", "GANTRY_SYS_X"):
        store_metrics.on_put(topic, 2, 20)
        store_metrics.on_get(topic, "g", 1, 10, 0)
    assert (store_metrics.puts(), store_metrics.gets(), store_metrics.put_bytes_total) == ((4, 2), (2, 1), 40)


def test_flushes_and_latencies_fill_their_histograms():
    store_metrics, metrics = made()
    store_metrics.on_flush(150, 32)
    store_metrics.put_took_us(700, 32)
    text = asyncio.run(metrics.text()).decode()
    assert 'gantry_store_flush_messages_bucket{le="32"} 1.0' in text
    assert 'gantry_store_put_seconds_bucket{le="0.001"} 32.0' in text
    assert store_metrics.put_latency_max_us == 700
    assert store_metrics.put_latency_us(0.99) == 1000


def test_quantiles_are_the_bounds_of_their_buckets():
    histogram = Histogram((1.0, 2.0, 3.0))
    assert quantile(histogram, 0.5) == 0.0
    for value in (0.5, 1.5, 1.5, 9.0):
        histogram.observe(value)
    assert [quantile(histogram, share) for share in (0.25, 0.5, 0.99)] == [1.0, 2.0, 3.0]


def test_the_distribution_speaks_rocketmqs_buckets():
    store_metrics, _ = made()
    for us in (300, 5_000, 5_000, 30_000, 20_000_000):
        store_metrics.put_took_us(us, 1)
    text = distribution(store_metrics.put_latency)
    assert text.startswith("[<=0ms]:1 [0~10ms]:2 [10~50ms]:1 [50~100ms]:0 ")
    assert text.endswith("[10s~]:1")


def test_sums_in_the_table_are_those_counted():
    store_metrics, _ = made()
    store_metrics.on_put("t", 4, 400)
    state = RuntimeState(90_061_000, 0, 5, 9, 7, 2048, 1024, "/s", 3, 2)
    table = runtime_info(store_metrics, state)
    assert (table["putMessageTimesTotal"], table["putMessageAverageSize"]) == ("4", "100.0")
    assert table["runtime"] == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"
    assert table["commitLogDirCapacity"] == "Total : 2.0 KiB, Free : 1.0 KiB."
    assert (table["commitLogMinOffset"], table["commitLogMaxOffset"]) == ("5", "9")


def test_the_table_shows_what_waits_for_its_time():
    store_metrics, _ = made()
    store_metrics.sample(1_000, 0)
    store_metrics.on_put(TIMER_TOPIC, 30, 300)
    store_metrics.timer_rate.sample(1_000, 10)
    store_metrics.sample(1_010, 0)
    store_metrics.timer_rate.sample(1_010, 20)
    store_metrics.timers_waiting, store_metrics.levels = 12, {3: (5, 9)}
    table = runtime_info(store_metrics, RuntimeState(1, 0, 5, 9, 7, 2048, 1024, "/s", 3, 2, 77))
    assert (table["timerCongestNum"], table["timerEnqueueTps"], table["timerDequeueTps"]) == (
        "12",
        "3.0",
        "1.0",
    )
    assert (table["scheduleMessageOffset_3"], table["startAcceptSendRequestTimeStamp"]) == ("5,9", "77")


def test_messages_before_the_first_sample_of_a_topic_are_in_its_rates():
    store_metrics, _ = made()
    store_metrics.sample(1_000, 0)
    store_metrics.on_put("t", 30, 300)
    store_metrics.sample(1_010, 0)
    assert store_metrics.topics["t"].messages_meter.minute(1_010) == (30, 3.0)


def test_groups_beyond_the_limit_are_named_once_with_their_worst_topic():
    store_metrics, _ = made()
    store_metrics.on_get("t", "slow", 1, 1, 50)
    store_metrics.on_get("u", "slow", 1, 1, 90)
    store_metrics.on_get("t", "fast", 1, 1, 5)
    store_metrics.on_get("t", GATEWAY_GROUP, 1, 1, 500)
    assert groups_too_far_behind(store_metrics, 40) == [("slow", 90)]


def test_totals_of_today_and_yesterday_change_at_midnight():
    store_metrics, metrics = made()
    store_metrics.on_put("t", 5, 5)
    store_metrics.sample(100, DAY_S - 1)
    store_metrics.on_put("t", 2, 2)
    store_metrics.sample(101, DAY_S)
    store_metrics.on_put("t", 1, 1)
    text = asyncio.run(metrics.text()).decode()
    assert "gantry_store_put_messages_today 1.0" in text
    assert "gantry_store_put_messages_yesterday 7.0" in text


def test_request_classes_show_what_is_in_flight_and_how_long_it_waits():
    metrics, classes = Metrics(), request_classes()
    watch_classes(metrics, classes, lambda: 5_000)
    classes["pull"].enter(4_200)
    text = asyncio.run(metrics.text()).decode()
    assert 'gantry_store_requests_in_flight{class="pull"} 1.0' in text
    assert 'gantry_store_requests_head_wait_seconds{class="pull"} 0.8' in text
    assert 'gantry_store_requests_head_wait_seconds{class="send"} 0.0' in text
