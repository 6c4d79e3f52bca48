"""The limits of a run, whether it met them, and the line of JSON that says so. Pure."""

from dataclasses import dataclass, field
from typing import Any

from gantry_loadtest.judging.findings import Findings

CHECKED = ("lost", "duplicates", "early", "disordered", "forbidden", "damaged")
"""What the checks of a run count, each 0 unless something else is allowed."""


@dataclass(frozen=True)
class Limits:
    """The bounds of a verdict; None is unbounded. Latencies are of the profile's own measure."""

    max_lost: int = 0
    max_duplicates: int = 0
    max_early: int = 0
    max_disordered: int = 0
    max_failures: int = 0
    max_refused: int | None = None
    max_p50_ms: float | None = None
    max_p99_ms: float | None = None
    min_rate: float | None = None


@dataclass(frozen=True)
class Totals:
    """Locust's counts: requests without refused ones and checks; failures of requests and of checks."""

    requests: int = 0
    failures: int = 0
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        """Return requests a second of the load."""
        return self.requests / self.seconds if self.seconds > 0 else 0.0


@dataclass
class Outcome:
    """The result of a run."""

    profile: str
    measure: str
    totals: Totals
    findings: Findings
    limits: Limits
    interrupted: bool = False
    shortfalls: list[str] = field(default_factory=list[str])

    @property
    def is_seen(self) -> bool:
        """Whether the profile's own latency was measured: without it the question has no answer."""
        return self.findings.of(self.measure).count > 0

    @property
    def verdict(self) -> str:
        """Return pass, fail, or notSeen where nothing failed and nothing was measured."""
        if self.shortfalls:
            return "fail"
        return "pass" if self.is_seen else "notSeen"

    def to_dict(self) -> dict[str, Any]:
        """Return the line of JSON."""
        counts = self.findings.counts
        latencies = self.findings.of(self.measure)
        return {
            "profile": self.profile,
            "requests": self.totals.requests,
            "failures": self.totals.failures,
            "requestsPerSecond": round(self.totals.per_second, 2),
            "measure": self.measure,
            "p50Ms": round(latencies.percentile(0.5), 2) if self.is_seen else None,
            "p99Ms": round(latencies.percentile(0.99), 2) if self.is_seen else None,
            **{name: counts[name] for name in CHECKED},
            "refused": counts["refused"],
            "notSeen": counts["notSeen"],
            "seconds": round(self.totals.seconds, 1),
            "interrupted": self.interrupted,
            "shortfalls": self.shortfalls,
            "verdict": self.verdict,
        }


def judge(outcome: Outcome) -> Outcome:
    """Return, as texts, where the run misses its limits."""
    limits, counts, totals = outcome.limits, outcome.findings.counts, outcome.totals
    latencies = outcome.findings.of(outcome.measure)
    most: list[tuple[str, float, float | None]] = [
        ("lost", counts["lost"], limits.max_lost),
        ("duplicates", counts["duplicates"], limits.max_duplicates),
        ("early", counts["early"], limits.max_early),
        ("disordered", counts["disordered"], limits.max_disordered),
        ("forbidden", counts["forbidden"], 0),
        ("damaged", counts["damaged"], 0),
        ("refused", counts["refused"], limits.max_refused),
    ]
    failed = totals.failures - sum(counts[name] for name in CHECKED)
    most.append(("failed requests", max(0, failed), limits.max_failures))
    found = [
        f"{name}: {value:g}, {_allowed(limit)}"
        for name, value, limit in most
        if limit is not None and value > limit
    ]
    for share, name, limit in ((0.5, "p50", limits.max_p50_ms), (0.99, "p99", limits.max_p99_ms)):
        if limit is None:
            continue
        value = latencies.percentile(share)
        if not outcome.is_seen:
            found.append(f"{name} of {outcome.measure}: none was seen, at most {limit:g} ms is allowed")
        elif value > limit:
            found.append(f"{name} of {outcome.measure}: {value:.1f} ms, at most {limit:g} ms is allowed")
    if limits.min_rate is not None and totals.per_second < limits.min_rate:
        found.append(f"rate: {totals.per_second:.1f} requests/s, at least {limits.min_rate:g}/s is asked for")
    if not totals.requests:
        found.append("nothing was answered")
    outcome.shortfalls = found
    return outcome


def _allowed(limit: float) -> str:
    return "none is allowed" if limit == 0 else f"at most {limit:g} allowed"
