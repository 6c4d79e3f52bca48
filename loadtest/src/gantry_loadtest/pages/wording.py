"""Formats numbers as text, the same in every profile. Pure."""

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.latencies import Latencies


def ms(value: float) -> str:
    """Return a time with its significant digits."""
    return f"{value:.1f} ms" if value < 1000 else f"{value / 1000:.2f} s"


def latency(found: Latencies) -> str:
    """Return median, 99th percentile and longest."""
    if not found.count:
        return "no time that was seen"
    return (
        f"{ms(found.percentile(0.5))} (p50), {ms(found.percentile(0.99))} (p99), {ms(found.max_ms)} at most"
    )


def rate(findings: Findings) -> str:
    """Return the acknowledged share of the intended rate."""
    return (
        f"{findings.per_second('acknowledged'):.1f} sends a second were acknowledged "
        f"of {findings.per_second('intended'):.1f} intended, over {findings.load_seconds:.0f} s"
    )


def sends(findings: Findings) -> str:
    """Return what a send took."""
    return f"A send took {latency(findings.of('send'))}, counted from the instant it was intended."


def deliveries(findings: Findings) -> str:
    """Return how long a message took from its send to its consumer."""
    return f"From the intended instant to the consumer: {latency(findings.of('delivery'))}."


def recovered_after(
    findings: Findings, measure: str, begin: float, end: float, usual_ms: float
) -> float | None:
    """Return how many seconds after `begin` the 99th percentile is at most twice as usual; None: not before `end`."""
    moment = begin
    while moment < end:
        found = findings.between(measure, moment, moment + findings.bin_seconds)
        if found.count and found.percentile(0.99) <= max(2 * usual_ms, usual_ms + 20):
            return moment - begin
        moment += findings.bin_seconds
    return None
