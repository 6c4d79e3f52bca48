"""The gateway's metrics: calls by route and status, their durations, messages in and out, held pulls."""

from collections.abc import Callable

from gantry_chassis.metrics import Counter, Histogram, Metrics


class CallMetrics:
    """Counts calls. Caches the labelled counters of hot routes."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self.metrics = metrics
        self.clock = clock
        """Seconds; measures the duration of calls."""
        self._calls = metrics.counters("gateway_calls", "HTTP calls answered.", ("route", "status"))
        self._seconds = metrics.histograms("gateway_call_seconds", "Duration of HTTP calls.", ("route",))
        self._hot: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count one call."""
        pair = self._hot.get((route, status))
        if pair is None:
            pair = self._hot[route, status] = (
                self._calls.labels(route, str(status)),
                self._seconds.labels(route),
            )
        pair[0].value += 1
        pair[1].observe(seconds)

    def show(self, *, sent: Callable[[], int], pulled: Callable[[], int], held: Callable[[], int]) -> None:
        """Register the counters of the send and pull routes."""
        self.metrics.counted("gateway_messages_sent", "Messages acknowledged.", sent)
        self.metrics.counted("gateway_messages_pulled", "Messages answered to pulls.", pulled)
        self.metrics.gauge("gateway_pulls_held", "Pulls that wait for a message.", held)

    def show_leases(
        self, *, received: Callable[[], int], settled: Callable[[], int], waiting: Callable[[], int]
    ) -> None:
        """Register the counters of receive and acknowledge."""
        self.metrics.counted("gateway_messages_received", "Messages given out on lease.", received)
        self.metrics.counted("gateway_handles_settled", "Receipt handles answered.", settled)
        self.metrics.gauge("gateway_receives_held", "Receives that wait for a message.", waiting)
