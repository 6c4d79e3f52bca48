"""Metrics of the request classes: requests in flight, waiting, refused. Read on demand."""

from collections.abc import Callable

from broker_store.requests.request_classes import RequestClass
from gantry_chassis.metrics import Labels, Metrics, Readings

_NAME = ("class",)


def watch_classes(metrics: Metrics, classes: dict[str, RequestClass], now_ms: Callable[[], int]) -> None:
    """Register every class by its name. `now_ms` is the clock that requests are entered with."""

    def each(read: Callable[[RequestClass], float]) -> Callable[[], Readings]:
        def readings() -> dict[Labels, float]:
            return {(name,): read(requests) for name, requests in classes.items()}

        return readings

    gauges: tuple[tuple[str, str, Callable[[RequestClass], float]], ...] = (
        ("in_flight", "Requests in flight.", lambda requests: requests.in_flight),
        ("capacity", "Most requests in flight.", lambda requests: requests.capacity),
        ("head_wait_seconds", "Wait of the oldest request.", lambda one: one.head_wait_ms(now_ms()) / 1000),
    )
    counted: tuple[tuple[str, str, Callable[[RequestClass], float]], ...] = (
        ("refused_full", "Requests refused: too many in flight.", lambda requests: requests.refused_full),
        ("refused_late", "Requests refused: they waited too long.", lambda requests: requests.refused_late),
        ("oneway_dropped", "One-way requests dropped: a flood.", lambda requests: requests.oneway_dropped),
    )
    for name, help_text, read in gauges:
        metrics.gauge(f"gantry_store_requests_{name}", help_text, each(read), _NAME)
    for name, help_text, read in counted:
        metrics.counted(f"gantry_store_requests_{name}", help_text, each(read), _NAME)
