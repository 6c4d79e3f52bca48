"""The supervisor's loop: stop requests, processes that cannot start, and reasons for a slow start."""

import os
import re
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gantry_launcher.access.exposure import AccessControl
from gantry_launcher.errors import Refused
from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.health import Check, Health
from gantry_launcher.planning.system_plan import ProcessPlan, StorePlan, SystemPlan
from gantry_launcher.processes import control
from gantry_launcher.processes import supervisor as module
from gantry_launcher.processes.child import Child
from gantry_launcher.processes.orders import Restarts
from gantry_launcher.processes.supervisor import Supervisor
from gantry_launcher.processes.waiting import Waiting


def process(folder: Path, name: str, role: str) -> ProcessPlan:
    command = (sys.executable, "-c", "")
    check, log = Check("http", "127.0.0.1", 1), str(folder / "logs" / f"{name}.log")
    return ProcessPlan(name, role, command, str(folder / name), check, 0, 1, log)


@pytest.fixture
def make(tmp_path: Path):
    """Build a supervisor of the processes (name, role), with one store."""
    output = Output(tmp_path / "gantry.log", echo=False)
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    listener = control.listen(tmp_path)
    made: list[Supervisor] = []

    def supervisor(*names: tuple[str, str]) -> Supervisor:
        processes = tuple(process(tmp_path, *name) for name in names)
        store = StorePlan("broker-a", "", "", str(tmp_path), names[0][0], processes[0].check)
        plan = SystemPlan(processes, "", "", (), "", (store,), "127.0.0.1", AccessControl.OFF, {}, "")
        made.append(Supervisor(plan, output, lock, listener, 0.0, 30.0, Waiting([], 0.0)))
        return made[-1]

    yield supervisor
    for one in made:
        for part in (one._signals_in, one._signals_out, one._selector):
            part.close()
    listener.close()
    os.close(lock)
    output.close()


@pytest.fixture
def supervisor(make, tmp_path: Path) -> Supervisor:
    """One process whose folder cannot be created because a file has its name."""
    (tmp_path / "trial").write_text("")
    return make(("trial", "broker"))


def test_a_first_start_that_fails_is_refused_with_the_path_and_a_remedy(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    words = f"cannot start trial: {tmp_path}/trial: a file of that name is in the way; move it away, or take another --data"
    with pytest.raises(Refused, match=f"^{re.escape(words)}$"):
        supervisor._start(supervisor._children[0])


def test_a_restart_that_fails_is_retried_and_stops_no_other_process(supervisor: Supervisor) -> None:
    (child,) = supervisor._children
    child.is_ready_now()
    supervisor._start(child)
    assert child.pid is None
    assert child.start_at is not None
    Path(child.plan.folder).unlink()
    supervisor._start(child)
    assert child.pid is not None
    supervisor._stop_all()
    assert child.pid is None


def test_a_replica_that_ends_as_another_one_leads_stops_no_start(make, tmp_path: Path) -> None:
    supervisor = make(("broker-a-a", "broker"))
    (child,) = supervisor._children
    child.plan = replace(child.plan, command=(sys.executable, "-c", "raise SystemExit(75)"))
    for _ in range(5):
        supervisor._start(child)
        until = time.monotonic() + 60
        while (how := child.died(0.0)) is None and time.monotonic() < until:
            time.sleep(0.01)
        supervisor._on_death(child, str(how))
    assert child.restarts == 0
    supervisor._output.close()
    assert (tmp_path / "gantry.log").read_text().count("broker-a-a ended as another replica leads") == 5


def test_a_second_down_does_not_force_the_stop(supervisor: Supervisor) -> None:
    for _ in range(2):
        caller, connection = socket.socketpair()
        caller.sendall(b"stop\n")
        supervisor._selector.register(connection, 1)
        supervisor._answer_word(connection)
        caller.close()
    assert supervisor._stop_signals == 1
    for waiting in supervisor._waiting_for_end:
        waiting.close()


def test_a_long_start_names_what_it_waits_for_with_the_last_health_answer(
    make, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = make(("broker-a", "broker"), ("scheduler", "scheduler"))
    answers = [
        Health(ready=False, message="recovering the log", body={}),
        Health(ready=True, message="ready", body={}),
    ]
    monkeypatch.setattr(Child, "pid", 1)
    monkeypatch.setattr(module, "ask", lambda *_: answers.pop(0) if answers else pytest.fail("asked again"))
    supervisor._poll(0.0)
    assert supervisor._missing() == {"broker-a": "recovering the log"}
    answers.append(Health(ready=True, message="ready", body={}))
    supervisor._poll(0.0)
    assert supervisor._missing() == {}


@pytest.mark.parametrize(
    ("names", "stores", "reason"),
    [
        (["gateway"], {}, "no message has made the round trip through broker-a"),
        (["gateway"], {"broker-a": "refused"}, "no message has made the round trip through broker-a"),
        (["gateway-1", "gateway-2"], {"broker-a": "ok"}, "another gateway answered on the shared port"),
    ],
)
def test_a_gateway_that_answers_ready_too_early_is_named_with_what_it_lacks(
    make, monkeypatch: pytest.MonkeyPatch, names: list[str], stores: dict[str, str], reason: str
) -> None:
    supervisor = make(*((name, "gateway") for name in names))
    monkeypatch.setattr(Child, "pid", 1)
    monkeypatch.setattr(
        module, "ask", lambda *_: Health(ready=True, message="ready", body={"stores": stores})
    )
    supervisor._poll(0.0)
    assert supervisor._missing() == dict.fromkeys(names, reason)


def test_a_process_that_ended_or_was_not_asked_yet_is_named_as_such(
    make, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = make(("broker-a", "broker"))
    assert supervisor._missing() == {"broker-a": "it ended and starts again"}
    monkeypatch.setattr(Child, "pid", 1)
    assert supervisor._missing() == {"broker-a": "it has just been started"}


def run_until(supervisor: Supervisor, condition) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        supervisor._turn()


@pytest.fixture
def running(make) -> Supervisor:
    """Two processes that run until SIGTERM, in a system that was ready."""
    supervisor = make(("broker-a-a", "broker"), ("broker-a-b", "broker"))
    for child in supervisor._children:
        child.plan = replace(
            child.plan, command=(sys.executable, "-c", "import signal; signal.pause()"), stop_seconds=30
        )
        supervisor._start(child)
        child.is_ready_now()
    supervisor._seconds = 0.0
    return supervisor


def test_a_process_that_is_asked_to_stop_is_started_again_and_has_not_crashed(running: Supervisor) -> None:
    first, second = running._children
    before, other = first.pid, second.pid
    assert running.restart("broker-a-a") == before
    run_until(running, lambda: first.pid not in {before, None})
    assert (first.restarts, second.pid) == (0, other)
    running._stop_all()


def test_a_process_that_is_held_stays_down_until_it_is_asked_for(running: Supervisor) -> None:
    first, _ = running._children
    running.hold("broker-a-a")
    run_until(running, lambda: first.pid is None)
    for _ in range(3):
        running._turn()
    assert not running.is_running("broker-a-a")
    running.restart("broker-a-a")
    run_until(running, lambda: first.pid is not None)
    assert first.restarts == 0
    running._stop_all()


def test_a_process_that_does_not_stop_when_asked_is_killed(running: Supervisor) -> None:
    first, _ = running._children
    first.plan = replace(first.plan, stop_seconds=0.2)
    before = first.pid
    os.kill(before, signal.SIGSTOP)
    running.restart("broker-a-a")
    run_until(running, lambda: first.pid not in {before, None})
    running._stop_all()


def test_another_plan_starts_what_is_new_and_leaves_what_runs(running: Supervisor, tmp_path: Path) -> None:
    first, second = running._children
    pids = first.pid, second.pid
    running.hold("broker-a-b")
    run_until(running, lambda: second.pid is None)
    new = replace(process(tmp_path, "broker-a-c", "broker"), command=first.plan.command)
    changed = replace(first.plan, command=(*first.plan.command, "later"))
    running.use(replace(running._plan, processes=(changed, new)))
    assert [child.plan.name for child in running._children] == ["broker-a-a", "broker-a-c"]
    run_until(running, lambda: running._children[1].pid is not None)
    assert (first.pid, first.plan.command[-1]) == (pids[0], "later")
    running._stop_all()


def test_an_order_before_the_system_was_ready_or_for_nobody_is_refused(running: Supervisor) -> None:
    with pytest.raises(Refused, match="there is no process broker-b"):
        running.restart("broker-b")
    running._seconds = None
    with pytest.raises(Refused, match="the system has not been ready yet"):
        running.restart("broker-a-a")
    running._stop_all()


@pytest.mark.parametrize("word", ["replica-add broker-a 0", "nonsense", "restart"])
def test_a_system_without_replicas_restarts_processes_and_refuses_other_orders(
    running: Supervisor, word: str
) -> None:
    running._orders = Restarts()
    assert running._obeyed(word) == {"refused": f"the launcher does not know: {word}"}
    assert running._obeyed("restart broker-a-a")["done"]["pid"] == running._children[0].pid
    running._stop_all()
