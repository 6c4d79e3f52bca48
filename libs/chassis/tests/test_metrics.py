"""Prometheus reads what plain additions count."""

import asyncio

from gantry_chassis.metrics import Metrics


def lines(metrics: Metrics) -> dict[str, float]:
    text = asyncio.run(metrics.text()).decode()
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    }


def test_counters_show_their_labels() -> None:
    metrics = Metrics()
    sent = metrics.counters("gantry_sent", "Messages sent.", ("topic",))
    sent.labels("orders").value += 3
    sent.labels("orders").add(2)
    metrics.counter("gantry_restarts", "Restarts.").value += 1
    assert lines(metrics) == {'gantry_sent_total{topic="orders"}': 5, "gantry_restarts_total": 1}


def test_a_forgotten_child_is_no_longer_shown() -> None:
    metrics = Metrics()
    family = metrics.counters("gantry_sent", "Messages sent.", ("topic",))
    family.labels("gone").value += 1
    family.forget("gone")
    assert lines(metrics) == {}


def test_histogram_buckets_are_cumulative_and_inclusive() -> None:
    metrics = Metrics()
    latency = metrics.histogram("gantry_seconds", "Latency.", (0.1, 1.0))
    latency.observe(0.1)
    latency.observe(0.5, times=2)
    latency.observe(7)
    assert lines(metrics) == {
        'gantry_seconds_bucket{le="0.1"}': 1,
        'gantry_seconds_bucket{le="1.0"}': 3,
        'gantry_seconds_bucket{le="+Inf"}': 4,
        "gantry_seconds_count": 4,
        "gantry_seconds_sum": 8.1,
    }


def test_gauges_are_read_at_the_scrape() -> None:
    metrics = Metrics()
    value = 1.0
    metrics.gauge("gantry_held", "Held pulls.", lambda: value)
    metrics.gauge("gantry_lag", "Lag.", lambda: {("g", "0"): 4.0}, ("group", "queue"))
    value = 2.0
    assert lines(metrics) == {"gantry_held": 2, 'gantry_lag{group="g",queue="0"}': 4}
