"""A system of two brokers with access control, from `access init` on: what signed clients do, what others get, and where the secrets are."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attacker import Answer, walk

import gantrymq
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
NO_PERMISSION = 16
PATIENT_SECONDS = 90
WRITTEN_BYTES_MAX = 1 << 24


class System:
    """A running system, its first user `root`, and the user `shop`, which may use the topic `orders` and the group `billing`."""

    def __init__(self, data: str, made: dict[str, Any]) -> None:
        """`made` is what `access init` printed."""
        self.data = data
        self.key_file = Path(made["keyFile"])
        self.secrets: dict[str, str] = {made["user"]: made["secret"]}
        self.tokens: dict[str, str] = {}
        self.state: dict[str, Any] = {}

    def start(self, *words: str) -> None:
        self.state = json.loads(
            launch("up", "--free-ports", "--brokers", "2", "--detach", "--json", "--data", self.data, *words)
        )

    def status(self) -> dict[str, Any]:
        return json.loads(launch("status", "--data", self.data, "--json"))

    def do(self, *words: str) -> Any:
        """Run a command of `gantrymq access` as root."""
        as_root = {"GANTRY_ACCESS_KEY": "root", "GANTRY_SECRET_KEY": self.secrets["root"]}
        return json.loads(launch("access", *words, "--data", self.data, "--json", **as_root) or "null")

    def call(
        self, path: str, authorization: str = "", body: object = None, method: str = ""
    ) -> tuple[int, Any]:
        headers = {"content-type": "application/json", "authorization": authorization}
        data = None if body is None else json.dumps(body).encode()
        verb = method or ("GET" if body is None else "POST")
        if not authorization:
            del headers["authorization"]
        request = urllib.request.Request(f"{self.state['http']}{path}", data, headers, method=verb)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def basic(self, user: str, secret: str = "") -> str:
        words = f"{user}:{secret or self.secrets[user]}"
        return "Basic " + base64.b64encode(words.encode()).decode()

    def signed(self, user: str = "shop", secret: str = "") -> dict[str, Any]:
        """The options of a client of the SDK."""
        return {
            "nameservers": self.state["nameserver"],
            "access_key": user,
            "secret_key": secret or self.secrets[user],
        }


def launch(*words: str, **variables: str) -> str:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "gantry"), *words],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **variables},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    data = str(tmp_path_factory.mktemp("guarded") / "data")
    found = System(data, json.loads(launch("access", "init", "--data", data, "--user", "root", "--json")))
    try:
        found.start()
        found.secrets["shop"] = found.do("users", "create", "shop")["secret"]
        found.do("policies", "allow", "shop", "Pub,Sub", "Topic:orders", "--from", "127.0.0.0/8")
        found.do("policies", "allow", "shop", "Sub", "Group:billing*")
        scope = ("--scope", "Pub,Sub Topic:orders", "--scope", "Sub Group:billing*")
        found.tokens["shop"] = found.do("tokens", "create", "--user", "shop", *scope)["token"]
        queues = {"readQueues": 2, "writeQueues": 2, "perm": "rw"}
        assert found.call("/v1/topics/orders", found.basic("root"), queues, "PUT")[0] == 200
        assert found.call("/v1/topics/payroll", found.basic("root"), queues, "PUT")[0] == 200
        yield found
    finally:
        launch("down", "--data", data)


def until(is_done: Callable[[], bool], words: str, seconds: float = PATIENT_SECONDS) -> float:
    """Wait until something is so; return how long it took."""
    begin = time.monotonic()
    while not is_done():
        assert time.monotonic() - begin < seconds, words
        time.sleep(0.02)
    return time.monotonic() - begin


def test_it_says_that_access_control_is_on_and_has_taken_the_first_user(system: System) -> None:
    assert system.state["accessControl"] == "on"
    assert [path.name for path in system.key_file.parent.iterdir()] == ["access.key"]
    assert system.do("whoami")["user"] == "root"
    listed = [(one["user"], one["type"]) for one in system.do("users", "list")["users"]]
    assert {("root", "Super"), ("shop", "Normal")} <= set(listed)
    explained = system.do("explain", "shop", "Pub", "Topic:orders", "--from", "127.0.0.1")
    assert explained["allowed"]
    assert not system.do("explain", "shop", "Pub", "Topic:payroll")["allowed"]


# Signed clients


class Committing:
    """A local transaction that is always committed."""

    def execute_local_transaction(self, message: Any, argument: Any) -> gantrymq.TransactionState:
        return gantrymq.TransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, message: Any) -> gantrymq.TransactionState:
        return gantrymq.TransactionState.COMMIT_MESSAGE


async def send_and_consume(system: System, group: str, bodies: list[bytes], *, orderly: bool) -> list[bytes]:
    """Send plain, delayed and transactional messages, and return what a push consumer gets of them."""
    seen: list[bytes] = []
    consumer = gantrymq.PushConsumer(group, orderly=orderly, **system.signed())
    consumer.subscribe("orders")

    @consumer.listener
    async def take(message: gantrymq.ReceivedMessage) -> None:
        if message.body in bodies:
            seen.append(message.body)

    async with consumer:
        async with gantrymq.TransactionProducer("signed", Committing(), **system.signed()) as producer:
            await producer.send(gantrymq.Message("orders", bodies[0], sharding_key="one"))
            await producer.send(gantrymq.Message("orders", bodies[1], sharding_key="one"))
            await producer.send(gantrymq.Message("orders", bodies[2], delay=0.3))
            done = await producer.send_in_transaction(gantrymq.Message("orders", bodies[3]))
            assert done.state is gantrymq.TransactionState.COMMIT_MESSAGE
        async with asyncio.timeout(60):
            while len(seen) < len(bodies):
                await asyncio.sleep(0.02)
    return seen


@pytest.mark.parametrize("orderly", [False, True])
def test_a_signed_client_sends_delays_commits_and_consumes(system: System, orderly: bool) -> None:
    group = "billing-in-order" if orderly else "billing"
    bodies = [f"{group} {n}".encode() for n in range(4)]
    seen = asyncio.run(send_and_consume(system, group, bodies, orderly=orderly))
    assert sorted(set(seen)) == bodies
    if orderly:
        assert seen.index(bodies[0]) < seen.index(bodies[1])


def receive_all(system: System, count: int) -> None:
    """Send, receive and acknowledge over HTTP with the token of `shop`."""
    bearer = f"Bearer {system.tokens['shop']}"
    sent = {"messages": [{"body": f"http {n}"} for n in range(count)]}
    assert system.call("/v1/topics/orders/messages", bearer, sent)[0] == 200
    groups = "/v1/topics/orders/groups/billing-http/messages"
    got: set[str] = set()
    begin = time.monotonic()
    while not {one["body"] for one in sent["messages"]} <= got:
        assert time.monotonic() - begin < PATIENT_SECONDS, got
        status, answer = system.call(f"{groups}:receive", bearer, {"maxMessages": 32, "waitSeconds": 5})
        assert status == 200, answer
        acks = [{"receiptHandle": one["receiptHandle"]} for one in answer["messages"]]
        got |= {one["body"] for one in answer["messages"]}
        if acks:
            status, answer = system.call(f"{groups}:ack", bearer, {"acks": acks})
            assert (status, {one["status"] for one in answer["results"]}) == (200, {"acked"})


def test_a_token_sends_receives_and_acknowledges_over_http(system: System) -> None:
    receive_all(system, 3)


# Others


async def refusal_of(topic: str, **options: Any) -> int | None:
    with pytest.raises(gantrymq.GantryError) as refused:
        async with gantrymq.Producer("stranger", **options) as producer:
            await producer.send(gantrymq.Message(topic, b"x"), timeout=PATIENT_SECONDS)
    return refused.value.code


def test_others_are_refused_by_remoting(system: System) -> None:
    unsigned = {"nameservers": system.state["nameserver"]}
    assert asyncio.run(refusal_of("orders", **unsigned)) == NO_PERMISSION
    assert asyncio.run(refusal_of("orders", **system.signed("shop", "wrong"))) == NO_PERMISSION
    assert asyncio.run(refusal_of("orders", **system.signed("nobody", "wrong"))) == NO_PERMISSION
    assert asyncio.run(refusal_of("payroll", **system.signed())) == NO_PERMISSION
    assert asyncio.run(ask_unsigned(system)) == NO_PERMISSION


async def ask_unsigned(system: System) -> int:
    pool = ConnectionPool()
    try:
        with pytest.raises(BrokerRefused) as refused:
            await NameserverClient(pool, [system.state["nameserver"]]).cluster_info()
        return int(refused.value.code)
    finally:
        await pool.close()


def test_others_are_refused_by_http_and_health_is_open(system: System) -> None:
    orders, payroll = "/v1/topics/orders/messages", "/v1/topics/payroll/messages"
    one, bearer = {"messages": [{"body": "x"}]}, f"Bearer {system.tokens['shop']}"
    assert system.call(orders, "", one)[0] == 401
    assert system.call(orders, system.basic("shop", "wrong"), one)[0] == 401
    assert system.call(orders, system.basic("nobody", "wrong"), one)[0] == 401
    assert system.call(orders, f"{bearer}x", one)[0] == 401
    assert system.call(payroll, system.basic("shop"), one)[0] == 403
    assert system.call(payroll, bearer, one)[0] == 403
    assert system.call("/v1/users", bearer)[0] == 403
    assert system.call("/health/live")[0] == 200


OPEN_PATHS = {"/docs", "/openapi.json", "/health/live", "/health/ready"}
INTRODUCTIONS = {9050, 9051}
"""Requests by which Gantry's own services prove that they have the cluster's keys: refused as incomplete."""


def ports_of(system: System) -> set[int]:
    """Return the TCP ports on which the processes of the system listen."""
    sockets: set[str] = set()
    for process in system.status()["processes"]:
        for path in Path(f"/proc/{process['pid']}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(str(path.readlink()))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        int(line[1].rpartition(":")[2], 16)
        for line in lines
        if line[3] == "0A" and f"socket:[{line[9]}]" in sockets
    }


GRPC_REFUSALS = {"40100", "40017"}
"""UNAUTHORIZED, and CLIENT_ID_REQUIRED where the client names itself nowhere."""
NO_HTTP2 = "the client does not begin as HTTP/2 does"


def is_refusal(answer: Answer) -> bool:
    """Return whether a stranger learns nothing by this answer and reaches nothing."""
    if answer.attempt.startswith(("GET", "POST of", "POST", "DELETE")):
        status = (
            answer.got[9:12] if answer.attempt.startswith("POST of") else answer.attempt.rpartition(" ")[2]
        )
        return status in {"400", "401", "403", "404"} or (
            status == "200" and set(answer.got.split()) <= OPEN_PATHS
        )
    if answer.attempt.startswith("gRPC"):
        return all(part.rpartition(" ")[2] in GRPC_REFUSALS for part in answer.got.split("; "))
    if answer.attempt == "TLS without a certificate" or answer.got.endswith(NO_HTTP2):
        return True  # the gRPC port answers TLS with a certificate of its own
    if answer.got.startswith("INFO {"):  # NATS greets everybody
        return answer.attempt == "connect and wait" or "-ERR 'Authorization Violation'" in answer.got
    if answer.got.startswith("code "):
        parts = answer.got.split("; ")
        counted = {int(part.split()[1].rstrip(":")) for part in parts if part.startswith("code ")}
        others = {int(part.split()[1].rstrip(":")) for part in parts if part.startswith("request ")}
        return counted <= {16, 1} and others <= INTRODUCTIONS
    return answer.got == "" or answer.got.startswith(("-NOAUTH", "-ERR", "HTTP/1.1 400 "))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_stranger_gets_nothing_from_any_port(system: System) -> None:
    ports = ports_of(system)
    assert len(ports) == 16, (
        "NATS, Valkey, HTTP, gRPC; two of nameserver, scheduler and checker, three of each broker"
    )
    answers = walk("127.0.0.1", sorted(ports))
    assert [str(answer) for answer in answers if not is_refusal(answer)] == []
    called = [answer.got for answer in answers if answer.attempt.startswith("gRPC")]
    assert len(called) == 6, "one port speaks gRPC, plain and over TLS"
    assert all(got.count("; ") == 16 for got in called), "each method answers"
    asked = {answer.port for answer in answers if answer.got.startswith("code 1: 2; code 16: 10198; ")}
    assert len(asked) == 7, "nameserver, scheduler and checker, and two ports of each broker speak remoting"
    assert {answer.port for answer in answers if answer.got} == ports


# Changes


async def outcome(send: Callable[[], Awaitable[object]]) -> int:
    try:
        await send()
    except gantrymq.GantryError as error:
        return error.code or -1
    return 0


async def time_to_refuse(
    system: System, user: str, change: Callable[[], object], clock: Callable[[], float]
) -> dict[str, float]:
    """Change a user, and return after how many seconds each broker and the gateway refuse it."""
    took: dict[str, float] = {}
    message = gantrymq.Message("orders", b"x")
    async with gantrymq.Producer("changed", retries=0, **system.signed(user)) as producer:
        queues = {queue.broker: queue for queue in await producer.queues("orders")}
        assert set(queues) == {"broker-a", "broker-b"}
        for queue in queues.values():
            await producer.send(message, queue=queue)
        await asyncio.to_thread(change)
        begin = clock()

        async def watch(name: str, refused: Callable[[], Awaitable[bool]]) -> None:
            while not await refused():
                await asyncio.sleep(0.01)
            took[name] = clock() - begin

        async def at_broker(name: str) -> bool:
            return await outcome(lambda: producer.send(message, queue=queues[name])) == NO_PERMISSION

        async def at_gateway() -> bool:
            found = await asyncio.to_thread(system.call, "/v1/access:whoami", system.basic(user))
            return found[0] in {401, 403}

        async with asyncio.timeout(30):
            await asyncio.gather(
                watch("gateway", at_gateway),
                *(watch(name, lambda name=name: at_broker(name)) for name in queues),
            )
    return took


def test_a_change_counts_on_both_brokers_and_at_the_gateway_within_a_second(
    system: System, fair_clock: Callable[[], float]
) -> None:
    root = system.basic("root")
    system.secrets["brief"] = system.call("/v1/users", root, {"user": "brief"})[1]["secret"]
    entry = {"resource": "Topic:orders", "actions": ["Pub"]}
    assert system.call("/v1/policies/brief", root, {"custom": [entry]}, "PUT")[0] == 200
    until(lambda: asyncio.run(can_send(system, "brief")), "the new user may not send")
    disable = lambda: system.call("/v1/users/brief", root, {"status": "disable"}, "PATCH")  # noqa: E731
    took = asyncio.run(time_to_refuse(system, "brief", disable, fair_clock))
    assert max(took.values()) < 1, took


async def can_send(system: System, user: str) -> bool:
    """Return whether every queue takes a message of a user."""
    message = gantrymq.Message("orders", b"x")

    async def send_everywhere() -> None:
        async with gantrymq.Producer("able", retries=0, **system.signed(user)) as producer:
            queues = await producer.queues("orders")
            assert len(queues) == 4, "a broker is not registered yet"
            for queue in queues:
                await producer.send(message, queue=queue, timeout=3)

    try:
        await send_everywhere()
    except gantrymq.ConfigurationError:
        raise
    except (gantrymq.GantryError, AssertionError):
        return False
    return True


def works(system: System) -> bool:
    try:
        status, _ = system.call("/v1/topics/orders", system.basic("root"))
    except OSError:
        return False
    return status == 200 and asyncio.run(can_send(system, "shop"))


def test_after_a_kill_of_broker_nameserver_and_gateway_the_same_users_work(system: System) -> None:
    for process in system.status()["processes"]:
        if process["name"] in {"broker-a", "nameserver", "gateway"}:
            os.kill(process["pid"], signal.SIGKILL)
    until(lambda: works(system), "the system does not work again")
    receive_all(system, 2)
    assert asyncio.run(refusal_of("orders", **system.signed("shop", "wrong"))) == NO_PERMISSION


# What is where


def test_no_secret_is_an_argument_in_an_environment_in_a_log_or_in_the_data(system: System) -> None:
    keys = [line.split()[1] for line in system.key_file.read_text().splitlines() if not line.startswith("#")]
    hidden = [text.encode() for text in (*system.secrets.values(), *system.tokens.values(), *keys)]
    for process in system.status()["processes"]:
        for name in ("cmdline", "environ"):
            content = Path(f"/proc/{process['pid']}/{name}").read_bytes()
            assert not [one for one in hidden if one in content], (process["name"], name)
    files = [path for path in Path(system.data).rglob("*") if path.is_file()]
    assert {"gantry.log", "gateway.jsonl"} <= {path.name for path in files}
    for path in files:
        with path.open("rb") as file:  # a log has its full size from the start; what is written comes first
            content = file.read(WRITTEN_BYTES_MAX).rstrip(b"\0")
        assert not [one for one in hidden if one in content], path


def test_the_data_and_the_keys_are_for_their_owner_alone(system: System) -> None:
    for folder in (Path(system.data), system.key_file.parent):
        found = [path for path in (folder, *folder.rglob("*")) if path.exists()]
        assert [path for path in found if path.stat().st_mode & 0o077] == []


def test_the_audit_logs_name_refused_allowed_and_changed(system: System) -> None:
    def decisions() -> dict[str, set[str]]:
        folder = Path(system.data) / "audit"
        lines = [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]
        return {decision: {one.get("user", "") for one in lines if one["decision"] == decision}
                 for decision in ("refused", "allowed", "changed")}  # fmt: skip

    assert system.call("/v1/topics", system.basic("nobody", "wrong"))[0] == 401
    assert system.call("/v1/topics/payroll", system.basic("shop"))[0] == 403
    assert (
        system.call("/v1/topics/orders/messages", system.basic("shop"), {"messages": [{"body": "x"}]})[0]
        == 200
    )
    until(lambda: "shop" in decisions()["allowed"], "allowed requests are not noted")
    until(lambda: {"shop", "nobody"} <= decisions()["refused"], "refused requests are not noted")
    assert "root" in decisions()["changed"]


# The key is replaced


def test_the_next_run_has_a_new_key_and_the_same_users(system: System) -> None:
    launch("access", "init", "--rotate-key", "--data", system.data)
    launch("down", "--data", system.data)
    system.start()
    until(lambda: works(system), "the users do not work with the new key")
    assert {"root", "shop"} <= set(system.do("reseal")["users"])
    assert system.do("reseal", "--dry-run") == {"users": [], "unopened": [], "dryRun": True}
    lines = system.key_file.read_text().splitlines(keepends=True)
    system.key_file.write_text("".join(lines[:-1]))
    launch("down", "--data", system.data)
    system.start()
    until(lambda: works(system), "the users do not work without the old key")
