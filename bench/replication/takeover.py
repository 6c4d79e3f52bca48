"""How long sends stop when the leader of a broker is lost or moved: of HTTP, of the SDK, of RocketMQ's Java client.

    python bench/replication/takeover.py [--jars DIR[:DIR...]] [--turns 2] [--only kill ...]

Each client sends one message after the other. The figure is its longest time without an acknowledgement, the median of the turns. A lost leader
stays down: the launcher is paused meanwhile.

    kill        kill -9 of the leader
    kill, NATS  kill -9 of the leader and of the NATS server next to it
    pause       SIGSTOP of the leader
    move        the lead is moved, as by gantrymq cluster move-leader
    two brokers kill -9 of one of two leaders, for RocketMQ's client with its own poll of routes, every 30 s
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

from measuring.system import System, end_in_order, provenance
from peers.rocketmq_run import Java
from replication.group import BROKER, group, processes_of, replicas_of
from replication.takeover_clients import (
    Client,
    HttpClient,
    JavaClient,
    SdkClient,
    failed,
    in_thread,
    silence,
)
from reporting.figures import figure, skipped

TOPIC = "takeover"
REPLICAS = 3
WARM_SECONDS = 4.0
ACKNOWLEDGED_SECONDS_MAX = 60.0
WATCH_SECONDS = {"kill": 8.0, "kill, NATS": 14.0, "pause": 8.0, "move": 4.0, "two brokers": 12.0}
SETTLE_SECONDS = 3.0
"""Between two faults, after all replicas are in sync: NATS's servers, too, find their leader again."""
POLL_MS = 1000
ALL = tuple(WATCH_SECONDS)


class Trial:
    """A system with its clients, and what happens to it."""

    def __init__(self, system: System, data: str, clients: list[Client]) -> None:
        self._system, self._data, self._clients = system, data, clients
        self._launcher = int(system.raw["pids"]["launcher"][0])
        self._seen: dict[tuple[str, str], list[tuple[float, Counter[str]]]] = {}

    def wait_for_clients(self) -> None:
        """Wait until every client has an acknowledgement."""
        until = time.monotonic() + ACKNOWLEDGED_SECONDS_MAX
        while not all(any(one.is_acknowledged for one in client.ended()) for client in self._clients):
            if time.monotonic() > until:
                raise SystemExit(f"not every client has an acknowledgement: {self._clients}")
            time.sleep(0.2)
        time.sleep(WARM_SECONDS)

    def happens(self, name: str, does: Callable[[str], None]) -> None:
        """Do something to the system with `does`, which gets the name of the leader, and count what the clients see."""
        leader = replicas_of(self._data)[0]["name"]
        time.sleep(SETTLE_SECONDS)
        since = time.time()
        try:
            does(leader)
            time.sleep(WATCH_SECONDS[name])
            until = time.time()
        finally:
            self._resume()
        for client in self._clients:
            ended = client.ended()
            words = Counter(one.words for one in failed(ended, since, until))
            self._seen.setdefault((name, client.name), []).append((silence(ended, since, until), words))

    def report(self) -> None:
        for (name, client), seen in self._seen.items():
            silences = " ".join(f"{seconds:.2f}" for seconds, _ in seen)
            total = sum((words for _, words in seen), Counter[str]())
            words_of_all = ", ".join(f"{count} x {words}" for words, count in total.items()) or "none failed"
            figure(
                f"takeover.{name}.{client}", median(seconds for seconds, _ in seen), "s", words=f"{silences}; {words_of_all}"
            )  # fmt: skip

    def kill(self, leader: str) -> None:
        self._signal(signal.SIGKILL, _process(leader))

    def kill_with_nats(self, leader: str) -> None:
        self._signal(signal.SIGKILL, _process(leader), _nats(leader))

    def pause(self, leader: str) -> None:
        self._signal(signal.SIGSTOP, _process(leader))

    def move(self, _leader: str) -> None:
        address = f"{self._system.http}/v1/brokers/{BROKER}:moveLeader"
        request = urllib.request.Request(address, b"{}", {"content-type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()

    def _signal(self, number: int, *names: str) -> None:
        found = processes_of(self._launcher)
        os.kill(self._launcher, signal.SIGSTOP)
        for name in names:
            os.kill(found[name], number)

    def _resume(self) -> None:
        """Let everything continue that was paused."""
        for pid in (*processes_of(self._launcher).values(), self._launcher):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _process(leader: str) -> str:
    return f"{BROKER}-{leader}"


def _nats(leader: str) -> str:
    """Return the NATS server that a replica prefers: the first of its `nats_url`."""
    return f"nats-{'abc'.index(leader) + 1}"


def one_broker(options: argparse.Namespace, java: Java | None) -> None:
    """Do everything to a system with one broker."""
    with group(REPLICAS) as (system, data), contextlib.ExitStack() as running:
        clients = [
            running.enter_context(in_thread(HttpClient(system.http, TOPIC))),
            running.enter_context(in_thread(SdkClient(system.nameserver, TOPIC))),
        ]
        if java:
            client = JavaClient(java, system.nameserver, TOPIC, POLL_MS)
            clients.append(running.enter_context(client.running()))
        trial = Trial(system, data, clients)
        trial.wait_for_clients()
        does = {
            "kill": trial.kill, "kill, NATS": trial.kill_with_nats, "pause": trial.pause, "move": trial.move,
        }  # fmt: skip
        for _ in range(options.turns):
            for name in options.only:
                if name in does:
                    trial.happens(name, does[name])
        trial.report()


def two_brokers(options: argparse.Namespace, java: Java) -> None:
    """Kill one of two leaders."""
    with group(REPLICAS, "--brokers", "2") as (system, data), contextlib.ExitStack() as running:
        client = JavaClient(java, system.nameserver, TOPIC, 0)
        trial = Trial(system, data, [running.enter_context(client.running())])
        trial.wait_for_clients()
        for _ in range(options.turns):
            trial.happens("two brokers", trial.kill)
        trial.report()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jars", default="", help="folders of RocketMQ's jars or classes, separated by ':'")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=ALL, default=ALL, metavar="WHAT")
    options = parser.parse_args()
    print(f"takeover; {provenance('sync')}")
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="gantry-takeover-") as name:
        java = Java(options.jars, Path(name)) if options.jars and shutil.which("java") else None
        if java is None:
            skipped("takeover of RocketMQ's client", "it needs --jars and a java on PATH")
        if set(options.only) - {"two brokers"}:
            one_broker(options, java)
        if java and "two brokers" in options.only:
            two_brokers(options, java)


if __name__ == "__main__":
    main()
