"""The gateway's metrics: calls by route and status, their durations, messages in and out, held pulls."""

from collections.abc import Callable

from gantry_chassis.metrics import Counter, Histogram, Metrics


class CallCounts:
    """Counts the calls of one protocol. Caches the labelled counters of hot calls."""

    def __init__(
        self,
        metrics: Metrics,
        clock: Callable[[], float],
        prefix: str,
        protocol: str,
        labels: tuple[str, str],
    ) -> None:
        """`labels` are what a call's name and its result are called."""
        self.metrics = metrics
        self.clock = clock
        """Seconds; measures the duration of calls."""
        self._calls = metrics.counters(f"{prefix}s", f"{protocol} calls answered.", labels)
        self._seconds = metrics.histograms(f"{prefix}_seconds", f"Duration of {protocol} calls.", labels[:1])
        self._hot: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def count(self, name: str, result: int, seconds: float) -> None:
        """Count one call."""
        pair = self._hot.get((name, result))
        if pair is None:
            pair = self._hot[name, result] = (
                self._calls.labels(name, str(result)),
                self._seconds.labels(name),
            )
        pair[0].value += 1
        pair[1].observe(seconds)


class CallMetrics(CallCounts):
    """Counts HTTP calls, and messages."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        super().__init__(metrics, clock, "gateway_call", "HTTP", ("route", "status"))

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
