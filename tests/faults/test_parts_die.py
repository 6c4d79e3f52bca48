"""Each part of a running system is killed or hangs, and recovers, under HTTP traffic: acknowledged messages are kept, sends continue."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ..conftest import run_gantry, start_system, stop_system  # noqa: TID252
from ..crash.history import History  # noqa: TID252

pytestmark = [pytest.mark.crash, pytest.mark.cluster, pytest.mark.timeout(600)]
QUEUES = 2
RETRY_SECONDS = 0.02
GOES_ON_SECONDS_MAX = 30.0
"""The longest time without an acknowledged send while hints, limits or routes are unavailable, on a busy machine."""
GOES_ON_COUNT = 5
"""Required acknowledged sends of each sender while a part hangs."""
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


_tries = itertools.count(1)


@pytest.fixture
def traffic(pair: dict[str, Any], request: pytest.FixtureRequest) -> Iterator[Traffic]:
    test = request.node.name.replace("[", "-").rstrip("]")[:100].replace(" ", "-")
    topic = f"{test}-{next(_tries)}"  # a retry of the test finds no messages of the first try
    until(lambda: call(pair["http"], "GET", "/health/ready")[0] == 200)
    shape = {"readQueues": QUEUES, "writeQueues": QUEUES}
    until(lambda: call(pair["http"], "PUT", f"/v1/topics/{topic}", shape)[0] == 200)
    traffic = Traffic(pair["http"], topic)
    traffic.start()
    time.sleep(0.5)
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


def kill(state: dict[str, Any], name: str) -> None:
    """Kill a part with -9, by its name in `status`."""
    os.kill(pid_of(state, name), signal.SIGKILL)


def pid_of(state: dict[str, Any], name: str) -> int:
    return next(process["pid"] for process in status(state)["processes"] if process["name"] == name)


def is_whole(state: dict[str, Any]) -> bool:
    now = status(state)
    return now["ready"] and all(process["health"] == "ready" for process in now["processes"])


@pytest.mark.parametrize("part", ["nats", "redis", "nameserver"])
def test_sends_continue_while_a_part_without_messages_dies_twice(
    pair: dict[str, Any], traffic: Traffic, part: str
) -> None:
    began = time.monotonic()
    for _ in range(2):
        kill(pair, part)
        time.sleep(1)
        until(lambda: is_whole(pair))
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
        time.sleep(2)  # requests sent before have a response or a timeout
        before = traffic.acknowledged()
        until(
            lambda: all(
                now >= then + GOES_ON_COUNT for now, then in zip(traffic.acknowledged(), before, strict=True)
            )
        )
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
        kill(pair, "broker-a")
        time.sleep(1)
        until(lambda: is_whole(pair))
    ended = time.monotonic()
    traffic.stop()
    assert traffic.longest_gap(began, ended, keyed=False) < GOES_ON_SECONDS_MAX
    for code, name, retryable in traffic.refusals(keyed=True) - {BUSY}:
        assert (code, retryable) in {(503, True), (504, True)}, name
    for code, name, _ in traffic.refusals(keyed=False) - {BUSY}:
        assert code == 504, f"{code} {name}: only a request that was sent without a response may fail"
    traffic.judge()


def test_no_send_to_a_hanging_store_succeeds(pair: dict[str, Any], traffic: Traffic) -> None:
    pid = pid_of(pair, "broker-b")
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: any(code == 504 for code, _, _ in traffic.all_refusals()))
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: is_whole(pair))
    traffic.stop()
    kinds = traffic.all_refusals()
    assert any(code == 504 for code, _, _ in kinds), "the response says that the outcome is unknown"
    assert all(retryable and code in (429, 503, 504) for code, _, retryable in kinds), kinds
    traffic.judge()


def test_messages_acknowledged_before_the_gateway_dies_are_kept(
    pair: dict[str, Any], traffic: Traffic
) -> None:
    for _ in range(2):
        kill(pair, "gateway")
        until(lambda: call(pair["http"], "GET", "/health/ready")[0] == 200)
        time.sleep(0.5)
    traffic.stop()
    traffic.judge()
    assert "gateway died (SIGKILL)" in Path(pair["data"], "logs", "gantry.log").read_text()
