"""`status`, `down` and `up` next to a launcher that does not answer: they report it and leave no process running."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from gantry_launcher import install
from gantry_launcher.commands import client, status
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.processes import control
from gantry_launcher.serving import ending, serve

LAUNCHER = """
import sys
from pathlib import Path
from gantry_launcher.access.exposure import AccessControl
from gantry_launcher.processes import control
from gantry_launcher.planning.health import Check
from gantry_launcher.layout import DataDir
from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.system_plan import ProcessPlan, SystemPlan
from gantry_launcher.serving.serve import claim
from gantry_launcher.processes.orders import Restarts
from gantry_launcher.processes.supervisor import Supervisor
from gantry_launcher.processes.waiting import Waiting

data, service = Path(sys.argv[1]), sys.argv[2]
lock = claim(DataDir(data))
check = Check("http", "127.0.0.1", 1)
command = (sys.executable, "-c", service, str(data / "started"))
process = ProcessPlan("trial", "broker", command, str(data / "trial"), check, 0, 1, str(data / "trial.log"))
plan = SystemPlan((process,), "", "", (), "", (), "127.0.0.1", AccessControl.OFF, {{}}, "")
output = Output(data / "gantry.log", echo=False)
listener = control.listen(data)
class Deaf(Supervisor):
    def _on_stop_signal(self, *_):
        pass
    def _answer(self):
        connection = control.accept(self._listener)
        self._waiting_for_end.append(connection)
        connection.setblocking(True)
        if {answers} and control.word(connection) == "stop":
            control.answer(connection, {{"pids": {{"launcher": [{victim}]}}}})
{kind}(plan, output, lock, listener, 0.0, 0.0, Waiting([], 0.0)).run(lambda state: None, lambda words: None, Restarts())
"""
SERVICE = """
import os, signal, sys, time
def end(*_):
    sys.exit(0)
signal.signal(signal.SIGTERM, {handler})
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    time.sleep(0.05)
"""
ORDERLY, STUBBORN = SERVICE.format(handler="end"), SERVICE.format(handler="signal.SIG_IGN")


class System:
    """A launcher in its own process, with one service."""

    def __init__(self, data: Path, service: str, *, is_deaf: bool = False, named: int | None = None) -> None:
        self.data = data
        code = LAUNCHER.format(
            kind="Deaf" if is_deaf else "Supervisor", answers=named is not None, victim=named
        )
        self.launcher = subprocess.Popen([sys.executable, "-c", code, str(data), service])
        until((data / "started").exists)
        self.service = int((data / "started").read_text())
        self._handle = os.pidfd_open(self.service)

    def has_ended(self) -> bool:
        """Whether the launcher and the service have stopped."""
        return self.launcher.poll() is not None and bool(select.select([self._handle], [], [], 0)[0])

    def close(self) -> None:
        for number in (signal.SIGKILL, signal.SIGCONT):
            if self.launcher.poll() is None:
                self.launcher.send_signal(number)
            if not select.select([self._handle], [], [], 0)[0]:
                signal.pidfd_send_signal(self._handle, number)
        self.launcher.wait()
        os.close(self._handle)


Start = Callable[..., System]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    until(lambda: ending.is_stopped(pid))


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Start]:
    monkeypatch.setattr(control, "ASK_SECONDS_MAX", 0.2)
    systems: list[System] = []

    def started(service: str = ORDERLY, *, is_deaf: bool = False, named: int | None = None) -> System:
        systems.append(System(tmp_path / "data", service, is_deaf=is_deaf, named=named))
        return systems[-1]

    yield started
    for system in systems:
        system.close()


def test_status_names_a_stopped_launcher_and_what_to_do(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    system = start()
    pid = system.launcher.pid
    stop(pid)
    assert status.status(system.data, as_json=True) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"ready": False, "processes": [], "unresponsiveLauncher": pid}
    assert printed.err == (
        f"gantry: the launcher of {system.data} (pid {pid}) is stopped: kill -CONT {pid} continues it, "
        f"./gantry down --data {system.data} ends it and its services; its services may still run\n"
    )
    os.kill(pid, signal.SIGCONT)
    until(lambda: isinstance(answer_of(system.data), control.Answer))


def answer_of(data: Path) -> control.Answer | control.Unresponsive | None:
    answer = control.ask(data, "status")
    if answer is not None:
        answer.connection.close()
    return answer


def test_status_names_a_launcher_that_hangs(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    system = start(is_deaf=True)
    assert status.status(system.data, as_json=False) == 1
    pid = system.launcher.pid
    assert f"(pid {pid}) does not answer: ./gantry down" in capsys.readouterr().err


@pytest.mark.parametrize("stops_service", [False, True], ids=["launcher", "launcher and service"])
def test_down_continues_a_stopped_launcher_which_ends_in_order(
    start: Start, capsys: pytest.CaptureFixture[str], *, stops_service: bool
) -> None:
    system = start()
    stop(system.launcher.pid)
    if stops_service:
        stop(system.service)
    assert status.down(system.data) == 0
    assert system.launcher.wait(60) == 0
    assert system.has_ended()
    said = capsys.readouterr().err
    assert f"(pid {system.launcher.pid}) does not answer; ending it and its services" in said
    assert said.endswith("gantry: stopped\n")


@pytest.mark.parametrize("service", [ORDERLY, STUBBORN], ids=["orderly", "stubborn"])
@pytest.mark.parametrize("stops_service", [False, True], ids=["running", "stopped"])
def test_down_kills_a_launcher_that_hangs_and_leaves_no_service(
    start: Start, monkeypatch: pytest.MonkeyPatch, service: str, *, stops_service: bool
) -> None:
    monkeypatch.setattr(ending, "REPLY_SECONDS_MAX", 0.2)
    monkeypatch.setattr(ending, "SERVICE_SECONDS_MAX", 30.0 if service == ORDERLY else 0.2)
    system = start(service, is_deaf=True)
    if stops_service:
        stop(system.service)
    assert status.down(system.data) == 0
    assert system.launcher.wait(60) == -signal.SIGKILL
    until(system.has_ended)


def test_a_pid_in_an_answer_gets_no_signal(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "REPLY_SECONDS_MAX", 0.2)
    monkeypatch.setattr(status, "STOP_SECONDS_MAX", 0.2)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as victim:
        try:
            system = start(is_deaf=True, named=victim.pid)
            assert status.down(system.data) == 0
            assert system.launcher.wait(60) == -signal.SIGKILL
            assert victim.poll() is None
        finally:
            victim.kill()


def test_a_launcher_that_has_ended_leaves_its_pid_to_others() -> None:
    here, there = socket.socketpair()
    there.sendall(b"{}\n")
    there.close()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other, here:
        try:
            ending.end_launcher(here, other.pid)
            assert other.poll() is None
        finally:
            other.kill()


def test_a_stopped_launcher_with_a_full_queue_of_callers_still_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(control, "ASK_SECONDS_MAX", 0.1)
    monkeypatch.setattr(control, "CALLERS_MAX", 1)
    with control.listen(tmp_path):
        for _ in range(3):
            assert status.status(tmp_path, as_json=False) == 1
        with pytest.raises(Refused, match=r"does not answer; find its pid with fuser .*gantry\.lock"):
            status.down(tmp_path)
    assert "nothing runs" not in capsys.readouterr().err


def test_up_beside_a_stopped_launcher_is_refused_with_what_to_do(start: Start) -> None:
    system = start()
    stop(system.launcher.pid)
    with pytest.raises(Refused, match=rf"\(pid {system.launcher.pid}\) is stopped: kill -CONT"):
        serve.claim(DataDir(system.data))


def test_a_client_command_beside_a_stopped_launcher_says_so(
    start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    system = start()
    stop(system.launcher.pid)
    became: list[dict[str, str]] = []
    monkeypatch.setattr(client, "ROOT", system.data.parent)
    monkeypatch.setattr(install, "ensure", lambda *_: None)
    monkeypatch.setattr(client.os, "execve", lambda *words: became.append(words[2]))
    monkeypatch.delenv("GANTRY_HTTP", raising=False)
    client.client(["lag"])
    assert "GANTRY_HTTP" not in became[0]
    assert "is stopped: kill -CONT" in capsys.readouterr().err
