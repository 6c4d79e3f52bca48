"""What a run prints on stdout: question, answer, checks, verdict. Pure."""

from collections.abc import Iterator

from gantry_loadtest.options import Plan
from gantry_loadtest.verdict import CHECKED, Outcome

BUSY_PERCENT = 85
EXAMPLES_TOLD = 5


def told(plan: Plan, outcome: Outcome, answer: list[str]) -> Iterator[str]:
    """Yield the lines."""
    counts = outcome.findings.counts
    yield plan.entry.question
    yield from (f"  {line}" for line in answer)
    checks = ", ".join(f"{name} {counts[name]}" for name in CHECKED)
    yield f"checks: {checks}; refused {counts['refused']}, not seen {counts['notSeen']}"
    yield from (f"  {words}" for words in outcome.findings.examples[:EXAMPLES_TOLD])
    short = f": {'; '.join(outcome.shortfalls)}" if outcome.shortfalls else ""
    yield f"verdict: {outcome.verdict}{short}"


def doubts(plan: Plan, outcome: Outcome) -> Iterator[str]:
    """Yield what makes the numbers doubtful, or smaller than they seem."""
    counts = outcome.findings.counts
    if outcome.interrupted:
        yield f"Interrupted after {outcome.totals.seconds:.0f} s of the load: this is what was seen."
    if not outcome.is_seen:
        yield f"No {outcome.measure} was seen, so how long one takes is not known: look at why there was none."
    if counts["clientCpuPercent"] >= BUSY_PERCENT and plan.role == "local":
        yield f"The load generator itself used up to {counts['clientCpuPercent']} % of a core: times and rates may be its own."
    if counts["unsent"]:
        yield f"Sends that were intended and not begun in time: {counts['unsent']}; they count with the time they waited."
    if counts["refused"]:
        yield f"{counts['refused']} sends were refused with 429, and {counts['heldBack']} held back as it asked."
    if counts["unknown"]:
        yield f"Of {counts['unknown']} sends nobody knows whether they were stored; they may arrive, and need not."
    if counts["notSeen"]:
        yield f"{counts['notSeen']} messages were on their way when the run was cut short, or not due yet: not seen, not lost."
