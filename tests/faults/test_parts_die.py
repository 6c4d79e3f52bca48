"""Each part of a running system is killed, or hangs, and comes back under traffic over HTTP: what was acknowledged stays, sends go on."""

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
"""The longest stretch without one acknowledged send while hints, limits or routes are away, on a machine with much else to do."""
GOES_ON_COUNT = 5
"""Sends of each sender that must be acknowledged while a part hangs."""
HEALED_SECONDS_MAX = 120.0
BUSY = (429, "SYSTEM_BUSY", True)
"""A store whose disk or processor is held up by others for 200 ms refuses, retryably: no fault of the part that is away."""


@dataclass
class Sender(threading.Thread):
    """Sends one message after another over HTTP; keyed ones are repeated until answered with 200, others are sent once."""

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
            return False  # the gateway itself is away
        if status == 200:
            result = answer["results"][0]
            place = (f"{self.topic}@{result['broker']}", result["queueId"], result["queueOffset"])
            with self.lock:
                self.history.acknowledge(name, place)
            self.acknowledged_at.append(time.monotonic())
            return True
        kind = (status, answer.get("code", ""), answer.get("retryable", False))
        self.refusals[kind] = self.refusals.get(kind, 0) + 1
        print(f"{time.monotonic():.3f} {name} refused: {kind} {answer.get('detail')}")  # noqa: T201 - shown where the test fails
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
        """How many sends of each sender were acknowledged so far."""
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
    """Two stores, and limits high enough to pass, so that Valkey is asked for every call."""
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
    topic = f"{test}-{next(_tries)}"  # a second try finds nothing of the first
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
    """Seconds until it came true."""
    began = time.monotonic()
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            if condition():
                return time.monotonic() - began
        assert time.monotonic() - began < seconds, "it did not come to pass"
        time.sleep(0.05)


def status(state: dict[str, Any]) -> dict[str, Any]:
    return json.loads(run_gantry("status", "--data", state["data"], "--json").stdout)


def kill(state: dict[str, Any], name: str) -> None:
    """kill -9 of a part by name, as `status` has it now."""
    os.kill(pid_of(state, name), signal.SIGKILL)


def pid_of(state: dict[str, Any], name: str) -> int:
    return next(process["pid"] for process in status(state)["processes"] if process["name"] == name)


def is_whole(state: dict[str, Any]) -> bool:
    now = status(state)
    return now["ready"] and all(process["health"] == "ready" for process in now["processes"])


@pytest.mark.parametrize("part", ["nats", "redis", "nameserver"])
def test_sends_go_on_while_a_part_without_messages_dies_twice(
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
    assert traffic.all_refusals() <= {BUSY}, "nobody was refused"
    traffic.judge()


@pytest.mark.parametrize("part", ["nats", "redis", "nameserver"])
def test_sends_go_on_while_a_part_without_messages_hangs(
    pair: dict[str, Any], traffic: Traffic, part: str
) -> None:
    pid = pid_of(pair, part)
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(2)  # what had left before is answered, or has met the silence
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


def test_a_store_that_dies_refuses_its_keyed_sends_and_the_others_go_elsewhere(
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
        assert code == 504, f"{code} {name}: only what had left without an answer may fail"
    traffic.judge()


def test_a_store_that_hangs_makes_no_send_a_success(pair: dict[str, Any], traffic: Traffic) -> None:
    pid = pid_of(pair, "broker-b")
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: any(code == 504 for code, _, _ in traffic.all_refusals()))
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: is_whole(pair))
    traffic.stop()
    kinds = traffic.all_refusals()
    assert any(code == 504 for code, _, _ in kinds), "unknown whether stored, and said so"
    assert all(retryable and code in (429, 503, 504) for code, _, retryable in kinds), kinds
    traffic.judge()


def test_the_gateway_dies_and_what_it_had_acknowledged_is_there(
    pair: dict[str, Any], traffic: Traffic
) -> None:
    for _ in range(2):
        kill(pair, "gateway")
        until(lambda: call(pair["http"], "GET", "/health/ready")[0] == 200)
        time.sleep(0.5)
    traffic.stop()
    traffic.judge()
    assert "gateway died (SIGKILL)" in Path(pair["data"], "logs", "gantry.log").read_text()
