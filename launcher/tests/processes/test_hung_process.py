"""A process that runs but does not answer is killed and restarted; a process that answers anything is left alone."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.health import Check
from gantry_launcher.planning.plan import ProcessPlan, SystemPlan
from gantry_launcher.planning.ports import Ports
from gantry_launcher.processes import control, supervisor, watch
from gantry_launcher.processes.child import Child
from gantry_launcher.processes.supervisor import Supervisor
from gantry_launcher.processes.waiting import Waiting

SERVICE = """
import sys
from pathlib import Path
from gantry_chassis.http.server import HttpServer, json_response
from gantry_chassis.logs.structured import configure
from gantry_chassis.peers.budget import Budget
from gantry_chassis.process import run

spin, reason = Path("spin"), Path("reason")

def health(request):
    if spin.exists():
        spin.unlink()  # only the first start hangs
        while True: pass  # one line, so that the stacks name it
    if reason.exists():
        return json_response({"ready": False, "reason": reason.read_text()}, 503)
    return json_response({"ready": True})

async def main(life):
    server = HttpServer("127.0.0.1", int(sys.argv[1]), {("GET", f"/health/{one}"): health for one in ("live", "ready")}, Budget())
    await server.start()
    await life.stopping.wait()
    await server.close()

configure("trial")
run(main, service="trial")
"""
HUNG_SECONDS = 1.5


class System:
    """A supervisor with one process; the test runs each turn of its loop."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        command = (sys.executable, "-c", SERVICE, str(port))
        check, log = Check("http", "127.0.0.1", port), str(folder / "logs" / "trial.log")
        plan = ProcessPlan("trial", "broker", command, str(folder / "trial"), check, 0, 5, log)
        system = SystemPlan((plan,), "", "", "", "", (), "127.0.0.1")
        self.output = Output(folder / "gantry.log", echo=False)
        self.lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
        self.listener = control.listen(folder)
        self.supervisor = Supervisor(
            system, self.output, self.lock, self.listener, 0.0, HUNG_SECONDS, Waiting([], 0.0)
        )

    @property
    def child(self) -> Child:
        return self.supervisor._children[0]

    def turn_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 90
        while not condition():
            assert time.monotonic() < end, f"it did not happen\n{self.log()}"
            self.supervisor._turn()

    def turn_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.turn_until(lambda: time.monotonic() > end)

    def log(self) -> str:
        return (self.folder / "gantry.log").read_text() if (self.folder / "gantry.log").exists() else ""

    def end(self) -> None:
        (self.folder / "trial" / "spin").unlink(missing_ok=True)
        if self.child.pid is not None:
            os.kill(self.child.pid, signal.SIGCONT)
        self.supervisor._stop_all()
        for one in (self.listener, self.supervisor._signals_in, self.supervisor._signals_out):
            one.close()
        self.supervisor._selector.close()
        os.close(self.lock)
        self.output.close()


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watch, "ASK_SECONDS", 0.2)
    monkeypatch.setattr(watch, "STOOD_STILL_SECONDS", 5.0)
    monkeypatch.setattr(supervisor, "DUMP_SECONDS", 1.0)
    ports = Ports(("127.0.0.1",))
    system = System(tmp_path, ports.free())
    try:
        system.supervisor._start(system.child)
        system.turn_until(lambda: system.child.ready)
        yield system
    finally:
        system.end()
        ports.close()


def test_a_stopped_process_is_killed_and_started_again(system: System) -> None:
    pid = system.child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    system.turn_until(lambda: system.child.restarts == 1 and system.child.ready)
    assert system.child.pid != pid
    assert f"trial (pid {pid}) has answered nothing for" in system.log()
    assert "trial died (SIGKILL); starting it again on its old ports" in system.log()


def test_a_process_that_spins_logs_where_and_is_killed_and_started_again(system: System) -> None:
    (system.folder / "trial" / "spin").touch()
    system.turn_until(lambda: system.child.restarts == 1 and system.child.ready)
    assert 'File "<string>", line 14 in health' in (system.folder / "logs" / "trial.log").read_text()
    system.turn_until(lambda: "in health" in system.log())


def test_a_process_that_reports_recovery_is_left_alone(system: System) -> None:
    (system.folder / "trial" / "reason").write_text("recovering the log")
    system.turn_for(2 * HUNG_SECONDS)
    assert system.child.restarts == 0
    assert system.child.kill_at is None


def test_a_start_that_takes_long_does_not_count_as_silence(system: System) -> None:
    child, watched = system.child, system.supervisor._watches[system.child]
    child.ready = False
    watched._silence.seconds = 5 * HUNG_SECONDS
    system.supervisor._look_after(child, time.monotonic())
    assert child.kill_at is None
    while not child.ready:
        system.supervisor._poll(time.monotonic())
    system.supervisor._look_after(child, time.monotonic())
    assert child.kill_at is None


def test_a_process_that_answers_again_before_it_is_killed_is_left_alone(system: System) -> None:
    pid = system.child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    system.turn_until(lambda: system.child.kill_at is not None)
    system.child.kill_at = float("inf")  # a busy machine: enough time for the stacks
    os.kill(pid, signal.SIGCONT)
    system.turn_until(lambda: system.child.kill_at is None)
    system.turn_for(2 * HUNG_SECONDS)
    assert (system.child.restarts, system.child.pid) == (0, pid)
    assert "answers again and is left alone" in system.log()


def test_a_launcher_that_was_stopped_kills_no_process(system: System) -> None:
    watch.STOOD_STILL_SECONDS = 0.5
    pid = system.child.pid
    for _ in range(2):
        time.sleep(1.3 * HUNG_SECONDS)
        system.supervisor._turn()
    system.turn_for(HUNG_SECONDS)
    assert (system.child.restarts, system.child.pid, system.child.kill_at) == (0, pid, None)


def test_zero_turns_the_check_for_hung_processes_off(system: System) -> None:
    system.supervisor._hung_seconds = 0
    pid = system.child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    system.turn_for(2 * HUNG_SECONDS)
    assert (system.child.restarts, system.child.pid) == (0, pid)
