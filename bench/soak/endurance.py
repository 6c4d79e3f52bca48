"""A soak test: mixed load with slow consumers, a million delayed messages, active retention, restarts and kills.

Records memory, handles, threads, disk, lateness, recovery and rates over time, and judges whether they are flat; at the end
counts the promises and their outcomes. Exit status 1 if a promise was broken or a judged line is not flat. Samples
are written as they are taken: an aborted run still has a page.

    python bench/soak/endurance.py --minutes 90 [--out endurance] [--pending 1000000] [--kill-seconds 120] [--keep-minutes 20] [--data DIR] [--seed N] [--page DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from gantry_loadtest.endurance.page import outcome, pictures, render
from gantry_loadtest.endurance.samples import Seen, judgements, percentile
from measuring.system import provenance
from soak.endurance_load import EnduranceLoad, Prefill, Waiting
from soak.endurance_system import EnduranceSystem, sample_process

SAMPLE_SECONDS = 10.0
RECOVERY_SECONDS_MAX = 300.0
VICTIMS = (
    ("broker-a", signal.SIGKILL), ("scheduler", signal.SIGKILL), ("gateway", signal.SIGKILL), ("txn-checker", signal.SIGKILL),
    ("broker-a", signal.SIGTERM), ("nameserver", signal.SIGKILL), ("scheduler", signal.SIGTERM), ("broker-a", signal.SIGKILL),
    ("gateway", signal.SIGTERM), ("txn-checker", signal.SIGTERM), ("nats", signal.SIGKILL), ("redis", signal.SIGKILL),
)  # fmt: skip
"""One round: each once, in a random order."""
HOW = {signal.SIGKILL: "kill -9", signal.SIGTERM: "restart"}


class Run:
    """A run: what it starts, its samples, and the file of samples."""

    def __init__(self, out: Path, options: argparse.Namespace, data: Path) -> None:
        self.out, self.options = out, options
        self.dice = random.Random(options.seed)
        self.seen = Seen()
        self._writing = threading.Lock()
        self._lines = (out / "samples.jsonl").open("w", buffering=1)
        segment = f"broker-store.segment_bytes={options.segment_megabytes << 20}"
        keep = f"broker-store.reserved_hours={options.keep_minutes / 60}"
        self.system = EnduranceSystem(data, "--set", segment, "--set", keep)
        self.load = EnduranceLoad(self.system.http, options.seed)
        self.waiting = Waiting(options.pending)
        self.began = time.monotonic()
        self._born: dict[int, float] = {}
        self._cpu: dict[int, float] = {}
        self._sampled = self.began
        self._minutes: dict[int, list[int]] = defaultdict(list)
        self._minute_told = int(time.time() // 60)
        self._progress_at = 0.0
        self.stopping = threading.Event()

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    def note(self, kind: str, entry: dict[str, Any]) -> None:
        """Record a line, and write it at once."""
        with self._writing:
            self.seen.take(kind, entry)
            self._lines.write(json.dumps({"kind": kind, **entry}) + "\n")

    def fault(self, words: str) -> None:
        say(f"FAULT: {words}")
        self.note("fault", {"at": self.now, "words": words})

    def go(self) -> None:
        seconds = self.options.minutes * 60
        kept = f"the log is kept for {self.options.keep_minutes:g} minutes, or less if the disk is full"
        words = f"{provenance('sync')}; {self.options.pending:,} pending; {kept}"
        self.note("about", {"words": words, "seed": self.options.seed, "minutes": self.options.minutes})
        self.load.prepare()
        self.load.start()
        prefill = Prefill(self.system.store_address, self.load.ledger, self.waiting, seconds)
        prefill.start()
        killer = threading.Thread(target=self._kill_loop, args=(prefill, seconds), daemon=True)
        killer.start()
        try:
            while self.now < seconds:
                time.sleep(max(0.1, SAMPLE_SECONDS - (time.monotonic() - self._sampled)))
                self.sample()
        finally:
            self.stopping.set()
            killer.join(RECOVERY_SECONDS_MAX)
        if prefill.failure is not None:
            self.fault(f"the delayed messages could not all be sent: {prefill.failure}")

    def sample(self) -> None:
        """Take a sample of everything."""
        now, system, load = self.now, self.system, self.load
        processes: dict[str, dict[str, float]] = {}
        used = 0.0
        state = system.state()
        pids = {entry["name"]: entry["pid"] for entry in state["processes"]}
        pids["launcher"] = state["pids"]["launcher"][0]
        for name, pid in pids.items():
            found = sample_process(pid) if pid else {}
            if found:
                found |= {"pid": pid, "age": now - self._born.setdefault(pid, now)}
                used += max(0.0, found["cpu"] - self._cpu.get(pid, found["cpu"]))
                self._cpu[pid] = found["cpu"]
                processes[name] = found
        took, self._sampled = time.monotonic() - self._sampled, time.monotonic()
        load.ledger.forget_done()
        for words in load.tend():
            self.fault(words)
        held = system.held()
        self.note("sample", {
            "at": round(now, 1), "load": os.getloadavg()[0], "processes": processes, "cpuShare": round(used / took, 3),
            "logBytes": system.log_bytes(), "firstSegment": system.first_segment(), "diskBytes": system.disk_bytes(),
            "pullsHeld": held.get("gateway_pulls_held"), "receivesHeld": held.get("gateway_receives_held"),
            "pending": system.pending(), "prefilled": self.waiting.sent, "own": sample_process(os.getpid()), **load.figures(),
        })  # fmt: skip
        self._report_minutes(time.time() - 120)
        if now >= self._progress_at:
            self._progress_at += 60.0
            self._progress()

    def _report_minutes(self, until: float) -> None:
        """Report the lateness of minutes that ended long enough ago to include late messages."""
        for stored_ms, late_ms in self.load.ledger.take_late():
            self._minutes[max(stored_ms // 60_000, self._minute_told)].append(late_ms)
        wall = time.time() - self.now  # of the run's start
        while self._minute_told < until // 60:
            late = sorted(map(float, self._minutes.pop(self._minute_told, [])))
            at = max(0.0, self._minute_told * 60 + 30 - wall)
            figures = {
                name: percentile(late, share)
                for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))
            }
            most = late[-1] if late else 0.0
            near = [one["load"] for one in self.seen.samples if abs(one["at"] - at) <= 30]
            load = sum(near) / len(near) if near else os.getloadavg()[0]
            self.note("minute", {"at": at, "count": len(late), **figures, "most": most, "load": load})
            self._minute_told += 1

    def _progress(self) -> None:
        sample = self.seen.samples[-1]
        minute = self.seen.minutes[-1] if self.seen.minutes else {"p50": 0.0, "p99": 0.0}
        memory = " ".join(
            f"{name} {process['pss'] / 1e6:.0f}" for name, process in sample["processes"].items()
        )
        say(
            f"{self.now / 60:5.1f} min, {sample['acknowledged']:,} of {sample['attempted']:,} acknowledged, "
            f"pending {sample['pending']} (sent {self.waiting.sent:,}), late p50 {minute['p50']:.0f} p99 {minute['p99']:.0f} ms, "
            f"MB: {memory}, log {sample['logBytes'] / 1e6:.0f} MB from {sample['firstSegment'] / 1e6:.0f}, "
            f"disk {sample['diskBytes'] / 1e6:.0f} MB, kills {len(self.seen.kills)}, faults {len(self.seen.faults)}, load {sample['load']:.1f}"
        )

    def _kill_loop(self, prefill: Prefill, seconds: float) -> None:
        round_left: list[tuple[str, signal.Signals]] = []
        while prefill.is_alive() and not self.stopping.wait(1):
            pass
        while not self.stopping.wait(self.options.kill_seconds * self.dice.uniform(0.7, 1.3)):
            if self.now > seconds - 20:
                return
            if not round_left:
                round_left = self.dice.sample(VICTIMS, len(VICTIMS))
            try:
                self._end(*round_left.pop())
            except Exception as error:  # noqa: BLE001 - the run continues, and reports it at its end
                self.fault(f"a kill could not be watched: {error}")

    def _end(self, name: str, number: signal.Signals) -> None:
        at, began = self.now, time.monotonic()
        pid = self.system.end_one(name, number)
        is_back = self.system.await_return(name, pid, RECOVERY_SECONDS_MAX)
        took = time.monotonic() - began
        self.note("kill", {"at": round(at, 1), "name": name, "how": HOW[number], "seconds": round(took, 3)})
        if not is_back:
            self.fault(f"{name} was not ready {took:.0f} s after its {HOW[number]}")

    def judge(self) -> tuple[list[str], dict[str, Any], str]:
        """Stop the load in order and count; return shortfalls, counts, and the count line."""
        for words in self.load.end():
            self.fault(words)
        still = self.waiting.sent - self.waiting.due_in_run
        pending = self._await_pending(still)
        self.sample()
        self._report_minutes(time.time() + 60)
        count, figures = self.load.ledger.count(), self.load.figures()
        counts = {
            **vars(count), "agedOutUnread": figures["skipped"], "pendingExpected": still, "pendingSeen": pending,
            "slowGroup": self.load.slow_group(), "retentionTookBytes": self.system.first_segment(),
        }  # fmt: skip
        shortfalls = [] if count.holds else [f"promises were broken: {count} {self._some()}"]
        if pending != still:
            shortfalls.append(f"{still} delayed messages should be waiting, but the scheduler has {pending}")
        if figures["skipped"]:
            shortfalls.append(
                f"{figures['skipped']} offsets were deleted before they were read: their outcome is unknown"
            )
        shortfalls += [fault["words"] for fault in self.seen.faults]
        return shortfalls, counts, f"{count}  aged out unread {figures['skipped']}"

    def _await_pending(self, count: int) -> int | None:
        """Wait until the scheduler has this number; while it rolls some forward they count twice."""
        until = time.monotonic() + RECOVERY_SECONDS_MAX
        while (pending := self.system.pending()) != count and time.monotonic() < until:
            time.sleep(1)
        return pending

    def _some(self) -> dict[str, list[str]]:
        return {promise: names[:5] for promise, names in self.load.ledger.broken().items() if names}

    def write(self, shortfalls: list[str], counts: dict[str, Any], line: str) -> bool:
        self.note("about", {"counts": counts, "countLine": line, "shortfalls": shortfalls})
        return write_page(self.out, self.seen)


def write_page(out: Path, seen: Seen) -> bool:
    """Judge the samples and write the page and the JSON; return whether everything is in order."""
    judged = judgements(seen)
    shortfalls = list(seen.about.get("shortfalls", ["the run was aborted: nothing was counted"]))
    shortfalls += [
        f"{one.line} is not flat: {one.change:+.1f} {one.unit}, at most {one.limit:.1f}"
        for one in judged
        if one.is_judged and not one.is_flat
    ]
    line, verdict = seen.about.get("countLine", "not counted"), "fail" if shortfalls else "pass"
    page = render(seen, line, verdict, shortfalls, judged)
    (out / "endurance.html").write_text(page, encoding="utf-8")
    for name, picture in pictures(seen).items():
        (out / f"{name}.svg").write_text(picture, encoding="utf-8")
    result = outcome(seen, seen.about.get("counts", {}), shortfalls, judged)
    (out / "endurance.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{verdict}: {line}")
    for words in shortfalls:
        print(f"  {words}")
    print(f"  {out / 'endurance.html'}")
    return not shortfalls


def say(words: str) -> None:
    sys.stderr.write(f"endurance: {words}\n")
    sys.stderr.flush()


def _leave(_number: int, _frame: object) -> None:
    sys.exit(128 + signal.SIGTERM)


def run(options: argparse.Namespace) -> bool:
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _leave)
    if options.data:
        Path(options.data).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gantry-endurance-", dir=options.data) as folder:
        one = Run(out, options, Path(folder) / "data")
        try:
            one.go()
            result = one.judge()
        except (KeyboardInterrupt, SystemExit):
            write_page(out, one.seen)
            raise
        finally:
            one.system.stop()
        return one.write(*result)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--out", default="endurance", help="folder of the page, the JSON and the samples")
    parser.add_argument(
        "--pending", type=int, default=1_000_000, help="delayed messages that wait during the run"
    )
    parser.add_argument(
        "--kill-seconds", type=float, default=120.0, help="approximate time between two kills"
    )
    parser.add_argument(
        "--keep-minutes", type=float, default=20.0, help="retention deletes segments that are older"
    )
    parser.add_argument(
        "--data", default=None, help="folder for the system's data, on a small file system for instance"
    )
    parser.add_argument("--segment-megabytes", type=int, default=32, help="size of a file of the log")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--page", default=None, help="only rebuild the page from the samples in this folder")
    options = parser.parse_args()
    if options.page:
        with (Path(options.page) / "samples.jsonl").open(encoding="utf-8") as lines:
            sys.exit(0 if write_page(Path(options.page), Seen.of_lines(lines)) else 1)
    print(f"endurance; {provenance('sync')}; seed {options.seed}", flush=True)
    sys.exit(0 if run(options) else 1)


if __name__ == "__main__":
    main()
