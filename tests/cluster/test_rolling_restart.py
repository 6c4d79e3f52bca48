"""`restart --rolling`, `replicas add` and `remove`, `cluster move-leader`: real stores, under sends all the time over HTTP and by the SDK."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import gantrymq

from ..conftest import start_system, stop_system  # noqa: TID252

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(900)]

TOPIC = "Rolled"
TRIES_MAX = 2
Gantry = Callable[..., Any]
Send = Callable[[str], Awaitable[str]]
"""Returns why a message is not acknowledged; empty when it is."""


class Sender:
    """Sends one message after the other until it is stopped. A message that fails is sent once more."""

    def __init__(self, name: str, send: Send) -> None:
        self._name, self._send = name, send
        self.acknowledged: list[str] = []
        self.failed: list[tuple[str, float, list[str]]] = []
        self.is_stopped = False

    async def run(self) -> None:
        """Send until stopped."""
        number = 0
        while not self.is_stopped:
            number += 1
            body = f"{self._name} {number}"
            reasons: list[str] = []
            while len(reasons) < TRIES_MAX and (reason := await self._send(body)):
                reasons.append(reason)
            if len(reasons) < TRIES_MAX:
                self.acknowledged.append(body)
            else:
                self.failed.append((body, time.monotonic(), reasons))


def over_http(http: str) -> Send:
    """Return what sends over HTTP, each message in a connection of its own."""

    def post(body: str) -> str:
        content = json.dumps({"messages": [{"body": body}]}).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{http}/v1/topics/{TOPIC}/messages", content, headers)
        try:
            urllib.request.urlopen(request, timeout=60).close()
        except urllib.error.HTTPError as error:
            return error.read().decode()
        return ""

    return lambda body: asyncio.to_thread(post, body)


def by_sdk(producer: gantrymq.Producer) -> Send:
    """Return what sends by the SDK."""

    async def send(body: str) -> str:
        try:
            await producer.send(gantrymq.Message(TOPIC, body.encode()))
        except gantrymq.GantryError as error:
            return repr(error)
        return ""

    return send


@asynccontextmanager
async def traffic(state: dict[str, Any]) -> AsyncGenerator[list[Sender]]:
    """Send from two sides meanwhile; then every message was acknowledged, and all are there."""
    create_topic(state)
    async with gantrymq.Producer("rolled", nameservers=state["nameserver"], send_timeout=10.0) as producer:
        senders = [Sender("http", over_http(state["http"])), Sender("sdk", by_sdk(producer))]
        running = [asyncio.ensure_future(one.run()) for one in senders]
        try:
            yield senders
        finally:
            for one in senders:
                one.is_stopped = True
            await asyncio.gather(*running)
    for one in senders:
        assert not one.failed, f"not acknowledged in {TRIES_MAX} tries: {one.failed[:3]}"
        assert len(one.acknowledged) > 20
    everything = await asyncio.to_thread(read_all, state["http"])
    assert {body for one in senders for body in one.acknowledged} <= everything


def create_topic(state: dict[str, Any]) -> None:
    content = json.dumps({"readQueues": 1, "writeQueues": 1, "perm": "rw"}).encode()
    request = urllib.request.Request(
        f"{state['http']}/v1/topics/{TOPIC}", content, {"content-type": "application/json"}, method="PUT"
    )
    urllib.request.urlopen(request, timeout=60).close()


def read_all(http: str) -> set[str]:
    """Return the bodies of all messages."""
    read, offset = set[str](), 0
    while True:
        path = f"{http}/v1/topics/{TOPIC}/queues/broker-a/0/messages?offset={offset}"
        with urllib.request.urlopen(path, timeout=60) as answer:
            found = json.load(answer)
        read |= {message["body"] for message in found["messages"]}
        if not found["messages"]:
            return read
        offset = found["nextOffset"]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    data = tmp_path_factory.mktemp("rolling")
    try:
        yield start_system(data, "--replicas", "2")
    finally:
        stop_system(data)


async def run(gantry: Gantry, *words: str) -> Any:
    """Run a command beside the sends; it must succeed."""
    ran = await asyncio.to_thread(gantry, *words)
    assert ran.returncode == 0, ran.stderr
    return ran


def broker_of(gantry: Gantry, data: str) -> dict[str, Any]:
    (broker,) = json.loads(gantry("status", "--data", data, "--json").stdout)["brokers"]
    return broker


def recorded(data: str) -> dict[str, Any]:
    return json.loads(Path(data, "replication.json").read_text())


def roles_of(broker: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["role"] for one in broker["replicas"]}


def test_up_waits_until_all_replicas_are_in_sync(started: dict[str, Any]) -> None:
    (broker,) = started["brokers"]
    assert roles_of(broker) == {"a": "leader", "b": "follower"}


async def test_a_rolling_restart_fails_no_send_beyond_a_retry(
    started: dict[str, Any], gantry: Gantry
) -> None:
    data = started["data"]
    before = broker_of(gantry, data)
    (follower,) = set(roles_of(before)) - {before["leader"]}
    async with traffic(started):
        ran = await run(gantry, "restart", "--rolling", "--data", data)
    after = broker_of(gantry, data)
    steps = [line for line in ran.stderr.splitlines() if ": restarting " in line]
    assert [line.split(": restarting ")[1] for line in steps] == [
        f"{follower}, which follows (1 of 2)",
        f"{before['leader']}, which leads and hands over (2 of 2)",
    ]
    assert {one["pid"] for one in before["replicas"]}.isdisjoint(one["pid"] for one in after["replicas"])
    assert roles_of(after) == {before["leader"]: "follower", follower: "leader"}
    status = json.loads(gantry("status", "--data", data, "--json").stdout)
    assert not any(one["restarts"] for one in status["processes"])


async def test_the_lead_moves_under_sends(started: dict[str, Any], gantry: Gantry) -> None:
    data = started["data"]
    before = broker_of(gantry, data)
    (to,) = set(roles_of(before)) - {before["leader"]}
    move = ("cluster", "move-leader", "broker-a", "--data", data, "--to")
    async with traffic(started):
        ran = await run(gantry, *move, to)
        assert f"broker-a: {to} leads in epoch" in ran.stdout
    assert "leads broker-a already" in gantry(*move, to).stderr
    refused = gantry(*move, "zz")
    assert (refused.returncode, "in sync" in refused.stderr) == (1, True), refused.stderr
    shown = gantry("cluster", "replicas", "--data", data).stdout
    assert f"broker-a: {to} leads since " in shown


async def test_a_broker_gets_a_replica_and_loses_one_under_sends(
    started: dict[str, Any], gantry: Gantry
) -> None:
    data = started["data"]
    before = broker_of(gantry, data)
    refused = gantry("replicas", "remove", "broker-a", before["leader"], "--data", data)
    assert (refused.returncode, refused.stderr) == (
        2, "gantry: broker-a has 2 replicas, and needs so many: add one first\n",
    )  # fmt: skip
    async with traffic(started):
        await run(gantry, "replicas", "add", "broker-a", "--data", data)
        assert set(roles_of(broker_of(gantry, data))) == {"a", "b", "c"}
        leader = broker_of(gantry, data)["leader"]
        ran = await run(gantry, "replicas", "remove", "broker-a", leader, "--data", data)
    assert f"broker-a: {leader} leads and hands over first" in ran.stderr
    broker = broker_of(gantry, data)
    left = sorted({"a", "b", "c"} - {leader})
    assert sorted(roles_of(broker)) == left
    assert sorted(roles_of(broker).values()) == ["follower", "leader"]
    kept = recorded(data)
    assert (kept["names"], kept["used"]) == ({"broker-a": left}, {"broker-a": ["a", "b", "c"]})
