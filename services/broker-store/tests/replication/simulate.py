"""Many lives of simulated groups: `python services/broker-store/tests/replication/simulate.py --lives 1000 --nodes 3`."""

import argparse
import contextlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "src")]

from group_world import LIFE_MS, World  # noqa: E402
from mutants import MUTANTS, planted  # noqa: E402

SIZES = (2, 3, 5)
"""The size of a group follows from its seed, unless it is given."""


@dataclass
class Tally:
    lives: int = 0
    steps: int = 0
    takeovers: int = 0
    records: int = 0
    acknowledged: int = 0
    granted: int = 0
    began_again: int = 0
    handed_over: int = 0

    def add(self, world: World) -> None:
        self.lives += 1
        self.steps += world.steps
        self.takeovers += world.ledger.takeovers
        self.records += len(world.register.records)
        self.acknowledged += len(world.ledger.truth)
        self.granted += world.ledger.granted
        self.began_again += world.ledger.began_again
        self.handed_over += len(world.ledger.handovers)


def run(seed: int, nodes: int, tally: Tally, life_ms: int = LIFE_MS) -> str | None:
    """Live one life; return how it broke a rule, or None. An assertion of the product, or a malformed table, breaks a rule, too."""
    world = World(seed, nodes, life_ms)
    try:
        world.live()
    except (AssertionError, ValueError) as broken:
        return f"{type(broken).__name__}: {broken}"
    finally:
        tally.add(world)
    return None


def search(seeds: range, tally: Tally, nodes: int = 0, life_ms: int = LIFE_MS) -> str | None:
    """Live one life of each seed; return how the first one that breaks a rule breaks it."""
    for seed in seeds:
        size = nodes or SIZES[seed % len(SIZES)]
        broken = run(seed, size, tally, life_ms)
        if broken:
            return f"seed {seed}, {size} replicas: {broken}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--nodes", type=int, default=0, help="2, 3 or 5; default: by turns")
    parser.add_argument("--life-ms", type=int, default=LIFE_MS)
    parser.add_argument(
        "--mutant", choices=[*MUTANTS, "all"], help="plant this fault; ends at the first life that finds it"
    )
    given = parser.parse_args()
    names = list(MUTANTS) if given.mutant == "all" else [given.mutant]
    for name in names:
        tally, began = Tally(), time.process_time()
        with planted(name) if name else contextlib.nullcontext():
            found = search(range(given.seed, given.seed + given.lives), tally, given.nodes, given.life_ms)
        seconds = time.process_time() - began
        print(f"{name or 'the rules'}: {found or 'hold'}; {tally}; {seconds:.1f} s of CPU", flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
