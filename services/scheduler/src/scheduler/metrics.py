"""The scheduler's metrics: plain counters for the hot paths, and Prometheus gauges."""

from __future__ import annotations

from gantry_chassis.metrics import Metrics

LATENESS_SECONDS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 60.0)


class SchedulerMetrics:
    """Counters of one process, over all stores."""

    def __init__(self, metrics: Metrics) -> None:
        self.outcomes = metrics.counters("scheduler_decisions", "Decided messages by outcome.", ("outcome",))
        self.failures = metrics.counters(
            "scheduler_failed_attempts",
            "Failed deliveries, by the store's status.",
            ("status",),
        )
        self.delivered = self.outcomes.labels("delivered")
        self.lateness = metrics.histograms(
            "scheduler_lateness_seconds",
            "Delay from due to delivered, in store time.",
            (),
            LATENESS_SECONDS,
        ).labels()
        self.requests = metrics.counters(
            "scheduler_requests", "Requests by name and answer code.", ("name", "code")
        )
