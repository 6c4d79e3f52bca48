"""One run, from plan to exit status: host, profile, answer, report, verdict."""

import contextlib
import importlib
import json
import sys

from gantry_loadtest.options import Plan
from gantry_loadtest.pages.report import make_folder, write_report
from gantry_loadtest.profiles.base import Profile
from gantry_loadtest.running.driver import drive  # first: Locust patches the standard library
from gantry_loadtest.running.progress import say
from gantry_loadtest.running.run_summary import summary_lines, warnings
from gantry_loadtest.running.system import check, started

INTERRUPTED = 130


def run(plan: Plan) -> int:
    """Run the plan, print the result, and return the exit status. Raises Refused."""
    profile = profile_of(plan)
    try:
        with contextlib.ExitStack() as stack:
            if plan.host is not None:
                check(plan.host)
            if plan.out is not None:
                make_folder(plan.out)
            host = plan.host or stack.enter_context(started())
            say(f"{plan.entry.name}, {plan.seconds:g} s at {host}: {plan.entry.question}")
            outcome = drive(plan, host, profile)
    except KeyboardInterrupt:
        return INTERRUPTED
    if outcome is None:
        return 0
    answer = [*profile.answer(outcome.findings, plan), *warnings(plan, outcome)]
    if plan.out is not None:
        say(f"report: {write_report(plan.out, plan, outcome, answer, host)}")
    sys.stdout.write("\n".join(summary_lines(plan, outcome, answer)) + "\n")
    if plan.json:
        sys.stdout.write(json.dumps(outcome.to_dict(), separators=(",", ":")) + "\n")
    sys.stdout.flush()
    if outcome.interrupted:
        return INTERRUPTED
    return 1 if outcome.shortfalls else 0


def profile_of(plan: Plan) -> type[Profile]:
    """Return the class of a profile."""
    return importlib.import_module(f"gantry_loadtest.profiles.{plan.entry.module}").Chosen
