"""`python -m gantry_simulation`: runs drawn lives, replays a failing one, shrinks it, and prints its history."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import msgspec

from gantry_simulation.lives.drawing.draw_plan import draw_plan
from gantry_simulation.lives.life import Outcome, live
from gantry_simulation.lives.many import Lives, run_many
from gantry_simulation.lives.plan import Plan, load, save
from gantry_simulation.lives.planted.finding import faults, find_all, planted
from gantry_simulation.lives.shrinking import Shrinker

PROGRAM = "./gantry simulate"
LIVES, LIVES_TO_FIND = 100, 2_000
PROGRESS_SECONDS = 2.0
ENDLESS = 10**9


def main(words: list[str]) -> int:
    """Run one command line. 0: no violation, or all planted faults are found; 1: otherwise; 2: bad options."""
    options = _parse(words)
    if options.planted is not None:
        return _find_planted(options)
    if options.plan is not None:
        try:
            plan = load(options.plan)
        except (OSError, msgspec.MsgspecError) as error:
            sys.stderr.write(f"{PROGRAM}: {options.plan}: {error}\n")
            return 2
        return _replay(plan, shrink=options.shrink, out=options.save)
    if options.seed is not None and options.lives is None and options.minutes is None:
        return _replay(draw_plan(options.seed), shrink=options.shrink, out=options.save)
    return _run(options)


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Run stores, nameserver and clients in one process under virtual time and faults. Docs: docs/simulation.md.",
    )
    parser.add_argument(
        "--seed", type=int, help="replay this life with its history; with --lives, the first seed"
    )
    parser.add_argument("--lives", type=_positive, help=f"number of lives (default {LIVES})")
    parser.add_argument("--minutes", type=float, help="run lives for this time")
    parser.add_argument(
        "--processes", type=_positive, default=os.cpu_count() or 1, help="processes (default: cores)"
    )
    parser.add_argument(
        "--shrink", action="store_true", help="remove from a failing life what it does not need"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the (shrunk) plan, for --plan")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="replay a saved plan")
    parser.add_argument(
        "--planted", nargs="?", const="", metavar="PART",
        help=f"plant each known fault whose name contains PART, and run lives until one finds it (at most --lives, default {LIVES_TO_FIND}); one fault with --seed: replay that life",
    )  # fmt: skip
    return parser.parse_args(words)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _run(options: argparse.Namespace) -> int:
    began = time.monotonic()
    end = None if options.minutes is None else began + options.minutes * 60
    count = options.lives or (LIVES if end is None else ENDLESS)
    total, shown = Lives(), began
    for lives in run_many(options.seed or 1, count, options.processes, end):
        for seed, violation in lives.failing.items():
            _say(f"seed {seed}: {violation}\n  replay: {PROGRAM} --seed {seed} --shrink")
        total.add(lives)
        now = time.monotonic()
        if now - shown >= PROGRESS_SECONDS:
            shown = now
            _say(_summary(total, now - began))
    _say("")
    _say("lives by feature and fault:")
    _say("\n".join(total.coverage().lines()))
    _say(_summary(total, time.monotonic() - began))
    return 1 if total.failing else 0


def _find_planted(options: argparse.Namespace) -> int:
    names = faults(options.planted)
    if not names:
        sys.stderr.write(f"{PROGRAM}: no planted fault has a name that contains {options.planted!r}\n")
        return 2
    if options.seed is not None and options.lives is None and len(names) == 1:
        with planted(names[0]):
            return _replay(draw_plan(options.seed), shrink=options.shrink, out=options.save)
    first_seed, count = options.seed or 1, options.lives or LIVES_TO_FIND
    missed = 0
    for found in find_all(names, first_seed, count, options.processes):
        if found.seed is None:
            missed += 1
            _say(f"not found in {count:,} lives: {found.fault}")
        else:
            _say(f"life {found.seed - first_seed + 1:>5,}: {found.fault}\n{'':12}{found.violation}")
    _say(f"{len(names) - missed} of {len(names)} planted faults found within {count:,} lives each")
    return 1 if missed else 0


def _summary(lives: Lives, seconds: float) -> str:
    count = len(lives.seeds)
    return (
        f"{count:,} lives, {len(lives.failing)} with violations, {lives.acknowledged:,} acknowledged sends, "
        f"{count / max(seconds, 1e-9):.1f} lives/s, {lives.virtual_seconds / max(lives.cpu_seconds, 1e-9):.0f} virtual seconds a CPU second"
    )


def _replay(plan: Plan, *, shrink: bool, out: Path | None) -> int:
    outcome = live(plan)
    if outcome.violations and shrink:
        shrinker = Shrinker(plan, outcome)
        shrinker.shrink()
        plan, outcome = shrinker.plan, shrinker.outcome
        _say(f"shrunk to {len(plan.acts)} acts in {shrinker.lives} lives")
    _show(outcome)
    if out is not None:
        save(plan, out)
    return 1 if outcome.violations else 0


def _show(outcome: Outcome) -> None:
    _say("\n".join(outcome.history))
    _say(
        f"{outcome.acknowledged} acknowledged sends, {outcome.virtual_seconds:.1f} virtual seconds, trace {outcome.digest}"
    )
    for violation in outcome.violations or ["no violation"]:
        _say(violation)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
