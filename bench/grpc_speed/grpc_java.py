"""RocketMQ's Java 5 client against Gantry and against RocketMQ's own broker with its proxy, in turns, as ratios.

    python bench/grpc_speed/grpc_java.py --client DIR --jars DIR[:DIR...] [--seconds 24] [--rounds 3] [--only NAME...]

--client is the folder of rocketmq-client-java and its dependencies, --jars those of the broker and the proxy (bench/README.md). Needs a
JDK: Java compiles `GrpcLoad.java` first. Both sides keep data in temporary folders and flush asynchronously, as RocketMQ does by default;
RocketMQ runs broker and proxy in one process. CPU counts broker and proxy there, and all processes of the system but the launcher here.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from measuring.system import cpu_seconds, end_in_order, end_process, pids_of, provenance, started
from peers.rocketmq_run import BROKER_JVM, NAMESERVER_JVM, Java, free_port, wait_for
from reporting.figures import figure, skipped

SOURCE = Path(__file__).with_name("GrpcLoad.java")
TOPIC = "grpc-load"
WARM_UP_SHARE = 1 / 3
CONFIGURED_SECONDS_MAX = 60.0


class Trial(NamedTuple):
    """What GrpcLoad does: its word, and how many threads, calls in flight, messages a second or consumers."""

    name: str
    what: str
    many: int


TRIALS = (
    Trial("sync 32", "sync", 32),
    Trial("async 64", "async", 64),
    Trial("async 256", "async", 256),
    Trial("paced 500", "paced", 500),
    Trial("consume 8", "consume", 8),
)
"""The consumers read what the sends left."""


class Measured(NamedTuple):
    """One run: messages a second, CPU microseconds of the servers a message, and latencies in ms."""

    rate: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    failures: int


@dataclass(frozen=True)
class Side:
    """A running system: its gRPC address, and the processes whose CPU counts."""

    grpc: str
    pids: list[int]


@contextlib.contextmanager
def gantry() -> Generator[Side]:
    """Run a Gantry system that has the topic."""
    with started("--flush", "async") as system:
        url = f"{system.http}/v1/topics/{TOPIC}"
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT")) as answer:
            answer.read()
        pids = pids_of(system)
        yield Side(system.raw["grpc"], [pid for name, pid in pids.items() if name != "launcher"])


@contextlib.contextmanager
def rocketmq(java: Java, folder: Path) -> Generator[Side]:
    """Run RocketMQ's nameserver, and its broker with the proxy in one process, that have the topic."""
    names, port, grpc, proxy = free_port(), free_port(-2, 1), free_port(), free_port()
    (folder / "namesrv.conf").write_text(f"listenPort={names}\n")
    (folder / "broker.conf").write_text(
        f"brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\nbrokerRole=ASYNC_MASTER\nbrokerIP1=127.0.0.1\n"
        f"flushDiskType=ASYNC_FLUSH\nlistenPort={port}\nnamesrvAddr=127.0.0.1:{names}\nautoCreateTopicEnable=true\n"
        f"storePathRootDir={folder}/store\nstorePathCommitLog={folder}/store/commitlog\ntimerWheelEnable=true\n"
    )
    (folder / "rmq-proxy.json").write_text(
        f'{{"rocketMQClusterName":"DefaultCluster","grpcServerPort":{grpc},"remotingListenPort":{proxy}}}'
    )
    nameserver = java.start(
        "namesrv", NAMESERVER_JVM, "org.apache.rocketmq.namesrv.NamesrvStartup",
        "-c", str(folder / "namesrv.conf"),
    )  # fmt: skip
    try:
        wait_for(names, nameserver, java.log("namesrv"))
        broker = java.start(
            "proxy", BROKER_JVM, "org.apache.rocketmq.proxy.ProxyStartup", "-n", f"127.0.0.1:{names}",
            "-pm", "LOCAL", "-bc", str(folder / "broker.conf"), "-pc", str(folder / "rmq-proxy.json"),
        )  # fmt: skip
        try:
            wait_for(grpc, broker, java.log("proxy"))
            _configure(java, names, port)
            yield Side(f"127.0.0.1:{grpc}", [broker.pid])
        finally:
            end_process(broker, 60)
    finally:
        end_process(nameserver, 60)


def _configure(java: Java, names: int, port: int) -> None:
    """Create the topic and the group. A broker that has just started refuses them for a while."""
    commands = (
        (
            "updateTopic",
            "-b",
            f"127.0.0.1:{port}",
            "-t",
            TOPIC,
            "-r",
            "8",
            "-w",
            "8",
            "-a",
            "+message.type=NORMAL",
        ),
        ("updateSubGroup", "-b", f"127.0.0.1:{port}", "-g", "grpc-load"),
    )
    for words in commands:
        end = time.monotonic() + CONFIGURED_SECONDS_MAX
        while True:
            tool = java.start(
                "mqadmin",
                (),
                "org.apache.rocketmq.tools.command.MQAdminStartup",
                *words,
                "-n",
                f"127.0.0.1:{names}",
            )
            tool.wait()
            text = java.log("mqadmin").read_text(errors="replace")
            if "success" in text:
                break
            if time.monotonic() > end:
                raise SystemExit(f"RocketMQ did not take {words[0]}:\n{text[-2000:]}")
            time.sleep(1)


class Client:
    """RocketMQ's Java 5 client with the load program."""

    def __init__(self, folder: str, classes: Path) -> None:
        self._path = f"{classes}:{Path(folder).resolve()}/*"
        self._home = classes
        subprocess.run(["javac", "-cp", self._path, "-d", str(classes), str(SOURCE)], check=True)

    def run(self, side: Side, trial: Trial, seconds: float) -> Measured:
        """Run a trial; CPU is counted after the warm-up."""
        words = [side.grpc, TOPIC, trial.what, str(trial.many), str(seconds)]
        command = [
            "java",
            "-Xms1g",
            "-Xmx1g",
            f"-Duser.home={self._home}",
            "-cp",
            self._path,
            "GrpcLoad",
            *words,
        ]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            used, began = 0.0, time.monotonic()
            while client.poll() is None and time.monotonic() - began < seconds * WARM_UP_SHARE + 1:
                time.sleep(0.1)
            used, began = sum(map(cpu_seconds, side.pids)), time.monotonic()
            time.sleep(seconds * (1 - WARM_UP_SHARE) - 2)
            cores = (sum(map(cpu_seconds, side.pids)) - used) / (time.monotonic() - began)
            said = dict(word.split("=") for word in client.communicate(timeout=60)[0].split() if "=" in word)
        finally:
            client.kill()
            client.wait()
        rate = int(said["messages"]) / float(said["seconds"])
        cpu_us = cores / rate * 1e6 if rate else 0.0
        return Measured(rate, cpu_us, float(said["p50"]), float(said["p99"]), int(said["failures"]))


def run_side(
    side: Callable[[], contextlib.AbstractContextManager[Side]],
    client: Client,
    trials: list[Trial],
    seconds: float,
) -> dict[str, Measured]:
    """Run all trials against one side."""
    with side() as running:
        return {trial.name: client.run(running, trial, seconds) for trial in trials}


def report(name: str, ours: list[Measured], theirs: list[Measured]) -> None:
    """Report the medians of a trial, with RocketMQ's as the floor."""

    def middle(side: list[Measured], of: Callable[[Measured], float]) -> float:
        return statistics.median(map(of, side)) if side else 0.0

    if not middle(ours, lambda one: one.rate) or not middle(theirs, lambda one: one.rate):
        skipped(f"grpc_java.{name}", "a side moved no message")
        return
    failures = f"{sum(one.failures for one in ours)} failed; RocketMQ {sum(one.failures for one in theirs)}"
    parts: list[tuple[str, str, Callable[[Measured], float]]] = [
        ("", "msg/s", lambda one: one.rate),
        (", CPU a message", "us", lambda one: one.cpu_us),
        (", p50", "ms", lambda one: one.p50_ms),
        (", p99", "ms", lambda one: one.p99_ms),
    ]
    for suffix, unit, of in parts:
        value, floor = middle(ours, of), middle(theirs, of)
        figure(
            f"grpc_java.{name}{suffix}",
            value,
            unit,
            floor=floor,
            beside="RocketMQ",
            words="" if suffix else failures,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--client", required=True, help="folder of rocketmq-client-java with its dependencies"
    )
    parser.add_argument("--jars", required=True, help="folders of RocketMQ's jars, separated by ':'")
    parser.add_argument("--seconds", type=float, default=24.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="trials whose name contains one of these")
    options = parser.parse_args()
    trials = [one for one in TRIALS if not options.only or any(word in one.name for word in options.only)]
    print(f"grpc_java; {provenance('asynchronous')}")
    end_in_order()
    ours: dict[str, list[Measured]] = {one.name: [] for one in trials}
    theirs: dict[str, list[Measured]] = {one.name: [] for one in trials}
    with tempfile.TemporaryDirectory(prefix="gantry-grpc-") as name:
        folder = Path(name)
        client = Client(options.client, folder)
        for number in range(options.rounds):
            place = folder / f"rocketmq-{number}"
            place.mkdir()
            java = Java(options.jars, place)
            for found, side in ((theirs, partial(rocketmq, java, place)), (ours, gantry)):
                for trial, measured in run_side(side, client, trials, options.seconds).items():
                    found[trial].append(measured)
                    print(f"  {trial}: {measured}", flush=True)
    for one in trials:
        report(one.name, ours[one.name], theirs[one.name])


if __name__ == "__main__":
    main()
