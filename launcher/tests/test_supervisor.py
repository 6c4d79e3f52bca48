"""What the one loop over all processes does with wishes to stop, and with what cannot be started."""

import os
import socket
import sys
from pathlib import Path

import pytest

from gantry_launcher import control
from gantry_launcher.errors import Refused
from gantry_launcher.health import Check
from gantry_launcher.output import Output
from gantry_launcher.plan import ProcessPlan, SystemPlan
from gantry_launcher.supervisor import Supervisor
from gantry_launcher.waiting import Waiting


@pytest.fixture
def supervisor(tmp_path: Path):
    """One process whose folder cannot be made: a file has its name."""
    (tmp_path / "trial").write_text("")
    command = (sys.executable, "-c", "")
    process = ProcessPlan(
        "trial",
        "broker",
        command,
        str(tmp_path / "trial"),
        Check("http", "127.0.0.1", 1),
        0,
        1,
        str(tmp_path / "logs" / "trial.log"),
    )
    plan = SystemPlan((process,), "", "", "", "", (), "127.0.0.1")
    output = Output(tmp_path / "gantry.log", echo=False)
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    listener = control.listen(tmp_path)
    supervisor = Supervisor(plan, output, lock, listener, 0.0, 30.0, Waiting([], 0.0))
    yield supervisor
    for one in (listener, supervisor._signals_in, supervisor._signals_out, supervisor._selector):
        one.close()
    os.close(lock)
    output.close()


def test_what_cannot_be_started_at_all_is_refused(supervisor: Supervisor) -> None:
    with pytest.raises(Refused, match="cannot start trial"):
        supervisor._start(supervisor._children[0])


def test_what_cannot_be_started_again_is_tried_again_and_ends_nobody_else(supervisor: Supervisor) -> None:
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


def test_a_second_down_is_no_sign_of_impatience(supervisor: Supervisor) -> None:
    for _ in range(2):
        caller, connection = socket.socketpair()
        caller.sendall(b"stop\n")
        supervisor._selector.register(connection, 1)
        supervisor._answer_word(connection)
        caller.close()
    assert supervisor._stop_signals == 1
    for waiting in supervisor._waiting_for_end:
        waiting.close()
