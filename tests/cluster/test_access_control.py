"""A system with access control, from `access init` to a signed message: what is open, what is refused, and where the secret is."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gantrymq
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """One system with access control: the state that `up` prints, and what `access init` printed."""
    data = str(tmp_path_factory.mktemp("guarded") / "data")
    made = json.loads(launch("access", "init", "--data", data, "--user", "root", "--json"))
    try:
        state = json.loads(launch("up", "--free-ports", "--detach", "--json", "--data", data))
        yield {**state, **made, "data": data}
    finally:
        launch("down", "--data", data)


def launch(*words: str) -> str:
    command = [sys.executable, str(ROOT / "gantry"), *words]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False, stdin=subprocess.DEVNULL
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def call(url: str, authorization: str = "", body: object = None, method: str = "GET") -> tuple[int, Any]:
    headers = {"content-type": "application/json"} | (
        {"authorization": authorization} if authorization else {}
    )
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def basic(guarded: dict[str, Any], secret: str = "") -> str:
    words = f"{guarded['user']}:{secret or guarded['secret']}"
    return "Basic " + base64.b64encode(words.encode()).decode()


def test_it_says_that_access_control_is_on_and_has_taken_the_first_user(guarded: dict[str, Any]) -> None:
    assert guarded["accessControl"] == "on"
    assert "access control: on" in launch("status", "--data", guarded["data"])
    folder = Path(guarded["keyFile"]).parent
    assert [path.name for path in folder.iterdir()] == ["access.key"]


def test_http_needs_credentials_and_health_does_not(guarded: dict[str, Any]) -> None:
    topics = f"{guarded['http']}/v1/topics"
    assert call(topics)[0] == 401
    assert call(topics, basic(guarded, "wrong"))[0] == 401
    assert call(topics, basic(guarded))[0] == 200
    assert call(f"{guarded['http']}/health/live")[0] == 200


def test_every_remoting_port_refuses_unsigned_requests(guarded: dict[str, Any]) -> None:
    asyncio.run(ask_unsigned(guarded))


async def ask_unsigned(guarded: dict[str, Any]) -> None:
    pool = ConnectionPool()
    try:
        with pytest.raises(BrokerRefused) as refused:
            await NameserverClient(pool, [guarded["nameserver"]]).cluster_info()
        assert refused.value.code == 16
    finally:
        await pool.close()
    with pytest.raises(gantrymq.GantryError):
        async with gantrymq.Producer("unsigned", nameservers=guarded["nameserver"]) as producer:
            await producer.send(gantrymq.Message("orders", b"x"))


def test_signed_clients_send_and_receive_before_and_after_a_kill_of_the_store(
    guarded: dict[str, Any],
) -> None:
    topic = f"{guarded['http']}/v1/topics/orders"
    settings = {"readQueues": 1, "writeQueues": 1, "perm": "rw"}
    assert call(topic, basic(guarded), settings, "PUT")[0] == 200
    asyncio.run(send(guarded, b"one"))
    pid = json.loads(launch("status", "--data", guarded["data"], "--json"))["brokers"][0]["pid"]
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 90
    while True:
        try:
            asyncio.run(send(guarded, b"two"))
            break
        except gantrymq.GantryError:
            assert time.monotonic() < until, "sends are not accepted again"
            time.sleep(0.2)
    found = call(f"{topic}/queues/broker-a/0/messages?offset=0", basic(guarded))[1]
    bodies = [one["body"] for one in found["messages"]]
    assert bodies[0] == "one"
    assert bodies[-1] == "two"


async def send(guarded: dict[str, Any], body: bytes) -> None:
    keys = {"access_key": guarded["user"], "secret_key": guarded["secret"]}
    async with gantrymq.Producer("signed", nameservers=guarded["nameserver"], **keys) as producer:
        await producer.send(gantrymq.Message("orders", body))


def test_neither_the_secret_nor_the_key_is_an_argument_in_an_environment_or_in_the_data(
    guarded: dict[str, Any],
) -> None:
    state = json.loads(launch("status", "--data", guarded["data"], "--json"))
    key = Path(guarded["keyFile"]).read_text().split()[-1]
    hidden = [guarded["secret"].encode(), key.encode()]
    for process in state["processes"]:
        for name in ("cmdline", "environ"):
            content = Path(f"/proc/{process['pid']}/{name}").read_bytes()
            assert not [one for one in hidden if one in content], (process["name"], name)
    for path in Path(guarded["data"]).rglob("*"):
        if path.is_file() and path.stat().st_size < 1 << 24:
            content = path.read_bytes()
            assert not [one for one in hidden if one in content], path


def test_the_data_directory_and_everything_in_it_is_for_its_owner_alone(guarded: dict[str, Any]) -> None:
    data = Path(guarded["data"])
    wrong = [path for path in (data, *data.rglob("*")) if path.exists() and path.stat().st_mode & 0o077]
    assert wrong == []


def test_refused_and_allowed_requests_are_in_the_audit_log(guarded: dict[str, Any]) -> None:
    call(f"{guarded['http']}/v1/topics", basic(guarded, "wrong"))
    call(f"{guarded['http']}/v1/topics", basic(guarded))
    until = time.monotonic() + 60
    lines: list[dict[str, Any]] = []
    while not {"allowed", "refused"} <= {line["decision"] for line in lines}:
        assert time.monotonic() < until, lines
        time.sleep(0.5)
        text = (Path(guarded["data"]) / "audit" / "gateway.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
    assert guarded["secret"] not in text
