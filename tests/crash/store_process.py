"""One real broker-store process on its own ports; a test starts, kills and restarts it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

PORTS = range(15_002, 32_000)
READY_SECONDS_MAX = 150.0
ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "libs" / name / "src" for name in ("wire", "link", "chassis")] + [
    ROOT / "services/broker-store/src"
]


def free_port_block() -> int:
    """A port whose neighbours −2, +1 and +2 are also free; a store uses them.

    Below the range the kernel takes for outgoing connections, and drawn by the system's own chance: a store that was killed finds its
    port free again, and tests that run beside each other, which share the seed of `random`, draw different ones.
    """
    for _ in range(100):
        port = secrets.choice(PORTS)
        if all(_is_free(port + step) for step in (-2, 0, 1, 2)):
            return port
    raise RuntimeError("no four neighbouring free ports on 127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@dataclass
class StoreProcess:
    """Owns the process, but not the directory. `settings` are passed as --set name=value."""

    store_dir: Path
    port: int = field(default_factory=free_port_block)
    settings: dict[str, str] = field(default_factory=dict[str, str])
    log: Path | None = None
    _process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> float:
        """Start it; return the seconds until it was ready (0.0 with wait=False)."""
        values = {
            "port": str(self.port),
            "http_port": str(self.port + 2),
            "store_dir": str(self.store_dir),
            "nameservers": "",
            "send_wait_ms_max": "60000",  # a busy machine must not fail these tests
            **self.settings,
        }
        arguments = [item for name, value in values.items() for item in ("--set", f"{name}={value}")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(path) for path in SOURCES)}
        log = self.log or self.store_dir.with_suffix(".log")
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "broker_store", *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=ROOT,
            )  # fmt: skip
        return self.wait_ready() if wait else 0.0

    def wait_ready(self) -> float:
        """Return the seconds until it was ready; raise with the end of its log if it died or did not become ready."""
        began = time.monotonic()
        while time.monotonic() - began < READY_SECONDS_MAX:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            if self.get("/health/ready")[0] == 200:
                return time.monotonic() - began
            time.sleep(0.01)
        log = self.log or self.store_dir.with_suffix(".log")
        raise RuntimeError(f"the store is not ready; its log ends with:\n{log.read_text()[-3000:]}")

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body from its HTTP port; status 0 while nothing listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port + 2, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def get_json(self, path: str) -> object:
        return json.loads(self.get(path)[1])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill it with -9 and reap it."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop it cleanly; return its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            status = self._process.wait(50)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait(60)
        self._process = None
        return status
