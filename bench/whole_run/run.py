"""Runs all benchmarks one after the other, with one table at the end, and everything as JSON.

    ./gantry bench [--out DIR] [--only NAME...] [--skip NAME...] [--quick] [--jars DIR[:DIR...]]
    ./gantry bench --replication [--out DIR] [--only NAME...] [--quick] [--jars DIR[:DIR...]]
    ./gantry bench --against rocketmq,nats,redis,rabbitmq [--jars DIR[:DIR...]] [OPTION of against...]
    ./gantry bench --table FILE... [--into DOCUMENT]

A program that fails does not end the run; the table names it. Load is recorded before and after each.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gantry_launcher import install
from gantry_launcher.commands.bench import files
from gantry_launcher.errors import Refused
from measuring.refusing import Parser, folder, refuse
from measuring.system import end_in_order, machine
from reporting.figures import COLLECTED
from reporting.table import judged, markdown, put_into
from whole_run.plan import PLAN, REPLICATION, SYSTEMS, WITH_JARS, Step, in_words


def run_step(step: Step, words: list[str]) -> dict[str, Any]:
    """Run a program; return its report, with the load before and after."""
    before, began = os.getloadavg(), time.monotonic()
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as collected:
        command = [sys.executable, str(files()[step.program]), *words]
        with subprocess.Popen(command, env={**os.environ, COLLECTED: collected.name}) as process:
            try:
                status = process.wait()
            except BaseException:
                process.terminate()
                raise
        entries = [json.loads(line) for line in collected]
    return {
        "program": step.program,
        "words": words,
        "status": status,
        "seconds": round(time.monotonic() - began, 1),
        "loadBefore": before,
        "loadAfter": os.getloadavg(),
        "durability": next((entry["durability"] for entry in entries if "durability" in entry), ""),
        "figures": [entry["figure"] for entry in entries if "figure" in entry],
        "skipped": [entry["skipped"] for entry in entries if "skipped" in entry],
    }


def words_of(step: Step, options: argparse.Namespace, rest: list[str]) -> list[str]:
    """Return the options of a program."""
    words = (step.quick_words if options.quick else step.words).split()
    if step.program in WITH_JARS and options.jars:
        words += ["--jars", options.jars]
    if step.program == "against":
        words += ["--against", options.against] if options.against else []
        words += rest
    return words


def install_for(step: Step) -> str:
    """Install a program's requirements; return why that is impossible."""
    try:
        if step.lock:
            install.ensure(step.lock, lambda text: print(text, file=sys.stderr))
    except Refused as error:
        return str(error)
    return ""


def write(run: dict[str, Any], out: Path | None) -> None:
    """Save the results so far: an interrupted run keeps what it measured."""
    if out:
        (out / "bench.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        (out / "bench.md").write_text(markdown(run), encoding="utf-8")


def run_all(steps: list[Step], options: argparse.Namespace, rest: list[str]) -> int:
    seconds = {step.program: step.quick_seconds if options.quick else step.seconds for step in steps}
    print(f"{len(steps)} programs, about {in_words(sum(seconds.values()))}; {machine()}", flush=True)
    began = dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat()
    programs: list[dict[str, Any]] = []
    run = {"machine": machine(), "began": began, "quick": options.quick, "programs": programs}
    left = sum(seconds.values())
    for number, step in enumerate(steps, 1):
        words = words_of(step, options, rest)
        print(
            f"\n== {number} of {len(steps)}: {step.program} {' '.join(words)}, then about {in_words(left)} left",
            flush=True,
        )
        left -= seconds[step.program]
        why = install_for(step)
        if why:
            print(f"skipped: {why}", flush=True)
            programs.append(
                {"program": step.program, "status": 2, "skipped": [{"what": step.program, "why": why}]}
            )
        else:
            programs.append(run_step(step, words))
        write(run, options.out)
    print(f"\n{markdown(run)}")
    failed = [program["program"] for program in programs if program["status"]]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def chosen(options: argparse.Namespace) -> list[Step]:
    """Return the selected steps. Ends the program on an unknown name."""
    plan = REPLICATION if options.replication else PLAN
    known = {step.program: step for step in plan}
    named: list[str] = [*(options.only or ()), *(options.skip or ())]
    unknown = [name for name in named if name not in known]
    if unknown:
        refuse(f"not part of a whole run: {', '.join(unknown)}; available: {', '.join(known)}")
    strange = [name for name in (options.against or "").split(",") if name and name not in SYSTEMS]
    if strange:
        refuse(f"--against {','.join(strange)}: unknown system; available: {', '.join(SYSTEMS)}")
    if options.against and not options.only:
        return [known["against"]]
    only = set(options.only or known) - set(options.skip or [])
    return [step for step in plan if step.program in only]


def main() -> int:
    parser = Parser(
        prog="./gantry bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=folder, help="a folder for bench.json and bench.md")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these programs")
    parser.add_argument("--skip", nargs="+", metavar="NAME", help="all but these")
    parser.add_argument("--quick", action="store_true", help="in minutes: to check that all of it runs")
    parser.add_argument("--replication", action="store_true", help="the programs about brokers with replicas")
    parser.add_argument("--against", nargs="?", const=",".join(SYSTEMS), metavar="SYSTEMS")
    parser.add_argument("--jars", default="", help="folders of RocketMQ's jars or classes, separated by ':'")
    parser.add_argument(
        "--table",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="print the tables of a run's bench.json, or of several runs'",
    )
    parser.add_argument("--into", type=Path, metavar="DOCUMENT", help="put them between its marks")
    options, rest = parser.parse_known_args()
    if rest and not options.against:
        parser.error(f"unknown: {' '.join(rest)}")
    if options.replication and options.against:
        parser.error("--replication has programs of its own: without --against")
    if options.into and not options.table:
        parser.error("--into needs --table FILE...: the runs of the tables")
    if options.table:
        run = judged(options.table)
        if options.into:
            put_into(options.into, markdown(run))
        else:
            print(markdown(run))
        return 0
    end_in_order()
    return run_all(chosen(options), options, rest)


if __name__ == "__main__":
    sys.exit(main())
