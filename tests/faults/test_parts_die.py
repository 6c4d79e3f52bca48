"""Each part of a running system is killed or hangs, and recovers, under HTTP traffic: acknowledged messages are kept, sends continue."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ..conftest import run_gantry, start_system, stop_system  # noqa: TID252
from ..crash.history import History  # noqa: TID252
from ..crash.store_process import ROOT, SOURCES  # noqa: TID252

pytestmark = [pytest.mark.crash, pytest.mark.cluster, pytest.mark.timeout(600)]
QUEUES = 2
READY = re.compile(r"\bready http=(http://\S+)")
RETRY_SECONDS = 0.02
GOES_ON_SECONDS_MAX = 30.0
"""The longest time without an acknowledged send while hints, limits or routes are unavailable, on a busy machine."""
GOES_ON_COUNT = 50
"""Required acknowledged sends of each sender while a part hangs."""
SOME = 5
"""Acknowledged sends of each sender that show that traffic flows."""
HEALED_SECONDS_MAX = 120.0
BUSY = (429, "SYSTEM_BUSY", True)
"""A store whose disk or CPU is blocked by other programs for 200 ms refuses with a retryable error: not a fault of the missing part."""


@dataclass
class Sender(threading.Thread):
    """Sends one message after another over HTTP; keyed ones are resent until the response is 200, others are sent once."""

    url: str
    topic: str
    name_of_run: str
    keyed: bool
    history: History
    lock: threading.Lock
    acknowledged_at: list[float] = field(default_factory=list[float])
    refusals: dict[tuple[int, str, bool], int] = field(default_factory=dict[tuple[int, str, bool], int])
    stopping: bool = False

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        self.acknowledged_at.append(time.monotonic())
        for number in itertools.count():
            if self.stopping:
                return
            name = f"{self.name_of_run}-{number}"
            with self.lock:
                self.history.attempt(name, keyed=self.keyed)
            end = time.monotonic() + 60
            while not self._send(name) and self.keyed and time.monotonic() < end:
                time.sleep(RETRY_SECONDS)

    def _send(self, name: str) -> bool:
        message = {"body": name, **({"idempotencyKey": name} if self.keyed else {})}
        try:
            status, answer = call(
                self.url, "POST", f"/v1/topics/{self.topic}/messages", {"messages": [message]}
            )
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(RETRY_SECONDS)
            return False  # the gateway itself is down
        if status == 200:
            result = answer["results"][0]
            place = (f"{self.topic}@{result['broker']}", result["queueId"], result["queueOffset"])
            with self.lock:
                self.history.acknowledge(name, place)
            self.acknowledged_at.append(time.monotonic())
            return True
        kind = (status, answer.get("code", ""), answer.get("retryable", False))
        self.refusals[kind] = self.refusals.get(kind, 0) + 1
        print(f"{time.monotonic():.3f} {name} refused: {kind} {answer.get('detail')}")  # noqa: T201 - shown if the test fails
        return False

    def longest_gap(self, begin: float, end: float) -> float:
        times = [begin, *(at for at in self.acknowledged_at if begin <= at <= end), end]
        return max(later - earlier for earlier, later in itertools.pairwise(times))


def call(url: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@dataclass
class Traffic:
    url: str
    topic: str
    history: History = field(default_factory=History)
    senders: list[Sender] = field(default_factory=list[Sender])

    def start(self) -> None:
        lock = threading.Lock()
        for number in range(4):
            self.senders.append(
                Sender(self.url, self.topic, f"{self.topic}-{number}", number % 2 == 0, self.history, lock)
            )
        for sender in self.senders:
            sender.start()

    def stop(self) -> None:
        for sender in self.senders:
            sender.stopping = True
        for sender in self.senders:
            sender.join(150)
            assert not sender.is_alive()

    def refusals(self, *, keyed: bool) -> set[tuple[int, str, bool]]:
        return {kind for sender in self.senders if sender.keyed == keyed for kind in list(sender.refusals)}

    def all_refusals(self) -> set[tuple[int, str, bool]]:
        return self.refusals(keyed=True) | self.refusals(keyed=False)

    def acknowledged(self) -> list[int]:
        """Number of acknowledged sends of each sender so far."""
        return [len(sender.acknowledged_at) for sender in self.senders]

    def continues(self, count: int) -> None:
        """Wait until each sender has this many more acknowledged sends, begun after this call."""
        before = self.acknowledged()  # one more each may be on its way
        until(lambda: all(now > then + count for now, then in zip(self.acknowledged(), before, strict=True)))

    def longest_gap(self, begin: float, end: float, *, keyed: bool | None = None) -> float:
        return max(
            sender.longest_gap(begin, end)
            for sender in self.senders
            if keyed is None or sender.keyed == keyed
        )

    def judge(self) -> None:
        """Read everything over HTTP and compare."""
        self.history.begin_reading()
        status, shown = call(self.url, "GET", f"/v1/topics/{self.topic}")
        assert status == 200
        assert shown["missing"] == []
        for queue in shown["queues"]:
            offset = 0
            path = f"/v1/topics/{self.topic}/queues/{queue['broker']}/{queue['queueId']}/messages"
            while True:
                status, page = call(self.url, "GET", f"{path}?offset={offset}&max=1024")
                assert status == 200, page
                for message in page["messages"]:
                    place = (f"{self.topic}@{message['broker']}", message["queueId"], message["queueOffset"])
                    self.history.read(message["body"], place)
                if page["nextOffset"] <= offset:
                    break
                offset = page["nextOffset"]
        verdict = self.history.verdict()
        assert verdict.holds, verdict
        assert verdict.acknowledged > 50


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Two stores, and limits that are never reached, so that every call uses Valkey."""
    data = tmp_path_factory.mktemp("pair")
    try:
        yield start_system(
            data, "--brokers", "2", "--set", "gateway.client_messages_per_second=10000000",
            "--set", "gateway.topic_messages_per_second=10000000",
        )  # fmt: skip
    finally:
        stop_system(data)


@pytest.fixture
def traffic(pair: dict[str, Any], request: pytest.FixtureRequest) -> Iterator[Traffic]:
    test = request.node.name.replace("[", "-").rstrip("]")[:100].replace(" ", "-")
    with traffic_to(pair["http"], test) as traffic:
        yield traffic


@contextlib.contextmanager
def traffic_to(http: str, topic: str) -> Iterator[Traffic]:
    """Run senders to a new topic, through a gateway."""
    until(lambda: call(http, "GET", "/health/ready")[0] == 200)
    shape = {"readQueues": QUEUES, "writeQueues": QUEUES}
    until(lambda: call(http, "PUT", f"/v1/topics/{topic}", shape)[0] == 200)
    traffic = Traffic(http, topic)
    traffic.start()
    traffic.continues(SOME)
    yield traffic
    for sender in traffic.senders:
        sender.stopping = True


def until(condition: Callable[[], bool], seconds: float = HEALED_SECONDS_MAX) -> float:
    """Return the seconds until the condition is true."""
    began = time.monotonic()
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            if condition():
                return time.monotonic() - began
        assert time.monotonic() - began < seconds, "the condition did not become true in time"
        time.sleep(0.05)


def status(state: dict[str, Any]) -> dict[str, Any]:
    return json.loads(run_gantry("status", "--data", state["data"], "--json").stdout)


def kill_and_wait(state: dict[str, Any], name: str) -> None:
    """Kill a part with -9, by its name in `status`, and wait until it was started again and the system is whole."""
    pid = pid_of(state, name)
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid_of(state, name) not in {pid, None} and is_whole(state))


def pid_of(state: dict[str, Any], name: str) -> int:
    return next(process["pid"] for process in status(state)["processes"] if process["name"] == name)


def is_whole(state: dict[str, Any]) -> bool:
    now = status(state)
    return now["ready"] and all(process["health"] == "ready" for process in now["processes"])


@contextlib.contextmanager
def impatient_gateway(state: dict[str, Any], log: Path) -> Iterator[str]:
    """Run another gateway of the system, which gives a store half a second instead of five; yield its address."""
    settings = {
        "nameservers": state["nameserver"],
        "port": "0",
        "grpc_port": "-1",
        "request_timeout_ms": "500",
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    sources = [*SOURCES, ROOT / "services/gateway/src"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway", *words],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))},
        )  # fmt: skip
    try:
        until(lambda: READY.search(log.read_text()) is not None)
        found = READY.search(log.read_text())
        assert found is not None
        yield found[1]
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize("part", ["nats", "redis", "nameserver"])
def test_sends_continue_while_a_part_without_messages_dies_twice(
    pair: dict[str, Any], traffic: Traffic, part: str
) -> None:
    began = time.monotonic()
    for _ in range(2):
        kill_and_wait(pair, part)
    ended = time.monotonic()
    traffic.stop()
    assert traffic.longest_gap(began, ended) < GOES_ON_SECONDS_MAX
    assert traffic.all_refusals() <= {BUSY}, "no send was refused"
    traffic.judge()


@pytest.mark.parametrize("part", ["nats", "redis", "nameserver"])
def test_sends_continue_while_a_part_without_messages_hangs(
    pair: dict[str, Any], traffic: Traffic, part: str
) -> None:
    pid = pid_of(pair, part)
    os.kill(pid, signal.SIGSTOP)
    try:
        traffic.continues(GOES_ON_COUNT)
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: is_whole(pair))
    traffic.stop()
    traffic.judge()


def test_keyed_sends_of_a_dead_store_are_refused_and_the_others_go_to_another_store(
    pair: dict[str, Any], traffic: Traffic
) -> None:
    began = time.monotonic()
    for _ in range(2):
        kill_and_wait(pair, "broker-a")
    ended = time.monotonic()
    traffic.stop()
    assert traffic.longest_gap(began, ended, keyed=False) < GOES_ON_SECONDS_MAX
    for code, name, retryable in traffic.refusals(keyed=True) - {BUSY}:
        assert (code, retryable) in {(503, True), (504, True)}, name
    for code, name, _ in traffic.refusals(keyed=False) - {BUSY}:
        assert code == 504, f"{code} {name}: only a request that was sent without a response may fail"
    traffic.judge()


def test_no_send_to_a_hanging_store_succeeds(pair: dict[str, Any], tmp_path: Path) -> None:
    pid = pid_of(pair, "broker-b")
    with (
        impatient_gateway(pair, tmp_path / "gateway.log") as http,
        traffic_to(http, "hanging-store") as traffic,
    ):
        os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: any(code == 504 for code, _, _ in traffic.all_refusals()))
        finally:
            os.kill(pid, signal.SIGCONT)
        until(lambda: is_whole(pair))
        traffic.continues(3 * SOME)
        traffic.stop()
        kinds = traffic.all_refusals()
        assert any(code == 504 for code, _, _ in kinds), "the response says that the outcome is unknown"
        assert all(retryable and code in (429, 503, 504) for code, _, retryable in kinds), kinds
        traffic.judge()


def test_messages_acknowledged_before_the_gateway_dies_are_kept(
    pair: dict[str, Any], traffic: Traffic
) -> None:
    for _ in range(2):
        kill_and_wait(pair, "gateway")
        traffic.continues(SOME)
    traffic.stop()
    traffic.judge()
    assert "gateway died (SIGKILL)" in Path(pair["data"], "logs", "gantry.log").read_text()
