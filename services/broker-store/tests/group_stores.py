"""The stores of one broker group as real processes, over real NATS servers."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

from nats_nodes import Ports
from test_broker_store_process import SOURCES, Client

START_SECONDS_MAX = 60
EXIT_RESTART = 75
JETSTREAM = "$JS.API.STREAM"


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of ours to its end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def ask_nats(group: "StoreGroup", call: str) -> dict:
    """Send a request to JetStream as an operator's tool does."""
    program = (
        "import asyncio, random, sys; from gantry_chassis.nats_connection import NatsRequests\n"
        "async def ask():\n"
        "    requests = NatsRequests((sys.argv[1],), 'operator', random.Random())\n"
        "    print((await requests.request(sys.argv[2], b'', 30)).payload.decode())\n"
        "    await requests.close()\n"
        "asyncio.run(ask())"
    )
    return json.loads(run_python("-c", program, group.nats_url, call).stdout)


class Replica:
    """One store of the group. A supervisor's work, starting it again, is the test's."""

    def __init__(self, group: "StoreGroup", name: str, port: int, fast_port: int, http_port: int) -> None:
        self.group, self.name, self.port, self.fast_port, self.http_port = (
            group,
            name,
            port,
            fast_port,
            http_port,
        )
        self.directory = group.folder / name
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **settings: object) -> None:
        group = self.group
        chosen = {
            "store_dir": self.directory, "port": self.port, "http_port": self.http_port, "fast_port": self.fast_port,
            "replica": self.name, "replicas": group.replicas, "nats_url": f" {group.nats_url} ,", "register_servers": group.servers,
            "ha_bootstrap": str(self.name == "a" and not self.directory.exists()).lower(), "send_wait_ms_max": 60_000,
            "log_file": group.folder / f"{self.name}.log", **group.settings, **settings,
        }  # fmt: skip
        arguments = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
        self.process = subprocess.Popen([sys.executable, "-m", "broker_store", *arguments], env=environment)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)

    def get(self, path: str, seconds: float = 5.0) -> tuple[int, dict]:
        return self.ask("GET", path, seconds)

    def post(self, path: str, seconds: float = 5.0) -> tuple[int, dict]:
        return self.ask("POST", path, seconds)

    def ask(self, method: str, path: str, seconds: float) -> tuple[int, dict]:
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=seconds)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            data = answer.read()
            return answer.status, json.loads(data) if data[:1] in (b"{", b"[") else {"text": data.decode()}
        finally:
            connection.close()

    def state(self) -> dict:
        with contextlib.suppress(OSError, http.client.HTTPException):
            status, answer = self.get("/v1/replication", 1.0)
            return answer if status == 200 else {}
        return {}

    @property
    def is_serving(self) -> bool:
        return bool(self.state().get("isServing"))


class StoreGroup:
    """All stores of a group."""

    def __init__(
        self, folder: Path, nats_url: str, servers: int, names: str = "abc", **settings: object
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.nats_url, self.servers, self.settings = folder, nats_url, servers, settings
        self.ports = Ports()
        ports = {name: [self.ports.one() for _ in range(3)] for name in names}
        self.replicas = ";".join(f"{name}=127.0.0.1:{port}" for name, (port, *_) in ports.items())
        self.stores = {name: Replica(self, name, *three) for name, three in ports.items()}

    def start(self) -> None:
        for store in self.stores.values():
            store.start()

    def close(self) -> None:
        for sender in Sender.opened:
            sender.close()
        Sender.opened.clear()
        for store in self.stores.values():
            store.kill()
        self.ports.close()

    def wait(self, is_so, what: str, seconds: float = START_SECONDS_MAX) -> None:
        until = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < until, f"{what}: {[store.state() for store in self.stores.values()]}"
            time.sleep(0.02)

    def leader(self, seconds: float = START_SECONDS_MAX) -> Replica:
        """Wait for a leader that serves."""
        found: list[Replica] = []

        def leads() -> bool:
            found[:] = [
                store
                for store in self.stores.values()
                if store.process is not None and store.process.poll() is None and store.is_serving
            ]
            return bool(found)

        self.wait(leads, "no leader", seconds)
        return found[0]

    def wait_for_set(self, count: int) -> None:
        """Wait until the in-sync set has so many members."""
        self.wait(lambda: len(self.leader().state().get("members", [])) == count, f"no set of {count}")

    def restart_ended(self) -> None:
        """Start every store again that ended, as a supervisor does."""
        for store in self.stores.values():
            if store.process is not None and store.process.poll() is not None:
                store.start()


class Sender(Client):
    """A blocking client of one store, which a group closes at its end."""

    opened: ClassVar[list[Client]] = []

    def __init__(self, port: int, seconds: float = 10.0) -> None:
        try:
            super().__init__(port)
        except OSError:
            self.opened.remove(self)
            raise
        self.socket.settimeout(seconds)

    def close(self) -> None:
        self.socket.close()


STOP, CONTINUE = signal.SIGSTOP, signal.SIGCONT
