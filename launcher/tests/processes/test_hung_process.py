"""A process that runs but does not answer is killed and restarted; a process that answers anything is left alone."""

import os
import signal
import sys
from pathlib import Path

import pytest

from gantry_launcher.access.exposure import AccessControl
from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.health import Check
from gantry_launcher.planning.ports import Ports
from gantry_launcher.planning.system_plan import ProcessPlan, SystemPlan
from gantry_launcher.processes import control, supervisor
from gantry_launcher.processes.child import Child
from gantry_launcher.processes.supervisor import Supervisor
from gantry_launcher.processes.waiting import Waiting
from gantry_launcher.processes.watch import ASK_SECONDS

from .stepped import Stepped

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
HUNG_SECONDS = 10.0


class System(Stepped):
    """A supervisor with one process."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(self.log)
        self.folder = folder
        command = (sys.executable, "-c", SERVICE, str(port))
        check, log = Check("http", "127.0.0.1", port), str(folder / "logs" / "trial.log")
        plan = ProcessPlan("trial", "broker", command, str(folder / "trial"), check, 0, 5, log)
        system = SystemPlan((plan,), "", "", (), "", (), "127.0.0.1", AccessControl.OFF, {}, "")
        self.output = Output(folder / "gantry.log", echo=False)
        self.lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
        self.listener = control.listen(folder)
        self.supervisor = Supervisor(
            system,
            self.output,
            self.lock,
            self.listener,
            0.0,
            HUNG_SECONDS,
            Waiting([], 0.0),
            self.clock,
        )

    @property
    def child(self) -> Child:
        return self.supervisor._children[0]

    def log(self) -> str:
        return (self.folder / "gantry.log").read_text() if (self.folder / "gantry.log").exists() else ""

    def log_of_process(self) -> str:
        return (self.folder / "logs" / "trial.log").read_text()

    def end(self) -> None:
        (self.folder / "trial" / "spin").unlink(missing_ok=True)
        if self.child.pid is not None:
            os.kill(self.child.pid, signal.SIGCONT)
        super().end()
        self.listener.close()
        os.close(self.lock)
        self.output.close()


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
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
    system.turn_until(lambda: system.child.restarts == 1, step=1)
    system.turn_until(lambda: system.child.ready)
    assert (system.child.restarts, system.child.pid != pid) == (1, True)
    assert f"trial (pid {pid}) has answered nothing for 12 s" in system.log()
    assert "trial died (SIGKILL); starting it again on its old ports" in system.log()


def test_a_process_that_spins_logs_where_and_is_killed_and_started_again(system: System) -> None:
    spin = system.folder / "trial" / "spin"
    spin.touch()
    system.now += ASK_SECONDS
    system.turn_until(lambda: not spin.exists())
    system.turn_until(lambda: system.child.kill_at is not None, step=1)
    system.turn_until(lambda: 'File "<string>", line 14 in health' in system.log_of_process())
    system.turn_until(lambda: system.child.restarts == 1, step=1)
    system.turn_until(lambda: system.child.ready)
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
    system.supervisor._look_after(child, system.now)
    assert child.kill_at is None
    while not child.ready:
        system.supervisor._poll(system.now)
    system.supervisor._look_after(child, system.now)
    assert child.kill_at is None


def test_a_process_that_answers_again_before_it_is_killed_is_left_alone(system: System) -> None:
    pid = system.child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    system.turn_until(lambda: system.child.kill_at is not None, step=1)
    os.kill(pid, signal.SIGCONT)
    system.turn_until(lambda: system.child.kill_at is None)
    system.turn_for(2 * HUNG_SECONDS)
    assert (system.child.restarts, system.child.pid) == (0, pid)
    assert "answers again and is left alone" in system.log()


def test_a_launcher_that_was_stopped_kills_no_process(system: System) -> None:
    pid = system.child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # as the whole machine
    system.now += ASK_SECONDS
    system.supervisor._turn()
    for _ in range(2):
        system.now += 1.3 * HUNG_SECONDS
        system.supervisor._turn()
    os.kill(pid, signal.SIGCONT)
    system.turn_for(HUNG_SECONDS)
    assert (system.child.restarts, system.child.pid, system.child.kill_at) == (0, pid, None)
    assert "answered nothing" not in system.log()


def test_zero_turns_the_check_for_hung_processes_off(system: System) -> None:
    system.supervisor._hung_seconds = 0
    pid = system.child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    passed = system.now + 4 * HUNG_SECONDS
    system.turn_until(lambda: system.now > passed, step=1)
    assert (system.child.restarts, system.child.pid) == (0, pid)
