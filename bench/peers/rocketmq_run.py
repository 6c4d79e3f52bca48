"""Runs RocketMQ from its jars: its broker and its benchmark programs, against both brokers. Part of rocketmq.py and against.py."""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring.system import cpu_seconds, end_process, started
from peers.rocketmq_report import Side, summary
from reporting.figures import figure, skipped

PROGRAMS = "org.apache.rocketmq.example.benchmark"
TOPIC = "BenchmarkTest"
BATCH = 32
BODY_BYTES = 128
REPORT_MS = 5000
WARM_UP_SECONDS = 12.0
START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 60.0
CLIENT_JVM = ("-Xms1g", "-Xmx1g", "-XX:-OmitStackTraceInFastThrow", "-XX:+PerfDisableSharedMem")
BROKER_JVM = ("-server", "-Xms2g", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=4g")
NAMESERVER_JVM = ("-server", "-Xms512m", "-Xmx512m")


@dataclass(frozen=True)
class Trial:
    """A program with its arguments, and the flush mode of the brokers."""

    name: str
    program: str
    arguments: tuple[str, ...]
    flush: str
    threads: int | None = None
    """The number of threads, if the program's goal sets one."""
    jvm: tuple[str, ...] = ()
    """Further options of the client's Java."""
    body_bytes: int = BODY_BYTES


TRIALS = (
    Trial("producer, async flush", "Producer", (), "async"),
    Trial("producer -y, async flush", "Producer", ("-y", "true"), "async"),
    Trial("batch producer", "BatchProducer", ("-b", str(BATCH)), "async", threads=8),
    Trial("consumer", "Consumer", (), "async"),
    Trial("producer, sync flush", "Producer", (), "sync"),
)
"""Consumers read what the previous producers left; a broker is started for each flush mode."""


@dataclass(frozen=True)
class Broker:
    """A running broker: its client address, and the processes whose CPU counts."""

    nameserver: str
    pid: int
    nameserver_pid: int = 0


class Java:
    """Starts RocketMQ's programs from its jars."""

    def __init__(self, jars: str, folder: Path) -> None:
        places = [Path(place).resolve() for place in jars.split(os.pathsep) if place]
        missing = [str(place) for place in places if not place.is_dir()]
        if missing:
            sys.exit(f"no such folder: {', '.join(missing)}; bench/README.md says how to get RocketMQ's jars")
        self._path = os.pathsep.join(entry for place in places for entry in (str(place), f"{place}/*"))
        self._folder = folder

    def start(self, name: str, jvm: tuple[str, ...], *words: str) -> subprocess.Popen[bytes]:
        """Start a main class; its output goes to NAME.log."""
        command = [
            "java",
            *jvm,
            f"-Duser.home={self._folder}",
            "-Drocketmq.client.logRoot=" + str(self._folder),
        ]
        environment = {**os.environ, "ROCKETMQ_HOME": str(self._folder)}
        with self.log(name).open("wb") as log:
            return subprocess.Popen(
                [*command, "-cp", self._path, *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self._folder,
            )  # fmt: skip

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def free_port(*steps: int) -> int:
    """Return a port that is free now, together with those at these `steps`."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = int(server.getsockname()[1])
        if port < 60_000 and all(not _listens(port + step) for step in steps):
            return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a port is open; otherwise end the run with the log's last lines."""
    end = time.monotonic() + START_SECONDS_MAX
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > end:
            sys.exit(f"RocketMQ did not start:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)


@contextlib.contextmanager
def rocketmq(java: Java, folder: Path, flush: str, more: str = "") -> Generator[Broker]:
    """Run RocketMQ's nameserver and broker. `more`: further lines of its broker.conf."""
    folder.mkdir(exist_ok=True)
    names, port = free_port(), free_port(-2, 1)
    names_conf, broker_conf = folder / "namesrv.conf", folder / "broker.conf"
    names_conf.write_text(f"listenPort={names}\n")
    store = folder / f"store-{flush}"
    broker_conf.write_text(
        f"brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\nbrokerRole=ASYNC_MASTER\nbrokerIP1=127.0.0.1\n"
        f"flushDiskType={flush.upper()}_FLUSH\nlistenPort={port}\nnamesrvAddr=127.0.0.1:{names}\nautoCreateTopicEnable=true\n"
        f"storePathRootDir={store}\nstorePathCommitLog={store}/commitlog\n{more}"
    )
    nameserver = java.start(
        "namesrv", NAMESERVER_JVM, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(names_conf)
    )
    try:
        wait_for(names, nameserver, java.log("namesrv"))
        broker = java.start(
            "broker", BROKER_JVM, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(broker_conf)
        )
        try:
            wait_for(port, broker, java.log("broker"))
            yield Broker(f"127.0.0.1:{names}", broker.pid, nameserver.pid)
        finally:
            end_process(broker, STOP_SECONDS_MAX)
    finally:
        end_process(nameserver, STOP_SECONDS_MAX)


@contextlib.contextmanager
def gantry(flush: str) -> Generator[Broker]:
    """Run a Gantry system."""
    with started("--flush", flush) as system:
        yield Broker(system.nameserver, system.store_pid)


def run_trial(java: Java, broker: Broker, trial: Trial, options: argparse.Namespace) -> Side:
    """Run a program for a while and read its reports; CPU is counted after the warm-up."""
    words = [f"{PROGRAMS}.{trial.program}", "-n", broker.nameserver, "-t", TOPIC, "-ri", str(REPORT_MS)]
    if trial.program == "Consumer":
        words += ["-g", f"bench{time.time_ns()}"]
    else:
        words += ["-w", str(trial.threads or options.threads), "-s", str(trial.body_bytes)]
    client = java.start("client", CLIENT_JVM + trial.jvm, *words, *trial.arguments)
    try:
        time.sleep(WARM_UP_SECONDS)
        cpu, began = cpu_seconds(broker.pid), time.monotonic()
        time.sleep(options.seconds)
        cores = (cpu_seconds(broker.pid) - cpu) / (time.monotonic() - began)
    finally:
        client.kill()
        client.wait()
    return Side(summary(java.log("client").read_text(errors="replace").splitlines()), cores)


def compare(jars: str, trials: Sequence[Trial], options: argparse.Namespace) -> None:
    """Run trials against both brokers, RocketMQ's first, and report each."""
    for flush in dict.fromkeys(trial.flush for trial in trials):
        same = [trial for trial in trials if trial.flush == flush]
        with tempfile.TemporaryDirectory(prefix="gantry-rocketmq-") as name:
            folder = Path(name)
            java = Java(jars, folder)
            with rocketmq(java, folder, flush) as broker:
                theirs = [run_trial(java, broker, trial, options) for trial in same]
            with gantry(flush) as broker:
                ours = [run_trial(java, broker, trial, options) for trial in same]
        for trial, one, other in zip(same, ours, theirs, strict=True):
            report_trial(trial.name, one, other)


def report_trial(name: str, ours: Side, theirs: Side) -> None:
    """Report a trial, Gantry's result with RocketMQ's as the floor."""
    if not (ours.result.rate and theirs.result.rate):
        skipped(f"rocketmq.{name}", "a program reported nothing")
        return
    each = (f"{side.result.latency_ms:.2f} ms, {side.result.failed} failed" for side in (ours, theirs))
    words = "; RocketMQ ".join(each)
    rate, floor = ours.result.rate, theirs.result.rate
    figure(f"rocketmq.{name}", rate, "msg/s", floor=floor, beside="RocketMQ", words=words)
    rate, floor = ours.per_cpu_second, theirs.per_cpu_second
    figure(f"rocketmq.{name}, a CPU second", rate, "msg/s", floor=floor or None, beside="RocketMQ")
