"""Faults of every kind against a group of three replicas under load, and what must hold after them."""

from __future__ import annotations

import argparse
import faulthandler
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gantry_loadtest.mixed.calling import Http
from gantry_loadtest.mixed.journeys import ATTEMPTS_MAX, POISONED, TOPICS, WORKERS, Journey, milliseconds
from gantry_loadtest.mixed.ledger import Count, Ledger
from gantry_loadtest.mixed.reading import wait_until_settled
from gantry_loadtest.mixed.streams import ORDERLY

from .catalogue import FAULTS, kinds_for
from .clocks import MODULES
from .faults import Nemesis
from .group import NAMES, Group
from .judging import Fault, Findings, Found, differing_logs, judge_probes, silences
from .load import JOURNEYS, MORE_TOPICS, STREAMS
from .machines import Machines
from .probes import TOPIC, Look, Probes
from .system import ReplicaSystem
from .wires import end_with_parent, missing, run_in_sandbox

QUIET_SECONDS = 1.5
GROUPS: dict[str, dict[str, Any]] = {
    WORKERS: {"retryMaxTimes": 16},
    POISONED: {"retryMaxTimes": ATTEMPTS_MAX},
    ORDERLY: {"retryMaxTimes": 64, "order": "shardingKey"},
}
SHOWN_SECONDS = 3.0
"""What the replicas said of themselves is shown for a longer silence."""


class Run:
    """One run: a system, its load, its probes, the faults and the judgement."""

    def __init__(self, system: Group, seed: int, kinds_of_load: tuple[type[Journey], ...] = JOURNEYS) -> None:
        self.dice = random.Random(seed)
        self.system = system
        self._kinds_of_load = kinds_of_load
        self.ledger = Ledger()
        self.faults: list[Fault] = []
        self.findings = Findings()
        self.probes: Probes | None = None
        self.journeys: list[Journey] = []

    def go(self, cycles: int, kinds: tuple[str, ...], pace: float = 1.0, seconds: float = math.inf) -> Count:
        """Start, do the faults, and judge. After some seconds no further fault begins. The system is stopped at the end."""
        try:
            self.system.start()
            http = Http(self.system.http)
            prepare(http)
            self.system.wait_whole()
            self.journeys = [
                kind(self.system.http, self.ledger, self.dice.randrange(1 << 30), "n")
                for kind in self._kinds_of_load
            ]
            self.probes = Probes(self.system)
            self.probes.start()
            for journey in self.journeys:
                journey.start()
            time.sleep(2)
            self._do_faults(cycles, kinds, pace, time.monotonic() + seconds)
            count = self._judge(http)
            http.close()
        finally:
            for journey in self.journeys:
                journey.stopping = True
            self.system.stop()
        return count

    def _do_faults(self, cycles: int, kinds: tuple[str, ...], pace: float, until: float) -> None:
        nemesis = Nemesis(self.system, self.dice, pace)
        bag: list[str] = []
        for cycle in range(cycles):
            if time.monotonic() > until:
                say(f"{cycle} of {cycles} cycles in the given time")
                return
            if not bag:
                bag = self.dice.sample(kinds, len(kinds))
            kind = bag.pop()
            leader = self.system.wait_whole()
            time.sleep(self.dice.uniform(0.5, 2.0))
            began = time.monotonic()
            say(f"{cycle + 1}: {kind} (leader {leader})")
            FAULTS[kind](nemesis, leader)
            healed = time.monotonic()
            nemesis.heal()
            time.sleep(QUIET_SECONDS)  # a set has not shrunk yet
            try:
                now = self.system.wait_whole()
            except AssertionError as error:
                self.findings.add("stuck", f"{cycle + 1} {kind}: {error}")
                self.faults.append(Fault(kind, began, healed, time.monotonic()))
                return
            time.sleep(QUIET_SECONDS)
            ended = time.monotonic()
            self.faults.append(Fault(kind, began, healed, ended))
            assert self.probes is not None
            (gap,) = silences(sorted(one.at for one in self.probes.seen.acknowledged), self.faults[-1:])[kind]
            (http_gap,) = silences(list(self.probes.seen.over_http), self.faults[-1:])[kind]
            say(
                f"   leader {now}, silent {gap:.2f} s, over HTTP {http_gap:.2f} s, whole after {ended - healed - 2 * QUIET_SECONDS:.2f} s"
            )
            if gap > SHOWN_SECONDS:
                show_looks(self.probes.seen.looks, began, ended)
            for journey in self.journeys:
                assert journey.failure is None, f"{type(journey).__name__}: {journey.failure!r}"

    def _judge(self, http: Http) -> Count:
        assert self.probes is not None
        self.probes.stop()
        if "stuck" in self.findings.wrong:  # what is missing will not come
            judge_probes(self.probes.seen, read_queue(http, TOPIC, 0), self.faults, self.findings)
            return self.ledger.count()
        senders = [journey for journey in self.journeys if journey.is_sender]
        for journey in senders:
            journey.finish()
        wait_until_settled(http, self.ledger, MORE_TOPICS)
        for journey in self.journeys:
            if journey not in senders:
                journey.finish()
        count = self.ledger.count()
        for promise, names in self.ledger.broken().items():
            for name in names:
                self.findings.add(promise, name)
        judge_probes(self.probes.seen, read_queue(http, TOPIC, 0), self.faults, self.findings)
        self.system.wait_whole()
        self._compare_logs()
        return count

    def _compare_logs(self) -> None:
        """Stop the system in order, and compare the logs of its replicas below what was confirmed."""
        leader = self.system.wait_whole()
        confirm = 0
        until = time.monotonic() + 30
        while time.monotonic() < until:
            views = [self.system.view(name) for name in NAMES]
            ends = {view.get("endOffset") for view in views}
            confirm = self.system.view(leader).get("confirmOffset", 0)
            if ends == {confirm}:
                break
            time.sleep(0.1)
        else:
            self.findings.add("ends differ", str(views))
        self.system.pause("launcher")
        self.system.kill(*(f"broker-a-{name}" for name in NAMES))
        for words in differing_logs({name: self.system.directory(name) for name in NAMES}, confirm):
            self.findings.add("logs differ", words)


def prepare(http: Http) -> None:
    """Make the topics and groups."""
    for topic in (*TOPICS, *MORE_TOPICS, TOPIC):
        status, answer = http.insist(
            "PUT", f"/v1/topics/{topic}", {"readQueues": 4, "writeQueues": 4, "perm": "rw"}
        )
        assert status == 200, answer
    for group, policy in GROUPS.items():
        status, answer = http.insist("PUT", f"/v1/groups/{group}", policy)
        assert status == 200, answer


def read_queue(http: Http, topic: str, queue_id: int) -> dict[int, Found]:
    """Return each message of a queue by its offset."""
    found: dict[int, Found] = {}
    status, shown = http.insist("GET", f"/v1/topics/{topic}")
    assert status == 200, shown
    queue = next(one for one in shown["queues"] if one["queueId"] == queue_id)
    offset = 0
    while offset < queue["maxOffset"]:
        path = f"/v1/topics/{topic}/queues/{queue['broker']}/{queue_id}/messages?offset={offset}&max=256"
        status, answer = http.insist("GET", path)
        assert status == 200, f"{path}: {status} {answer}"
        found |= {
            message["queueOffset"]: Found(message["body"], milliseconds(message["storeTimestamp"]))
            for message in answer["messages"]
        }
        assert answer["nextOffset"] > offset, f"{path}: {answer}"
        offset = answer["nextOffset"]
    return found


def show_looks(looks: list[Look], began: float, ended: float) -> None:
    """Print what changed in what the replicas said of themselves."""
    last: dict[str, str] = {}
    for look in looks:
        view = look.view
        words = f"{view['role']} epoch {view['epoch']} of {view['leader']} set {view['members']} serving {view['isServing']} register {view['registerFault']!r}"
        if began - 1 <= look.began <= ended and last.get(look.replica) != words:
            last[look.replica] = words
            print(f"      {look.began - began:6.2f} {look.replica}: {words}")


def say(words: str) -> None:
    print(f"{time.monotonic():.1f} {words}", flush=True)


def table(run: Run) -> str:
    """Return the silences by kind of fault: p50, p99, max in seconds."""
    assert run.probes is not None
    lines = [f"{'fault':24} {'n':>4} {'p50':>6} {'p99':>6} {'max':>6}   over HTTP p50 p99 max"]
    direct = silences(sorted(one.at for one in run.probes.seen.acknowledged), run.faults)
    over_http = silences(run.probes.seen.over_http, run.faults)
    for kind in sorted(direct):
        numbers = [*_three(direct[kind]), *_three(over_http[kind])]
        lines.append(f"{kind:24} {len(direct[kind]):4} " + " ".join(f"{number:6.2f}" for number in numbers))
    return "\n".join(lines)


def _three(values: list[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], ordered[-1]


def in_sandbox(words: list[str], seconds: float | None = None) -> int:
    """Run this program with these words in a sandbox, where it finds `--machines here`; return its status, 2 without namespaces here."""
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    program = [sys.executable, "-m", f"{__package__}.nemesis"]
    return run_in_sandbox([*program, *words, "--machines", "here"], seconds)


def _run(options: argparse.Namespace, folder: Path) -> Run:
    if options.machines:
        end_with_parent()
        return Run(Machines(folder), options.seed, STREAMS)
    system = ReplicaSystem(folder, python_path=options.python_path, has_disks=options.disks)
    return Run(system, options.seed)


def main() -> int:
    """Run by hand: `.venv/bin/python -m tests.faults.replicas.nemesis --cycles 200`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--only", nargs="*", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--data", type=Path)
    parser.add_argument(
        "--disks", action=argparse.BooleanOptionalAction, default=os.geteuid() == 0,
        help="each replica has a file system of its own, for faults of disks and power cuts; for root",
    )  # fmt: skip
    parser.add_argument(
        "--pace", type=float, default=1.0, help="how long faults last, as a part of their longest time"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="no further fault begins after this time; the judgement follows",
    )
    parser.add_argument(
        "--python-path", type=Path, default=MODULES, help="modules that the processes find before their own"
    )
    parser.add_argument(
        "--machines", choices=["sandbox", "here"],
        help="each replica has a machine of its own, a network namespace: in a new sandbox, or in this one",
    )  # fmt: skip
    options = parser.parse_args()
    if options.machines == "sandbox":
        return in_sandbox(sys.argv[1:])
    faulthandler.register(signal.SIGUSR1)
    folder = options.data or Path(tempfile.mkdtemp(prefix="nemesis-"))
    say(f"seed {options.seed}, in {folder}")
    run = _run(options, folder)
    kinds = kinds_for(
        options.only,
        has_disks=options.disks and not options.machines,
        has_clocks=not options.machines,
    )
    failed: BaseException | None = None
    try:
        count: Any = run.go(
            options.cycles,
            kinds,
            options.pace,
            options.minutes * 60,
        )
    except BaseException as error:  # noqa: BLE001 - reported with what was found before
        failed, count = error, run.ledger.count()
    if run.probes is not None:
        print(table(run))
    print(f"{count}; direct {len(run.probes.seen.acknowledged) if run.probes else 0} acknowledged")
    print(f"FOUND: {run.findings}")
    if failed is not None:
        raise failed
    if run.findings.holds and options.data is None:
        shutil.rmtree(folder)
    return 0 if run.findings.holds else 1


if __name__ == "__main__":
    sys.exit(main())
