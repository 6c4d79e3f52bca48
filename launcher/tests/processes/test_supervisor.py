"""The supervisor's loop: stop requests, processes that cannot start, and reasons for a slow start."""

import os
import re
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
from gantry_launcher.planning.plan import ProcessPlan, StorePlan, SystemPlan
from gantry_launcher.processes import control
from gantry_launcher.processes import supervisor as module
from gantry_launcher.processes.child import Child
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
        plan = SystemPlan(processes, "", "", (), "", (store,), "127.0.0.1", AccessControl.OFF)
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
