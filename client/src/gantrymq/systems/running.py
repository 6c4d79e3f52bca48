"""Starts a real system on free ports for the duration of a block, and always ends it.

Owns the process of the launcher. It never leaves one behind: not after a failed start, an exception or Ctrl-C,
nor if the program that uses it is killed. Needs a checkout of Gantry: this one, or the one GANTRY_HOME names.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gantrymq.systems.checkout import SystemFailed, launcher, status_of

START_SECONDS_MAX = 120.0
"""A system usually starts in two seconds; a busy machine, or a first start that installs, takes longer."""
STOP_SECONDS_MAX = 60.0
WORDS_LINES_MAX = 6
PR_SET_PDEATHSIG = 1

_libc: ctypes.CDLL | None = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True)
class BrokerPlace:
    """The addresses of a broker: `address` is for remoting, `http` for metrics; `pid` is that of the start."""

    name: str
    address: str
    http: str
    pid: int


@dataclass(frozen=True)
class System:
    """A running system: the addresses for clients, and the directory of its data and its log."""

    http: str
    nameserver: str
    brokers: tuple[BrokerPlace, ...]
    data: Path
    access_key: str = ""
    """With access control: a user that may do everything. Else empty."""
    secret_key: str = field(default="", repr=False)
    """The user's secret."""

    @property
    def log(self) -> Path:
        """The combined log of all its processes."""
        return self.data / "logs" / "gantry.log"

    def status(self) -> dict[str, Any]:
        """Return the output of `./gantry status --json`: processes, health, current pids. Raises SystemFailed."""
        return status_of(self.data)


@dataclass(frozen=True)
class SystemOptions:
    """What to start. `settings` are `service.key` → value as for `up --set`; `data` None is a new directory, removed at the end.

    `access` switches access control on, and `data` must then be None: the keys of a kept directory are its user's.
    """

    brokers: int = 1
    flush: str = "sync"
    gateway_workers: int = 1
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    data: Path | None = None
    start_seconds_max: float = START_SECONDS_MAX
    access: bool = False

    def __post_init__(self) -> None:
        if self.access and self.data is not None:
            raise ValueError("access: only for a new data directory; leave data out")


@contextlib.contextmanager
def system(options: SystemOptions | None = None, **named: Any) -> Generator[System]:
    """Start a system for the block: `with gantrymq.testing.system(brokers=2) as running:`. Named options are those of SystemOptions.

    It is always stopped when the block ends. Raises SystemFailed if it cannot start.
    """
    asked = options if options is not None else SystemOptions(**named)
    command = launcher()
    folder = Path(tempfile.mkdtemp(prefix="gantry-test-")) if asked.data is None else None
    data = asked.data or folder
    assert data is not None
    if asked.access:
        data = data / "data"  # the keys go beside it
    data.mkdir(parents=True, exist_ok=True)
    try:
        user, secret = _with_access(command, data) if asked.access else ("", "")
        with _started(command, asked, data) as state:
            places = tuple(
                BrokerPlace(one["name"], one["address"], one["http"], one["pid"]) for one in state["brokers"]
            )
            yield System(state["http"], state["nameserver"], places, data, user, secret)
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _with_access(command: Path, data: Path) -> tuple[str, str]:
    """Switch access control on for a new system, and return its first user with the secret. Raises SystemFailed."""
    words = [sys.executable, str(command), "access", "init", "--json", "--data", str(data)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 - the launcher
    if ran.returncode != 0:
        raise SystemFailed(ran.stderr.strip())
    made: dict[str, str] = json.loads(ran.stdout)
    return made["user"], made["secret"]


@contextlib.contextmanager
def _started(command: Path, options: SystemOptions, data: Path) -> Generator[dict[str, Any]]:
    said = data / "up.log"
    in_main_thread = threading.current_thread() is threading.main_thread()
    with said.open("wb") as words:
        process = subprocess.Popen(  # noqa: S603 - the launcher, and words without a shell
            [sys.executable, str(command), "up", *_words(options, data)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=words,
            process_group=0,  # Ctrl-C in the terminal goes to the tests, which end it in order
            # The kernel counts the starting thread as the parent: only the main thread lives as long as the process.
            preexec_fn=_end_with_parent if _libc is not None and in_main_thread else None,  # noqa: PLW1509 - one system call
        )
    try:
        yield _state(process, said, options.start_seconds_max)
    finally:
        _stop(process)


def _words(options: SystemOptions, data: Path) -> list[str]:
    sets = [word for name, value in options.settings.items() for word in ("--set", f"{name}={value}")]
    numbers = ["--brokers", str(options.brokers), "--gateway-workers", str(options.gateway_workers)]
    return ["--free-ports", "--json", "--data", str(data), "--flush", options.flush, *numbers, *sets]


def _state(process: subprocess.Popen[bytes], said: Path, seconds: float) -> dict[str, Any]:
    """Return the JSON line of the ready system."""
    assert process.stdout is not None
    until = time.monotonic() + seconds
    received = b""
    while not received.endswith(b"\n"):
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
        part = os.read(process.stdout.fileno(), 65536) if readable else b""
        if not part:
            why = f"ended with status {process.wait()}" if readable else f"was not ready within {seconds:g} s"
            raise SystemFailed(f"the system {why}: {_last_words(said)}")
        received += part
    state: dict[str, Any] = json.loads(received)
    return state


def _last_words(said: Path) -> str:
    lines = said.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-WORDS_LINES_MAX:]) or "it printed nothing"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop it in order; if that is interrupted or takes too long, kill it (its children end with it)."""
    try:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _end_with_parent() -> None:
    """Run in the launcher before exec: ends it, and the system with it, when the program that started it dies."""
    assert _libc is not None
    _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
