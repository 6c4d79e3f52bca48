"""A group of three replicas on three machines, as docs/replication.md sets one up: network namespaces in a sandbox (`wires.py`).

On each machine runs a store with its NATS server, on two of them a nameserver. The gateway, and whatever asks, is on a fourth one. What ends is
started again, as by a supervisor.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from gantry_launcher.layout import nats_server

from .group import NAMES, NODES, STORE_SETTINGS, Group
from .wires import NATS_PORT, ROUTE_PORT, STORE_PORT, Wires, host_of, on_machine

NAMESERVER_PORT, GATEWAY_PORT = 9876, 8080
LOOK_SECONDS = 0.1
NATS_CONFIG = """
server_name: {node}
listen: 0.0.0.0:{port}
authorization {{ token: "{token}" }}
jetstream {{ store_dir: "{folder}", sync_interval: always }}
cluster {{
  name: gantry
  listen: 0.0.0.0:{route_port}
  authorization {{ user: gantry, password: "{password}" }}
  routes: [{routes}]
}}
"""


class Part(NamedTuple):
    """A process that runs all the time."""

    name: str
    command: list[str]


class Machines(Group):
    """The processes of the machines. To be made in a sandbox, once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "machines")
        self.cables = Wires()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._is_starting = threading.Event()
        self._is_ending = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True, name="supervisor")
        self._parts: list[Part] = []

    def start(self) -> None:
        self.data.mkdir(parents=True)
        self._parts = [*self._nats_servers(), *self._nameservers(), *map(self._store, NAMES), self._gateway()]
        self._is_starting.set()
        self._supervisor.start()
        self.wait_whole()
        self.wait_register()

    def stop(self) -> None:
        self._is_ending.set()
        self.heal()
        self._supervisor.join(10)
        for process in self._running.values():
            process.kill()
            process.wait()

    # --- who is what ---------------------------------------------------------------------------------------

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{GATEWAY_PORT}"

    def address(self, name: str) -> tuple[str, int]:
        return host_of(name), STORE_PORT

    def directory(self, name: str) -> Path:
        return self.data / f"store-{name}"

    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in list(self._running.items()) if process.poll() is None}

    # --- what is done to it --------------------------------------------------------------------------------

    def pause(self, *names: str) -> None:
        """As for every group; `launcher` keeps ended processes down."""
        if "launcher" in names:
            self._is_starting.clear()
        super().pause(*names)

    def resume(self) -> None:
        super().resume()
        self._is_starting.set()

    def _supervise(self) -> None:
        while not self._is_ending.wait(LOOK_SECONDS):
            for part in self._parts if self._is_starting.is_set() else ():
                process = self._running.get(part.name)
                if process is None or process.poll() is not None:
                    self._running[part.name] = self._begin(part)

    def _begin(self, part: Part) -> subprocess.Popen[bytes]:
        with (self.data / f"{part.name}.log").open("ab") as log:
            return subprocess.Popen(part.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    # --- how it is started ---------------------------------------------------------------------------------

    def _nats_servers(self) -> list[Part]:
        token, password = secrets.token_hex(16), secrets.token_hex(16)
        self._token_file.write_text(token)
        self._token_file.chmod(0o600)
        routes = ", ".join(f"nats://gantry:{password}@{host_of(node)}:{ROUTE_PORT}" for node in NODES)
        parts: list[Part] = []
        for node in NODES:
            config = self.data / f"{node}.conf"
            config.write_text(
                NATS_CONFIG.format(
                    node=node, port=NATS_PORT, token=token, folder=self.data / node, route_port=ROUTE_PORT,
                    password=password, routes=routes,
                )
            )  # fmt: skip
            parts.append(Part(node, on_machine(node, str(nats_server()), "-c", str(config))))
        return parts

    def _nameservers(self) -> list[Part]:
        return [
            Part(
                f"nameserver-{name}",
                on_machine(name, *_service("nameserver", {
                    "listen": "0.0.0.0", "insecure": "true", "port": NAMESERVER_PORT,
                    "data_dir": self.data / f"nameserver-{name}", **self._nats(name),
                })),
            )
            for name in NAMES[:2]
        ]  # fmt: skip

    def _store(self, name: str) -> Part:
        settings = {
            "store_dir": self.directory(name), "broker_name": "broker-a", "listen": "0.0.0.0", "insecure": "true",
            "advertise": host_of(name), "port": STORE_PORT, "nameservers": _nameserver_addresses(), "replica": name,
            "replicas": ";".join(f"{one}={host_of(one)}:{STORE_PORT}" for one in NAMES),
            **self._nats(name), **STORE_SETTINGS,
        }  # fmt: skip
        if name == NAMES[0]:
            settings["ha_bootstrap_once"] = self.data / "register-made"
        return Part(f"broker-a-{name}", on_machine(name, *_service("broker_store", settings)))

    def _gateway(self) -> Part:
        settings = {
            "listen": "127.0.0.1", "port": GATEWAY_PORT, "grpc_port": -1, "nameservers": _nameserver_addresses(), **self._nats(NAMES[0])
        }  # fmt: skip
        return Part("gateway", _service("gateway", settings))

    def _nats(self, name: str) -> dict[str, object]:
        """Return the settings for NATS: the server of the own machine first."""
        at = NAMES.index(name)
        urls = ",".join(f"nats://{host_of(NODES[(at + one) % 3])}:{NATS_PORT}" for one in range(3))
        return {"nats_url": urls, "nats_token_file": self._token_file}

    @property
    def _token_file(self) -> Path:
        return self.data / "nats-token"


def _nameserver_addresses() -> str:
    return ",".join(f"{host_of(name)}:{NAMESERVER_PORT}" for name in NAMES[:2])


def _service(module: str, settings: dict[str, object]) -> list[str]:
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-P", "-m", module, *words]
