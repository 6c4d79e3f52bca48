"""One process: its log, its exit and its restart."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.health import Check
from gantry_launcher.planning.system_plan import ProcessPlan
from gantry_launcher.processes.child import BACKOFF_SECONDS_MAX, ENDS_AT_ONCE_MAX, Child


@pytest.fixture
def make(tmp_path: Path):
    output = Output(tmp_path / "gantry.log", echo=False)
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)

    def child(code: str) -> Child:
        command = (sys.executable, "-c", code)
        check = Check("http", "127.0.0.1", 1)
        return Child(
            ProcessPlan(
                "trial", "broker", command, str(tmp_path / "trial"), check, 0, 1, str(tmp_path / "trial.log")
            ),
            output,
            lock,
        )

    yield child
    os.close(lock)
    output.close()


def wait_for_death(child: Child) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        time.sleep(0.01)
        child.read()
        how = child.died(100.0)
        if how is not None:
            return how
    raise AssertionError("it did not die")


def test_silent_lines_are_kept_for_a_failed_start_but_not_shown(make, tmp_path: Path) -> None:
    child = make("print('[INF] listening'); print('[WRN] slow')")
    child.plan = replace(child.plan, silent=("[INF]",))
    child.start(100.0)
    wait_for_death(child)
    assert list(child.tail) == ["[INF] listening", "[WRN] slow"]
    log = tmp_path / "gantry.log"
    until = time.monotonic() + 60
    while not (log.exists() and log.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    assert log.read_text() == "trial      | [WRN] slow\n"


def test_a_death_before_ready_backs_off_longer_each_time(make) -> None:
    child = make("raise SystemExit(3)")
    pauses = []
    for _ in range(8):
        child.start(100.0)
        assert wait_for_death(child) == "exit status 3"
        pauses.append(child.start_at - 100.0)
    assert pauses[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert pauses[-1] == BACKOFF_SECONDS_MAX


def test_a_replica_that_ends_as_another_one_leads_starts_again_at_once_and_has_not_crashed(make) -> None:
    child = make("raise SystemExit(75)")
    for _ in range(ENDS_AT_ONCE_MAX + 1):
        child.start(100.0)
        child.is_ready_now()
        assert wait_for_death(child) == "exit status 75"
        assert child.start_at == 100.0
    child.start(100.0)
    assert (child.restarts, child.times_not_leader, child.deaths_before_ready) == (0, 4, 0)
    assert wait_for_death(child) == "exit status 75"


def test_a_replica_that_ends_so_at_each_start_does_not_take_a_core(make) -> None:
    child = make("raise SystemExit(75)")
    pauses = []
    for _ in range(ENDS_AT_ONCE_MAX + 3):
        child.start(100.0)
        wait_for_death(child)
        pauses.append(child.start_at - 100.0)
    assert pauses == pytest.approx([0.0] * ENDS_AT_ONCE_MAX + [0.1, 0.2, 0.4])
    assert child.deaths_before_ready == 0


def test_a_crash_after_such_an_end_counts_as_one(make) -> None:
    child = make(
        "import pathlib, sys; path = pathlib.Path('once'); sys.exit(3 if path.exists() else path.touch() or 75)"
    )
    for _ in range(2):
        child.start(100.0)
        wait_for_death(child)
    child.start(100.0)
    assert (child.restarts, child.deaths_before_ready) == (1, 1)
    wait_for_death(child)


def test_words_until_it_is_ready_are_given_until_then_and_never_again(make, tmp_path: Path) -> None:
    child = make("import sys; open('said', 'a').write(' '.join(sys.argv[1:]) + '.')")
    child.plan = replace(child.plan, until_ready=("--set", "ha_bootstrap=true"))
    for _ in range(2):
        child.start(100.0)
        wait_for_death(child)
    child.start(100.0)
    child.is_ready_now()
    wait_for_death(child)
    child.start(100.0)
    wait_for_death(child)
    words = "--set ha_bootstrap=true"
    assert (tmp_path / "trial" / "said").read_text() == f"{words}.{words}.{words}.."


def test_a_death_after_ready_starts_it_again_at_once(make) -> None:
    child = make("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    child.start(100.0)
    child.is_ready_now()
    assert wait_for_death(child) == "SIGKILL"
    assert child.start_at == 100.0
    child.start(101.0)
    assert child.restarts == 1
    wait_for_death(child)


def test_the_last_output_is_kept_also_without_a_line_end(make, tmp_path: Path) -> None:
    child = make("import sys; print('one'); sys.stderr.write('two'); raise SystemExit(2)")
    child.start(100.0)
    assert wait_for_death(child) == "exit status 2"
    assert list(child.tail) == ["one", "two"]


def test_only_the_ready_line_counts_as_ready(make) -> None:
    child = make("")
    child._say(b"2026-01-01T00:00:00Z warning not ready yet")
    assert not child.said_ready
    child._say(b"2026-01-01T00:00:00Z info    ready http=http://127.0.0.1:1")
    assert child.said_ready


def test_it_reads_nothing_from_the_terminal_and_cannot_be_stopped_by_its_ctrl_c(make) -> None:
    child = make("import os, sys; print(repr(sys.stdin.read()), os.getpgid(0) == os.getpid())")
    child.start(100.0)
    wait_for_death(child)
    assert list(child.tail) == ["'' True"]


LAUNCHER = """
import sys
import time
from pathlib import Path
from gantry_launcher.processes import child
from gantry_launcher.planning.health import Check
from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.system_plan import ProcessPlan

folder, prctl = Path(sys.argv[1]), child._libc.prctl

class SlowLibc:
    def prctl(self, *arguments):
        (folder / "forked").touch()
        while not (folder / "go-on").exists():
            time.sleep(0.01)
        return prctl(*arguments)

child._libc = SlowLibc()
command = (sys.executable, "-c", f"open({str(folder / 'lives')!r}, 'w')")
plan = ProcessPlan("trial", "broker", command, str(folder), Check("http", "127.0.0.1", 1), 0, 1, str(folder / "trial.log"))
child.Child(plan, Output(folder / "log", echo=False), 0).start(0.0)
"""


def test_a_launcher_that_is_killed_while_it_starts_a_process_leaves_none_behind(tmp_path: Path) -> None:
    launcher = subprocess.Popen((sys.executable, "-c", LAUNCHER, str(tmp_path)))
    until = time.monotonic() + 30
    while not (tmp_path / "forked").exists() and time.monotonic() < until:
        time.sleep(0.01)
    launcher.kill()
    launcher.wait()
    (tmp_path / "go-on").touch()
    time.sleep(0.5)
    assert not (tmp_path / "lives").exists()
