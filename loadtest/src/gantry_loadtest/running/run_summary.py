"""What a run prints on stdout: question, answer, checks, verdict. Pure."""

from collections.abc import Iterator

from gantry_loadtest.judging.verdict import CHECKED, Outcome
from gantry_loadtest.options import Plan

BUSY_PERCENT = 85
EXAMPLES_SHOWN = 5


def summary_lines(plan: Plan, outcome: Outcome, answer: list[str]) -> Iterator[str]:
    """Yield the lines of the summary."""
    counts = outcome.findings.counts
    yield plan.entry.question
    yield from (f"  {line}" for line in answer)
    checks = ", ".join(f"{name} {counts[name]}" for name in CHECKED)
    yield f"checks: {checks}; refused {counts['refused']}, not seen {counts['notSeen']}"
    yield from (f"  {words}" for words in outcome.findings.examples[:EXAMPLES_SHOWN])
    short = f": {'; '.join(outcome.shortfalls)}" if outcome.shortfalls else ""
    yield f"verdict: {outcome.verdict}{short}"


def warnings(plan: Plan, outcome: Outcome) -> Iterator[str]:
    """Yield the reasons why the numbers may be wrong or too low."""
    counts = outcome.findings.counts
    if outcome.interrupted:
        yield f"Interrupted after {outcome.totals.seconds:.0f} s of the load: the numbers cover only this time."
    if not outcome.is_seen:
        yield f"No {outcome.measure} was measured, so its latency is unknown: find out why there was none."
    if counts["clientCpuPercent"] >= BUSY_PERCENT and plan.role == "local":
        yield f"The load generator itself used up to {counts['clientCpuPercent']} % of a core: it may have limited the measured times and rates."
    if counts["unsent"]:
        yield f"{counts['unsent']} planned sends were not started in time; their waiting time counts."
    if counts["refused"]:
        yield f"{counts['refused']} sends were refused with 429, and {counts['heldBack']} delayed as it requested."
    if counts["unknown"]:
        yield f"The outcome of {counts['unknown']} sends is unknown: they may or may not arrive."
    if counts["notSeen"]:
        yield f"{counts['notSeen']} messages were in flight or not yet due when the run ended early: not seen, not lost."
