"""Access control is switched on for running processes, one after the other, and a client that signs in time loses nothing."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import gantrymq
from gantry_access.signatures.remoting import sign
from gantry_access.signatures.signing_key import SigningKey
from gantry_link.connections.connection import connect

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
SOURCES = [str(path) for folder in ("libs", "services") for path in sorted((ROOT / folder).glob("*/src"))]
USER, SECRET = "alice", "alice secret"
ROOT_SECRET = "root secret"
MODULES = {"nameserver": "nameserver", "a": "broker_store", "b": "broker_store", "scheduler": "scheduler", "checker": "txn_checker", "gateway": "gateway"}  # fmt: skip


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return ("asyncio", {"use_uvloop": True})


def free_block() -> int:
    """Return a port with two free ones on each side: those that a store derives."""
    while True:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        if 3 <= port <= 65533 and all(_is_free(port + step) for step in (-2, -1, 1, 2)):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class System:
    """Six processes at fixed ports, each of which is restarted alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {name: free_block() for name in MODULES}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.keys, self.first = folder / "keys", folder / "first"
        self.keys.write_text(f"k1 {base64.b64encode(bytes(range(32))).decode()}\n")
        self.first.write_text(f'{{"username":"root","password":"{ROOT_SECRET}"}}')
        self.keys.chmod(0o600)

    def settings(self, name: str, mode: str) -> list[str]:
        port, data = self.ports[name], self.folder / name
        found = [f"port={port}"]
        found.append("grpc_port=-1" if name == "gateway" else f"http_port={port + 1}")
        if name != "nameserver":
            found.append(f"nameservers={self.nameserver}")
        if name in "ab":
            found += [f"store_dir={data}", f"broker_name={name}", "send_wait_ms_max=60000"]
        elif name in ("nameserver", "scheduler"):
            found.append(f"data_dir={data}")
        if mode != "off":
            found += [
                f"access_key_file={self.keys}",
                f"access_mode={mode}",
                f"access_audit_file={data}.audit",
            ]
            if name in "ab":
                found.append(f"access_initial_user_file={self.first}")
        return found

    @property
    def nameserver(self) -> str:
        return f"127.0.0.1:{self.ports['nameserver']}"

    def restart(self, name: str, mode: str) -> None:
        """Stop a process as an operator does, and start it with another mode; return once it is ready."""
        self.stop(name)
        chosen = [word for one in self.settings(name, mode) for word in ("--set", one)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", MODULES[name], *chosen],
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)},
            )

    def stop(self, name: str) -> None:
        process = self.running.pop(name, None)
        if process is not None:
            process.terminate()
            process.wait(60)

    def status(self, name: str, path: str, headers: dict[str, str] | None = None) -> int:
        port = self.ports[name] + (name != "gateway")
        try:
            asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers or {})
            with urllib.request.urlopen(asked, timeout=10) as answer:
                self.text = answer.read().decode()
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    async def all_to(self, mode: str, *clients: Sending) -> None:
        """Restart every process, one after the other.

        Before the next one goes, each is ready, the stores are listed, and the clients know both: a client that has lost the
        route to one store has none to go to when the other one stops.
        """
        for name in MODULES:
            await asyncio.to_thread(self.restart, name, mode)
            await until(lambda name=name: self.status(name, "/health/ready") == 200, f"{name} is ready")
            stores = self.running.keys() & {"a", "b"}
            async with asyncio.timeout(60):
                while await self.listed() != stores:
                    await asyncio.sleep(0.05)
                for client in clients:
                    while await client.known() != stores:
                        await asyncio.sleep(0.05)

    async def listed(self) -> set[str]:
        """Return the stores that the nameserver lists."""
        answer = await ask(self.nameserver, 106, {})
        return stores_in(answer.body)

    def permitted(self, name: str) -> float:
        assert self.status(name, "/metrics", basic("root", ROOT_SECRET)) == 200
        lines = [line for line in self.text.splitlines() if line.startswith("access_permitted_total{")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


def basic(user: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()}


async def until(condition, what: str, seconds: float = 60) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not await asyncio.to_thread(condition):
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(what) from None


class Sending:
    """A client that sends all the time."""

    def __init__(self, nameserver: str, **user: str) -> None:
        self.options = {"nameservers": nameserver, "route_poll_interval": 0.5, **user}
        self.sent, self.failures = 0, []

    async def __aenter__(self):
        self.producer = gantrymq.Producer("senders", **self.options)
        await self.producer.start()
        self.task = asyncio.create_task(self._run())
        return self

    async def _run(self) -> None:
        while True:
            try:
                await self.producer.send(gantrymq.Message("orders", b"x"))
                self.sent += 1
            except gantrymq.GantryError as error:
                self.failures.append(error)
            await asyncio.sleep(0.02)

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.producer.close()

    async def known(self) -> set[str]:
        """Return the stores that it sends to."""
        return {queue.broker for queue in await self.producer.queues("orders")}

    async def more(self, count: int = 20) -> None:
        before = self.sent
        await until(lambda: self.sent >= before + count, "it sends")


async def ask(address: str, code: int, fields: dict[str, str], body: bytes = b"", *, signed: bool = True):
    connection = await connect(address)
    try:
        found = sign(fields, body, "root", SigningKey(ROOT_SECRET)) if signed else fields
        return await connection.request(code, found, body, 30)
    finally:
        connection.close()


def stores_in(body: bytes) -> set[str]:
    """Return the names of brokers in a body of a nameserver, whose numbers as keys make it no JSON."""
    return {name.decode() for name in re.findall(rb'"brokerName":"(\w+)"', body)}


async def has_both(nameserver: str) -> bool:
    """Return whether the route of the topic leads to both stores."""
    answer = await ask(nameserver, 105, {"topic": "orders"}, signed=False)
    return stores_in(answer.body) == {"a", "b"}


async def make_user(address: str) -> None:
    body = f'{{"password":"{SECRET}"}}'.encode()
    assert (await ask(address, 3001, {"username": USER}, body, signed=False)).code == 16
    assert (await ask(address, 3001, {"username": USER}, body)).code == 0
    policies = b'{"policies":[{"entries":[{"resource":"Topic:orders","actions":["Pub"],"decision":"Allow"},{"resource":"Group:*","actions":["Sub"],"decision":"Allow"}]}]}'
    assert (await ask(address, 3006, {"subject": f"User:{USER}"}, policies)).code == 0


async def test_off_permissive_enforce_without_losing_a_client(tmp_path: Path) -> None:
    system = System(tmp_path)
    try:
        await system.all_to("off")
        store = f"127.0.0.1:{system.ports['a']}"
        topic = {"topic": "orders", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}  # fmt: skip
        for name in "ab":
            answer = await ask(f"127.0.0.1:{system.ports[name]}", 17, topic, signed=False)
            assert answer.code == 0, answer.remark
        async with asyncio.timeout(60):
            while not await has_both(system.nameserver):
                await asyncio.sleep(0.05)
        async with Sending(system.nameserver) as unsigned:
            await unsigned.more()
            await system.all_to("permissive", unsigned)  # (a)
            await unsigned.more()
            assert unsigned.failures == []
            assert system.permitted("a") + system.permitted("b") > 0
            await make_user(store)  # (b)
            async with Sending(system.nameserver, access_key=USER, secret_key=SECRET) as signed:
                await signed.more()
                unsigned.task.cancel()  # the last client without a user is restarted with its key
                await unsigned.producer.close()  # no more heartbeats
                audit = tmp_path / "a.audit"
                await until(lambda: '"decision":"permitted"' in audit.read_text(), "it is noted")
                before = [system.permitted(name) for name in ("a", "b")]
                await signed.more()
                assert [system.permitted(name) for name in ("a", "b")] == before
                await system.all_to("enforce", signed)  # (c)
                await signed.more()
                assert signed.failures == []
        assert (await ask(store, 105, {"topic": "orders"}, signed=False)).code == 16
        assert (await ask(system.nameserver, 105, {"topic": "orders"}, signed=False)).code == 16
        for name in MODULES:
            assert await asyncio.to_thread(system.status, name, "/metrics") == 401
            assert await asyncio.to_thread(system.status, name, "/metrics", basic(USER, SECRET)) == 403
            assert await asyncio.to_thread(system.status, name, "/metrics", basic("root", ROOT_SECRET)) == 200
    finally:
        for name in MODULES:
            system.stop(name)
