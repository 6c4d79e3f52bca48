"""A program that runs several loads in one process, so that Locust is imported once. Reads a list of them as JSON from stdin.

`{"name": …, "words": […]}` is a load as it is typed; a line of JSON each on stdout says what it came to.
"""

import json
import sys
from typing import Any

from gevent.pool import Pool

from gantry_loadtest.judging.latencies import Latencies
from gantry_loadtest.options import Plan, parse
from gantry_loadtest.running.driver import drive  # first: Locust replaces parts of the standard library
from gantry_loadtest.running.run import profile_of


def over(latencies: Latencies, ms: float) -> int:
    """How many took longer than this."""
    numbers = latencies.to_list()[2:]
    return sum(
        int(count)
        for bucket, count in zip(numbers[::2], numbers[1::2], strict=True)
        if 0.01 * 1.02 ** (bucket + 1) >= ms
    )


def run(load: dict[str, Any]) -> None:
    """Run one load and print its result."""
    plan = parse(load["words"])
    assert isinstance(plan, Plan)
    assert plan.host is not None
    outcome = drive(plan, plan.host, profile_of(plan))
    assert outcome is not None
    result = {
        **outcome.to_dict(),
        "name": load["name"],
        "examples": outcome.findings.examples,
        "counts": dict(outcome.findings.counts),
        "slow": over(outcome.findings.of(outcome.measure), load["slowMs"]),
    }
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run all loads; the only argument is how many run at once."""
    pool = Pool(int(sys.argv[1]))
    loads = [pool.spawn(run, load) for load in json.load(sys.stdin)]
    pool.join()
    for load in loads:
        load.get()


if __name__ == "__main__":
    main()
