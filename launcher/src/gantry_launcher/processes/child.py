"""One process of the system: started, watched, started again on its old ports.

A process that was ready and died is started again at once; one that dies before it is ready, after a back-off. A replica that ends because
another one leads, and a process that is asked to stop, have not died.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.plan import child_environment
from gantry_launcher.planning.system_plan import ProcessPlan
from gantry_launcher.processes.tail import Tail

BACKOFF_SECONDS_MIN = 0.1
BACKOFF_SECONDS_MAX = 5.0
ASK_SECONDS = 0.15
"""The time a process that is not ready has to answer a health check; the supervisor extends it for a busy one."""
TAIL_LINES_MAX = 20
EXIT_NOT_LEADER = 75
"""The exit status of a replica that ends because another one leads, or because the register says so."""
ENDS_AT_ONCE_MAX = 3
"""A replica that ends so more often in a row, without being ready between, gets pauses."""
NOT_ASKED = "it has just been started"
PR_SET_PDEATHSIG = 1
# The line each service logs when it serves, as text or as JSON.
READY_LINE = re.compile(rb"\binfo +ready\b|\"event\":\"ready\"")

_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """One process, and its state across restarts."""

    def __init__(self, plan: ProcessPlan, output: Output, lock: int) -> None:
        self.plan = plan
        self.ready = False
        self.said_ready = False
        self.not_ready_reason = NOT_ASKED
        self.was_ready_once = False
        self.starts = 0
        self.deaths_before_ready = 0
        self.times_not_leader = 0
        """How often it ended because another replica leads. Those ends are no crashes."""
        self.times_asked = 0
        """How often it was asked to stop, to be started again or not. Those ends are no crashes either."""
        self.ended_as_asked = False
        """Whether its last end was one of these."""
        self.is_held = False
        """Whether it is not to be started again."""
        self.stop_by: float | None = None
        """When a process that was asked to stop is killed."""
        self.started_at = 0.0
        self.start_at: float | None = None
        self.ask_seconds = ASK_SECONDS
        self.tail: deque[str] = deque(maxlen=TAIL_LINES_MAX)
        self.kill_at: float | None = None
        """When the process is killed, unless it answers before."""
        self._process: subprocess.Popen[bytes] | None = None
        self._command: Sequence[str] = ()
        """With what the process was started."""
        self._ends_before_ready = 0
        self._output, self._lock = output, lock
        self._log = Tail(Path(plan.log))

    @property
    def pid(self) -> int | None:
        """The pid while the process runs."""
        return None if self._process is None else self._process.pid

    @property
    def is_as_planned(self) -> bool:
        """Whether a process that runs was started by the present plan."""
        return self._process is None or self._command == self.plan.command

    @property
    def restarts(self) -> int:
        """The number of restarts after a death."""
        return max(0, self.starts - 1 - self.times_not_leader - self.times_asked)

    def start(self, now: float) -> None:
        """Start the process. After an OSError another start is planned."""
        try:
            self._start(now)
        except OSError:
            self._plan_after_failure(now)
            raise

    def ask_to_stop(self, now: float, *, is_held: bool) -> None:
        """Let the process stop in order. It is started again, unless it `is_held`."""
        self.is_held = is_held
        if self._process is None:
            self.start_at = None if is_held else now
            return
        if self.stop_by is None:
            self.stop_by = now + self.plan.stop_seconds
            self.send(signal.SIGTERM)

    def release(self, now: float) -> None:
        """Let a process that is held start again; others are left."""
        if self.is_held:
            self.is_held = False
            self.start_at = now if self._process is None else self.start_at

    def _start(self, now: float) -> None:
        Path(self.plan.folder).mkdir(parents=True, exist_ok=True)
        self.ready = self.said_ready = False
        self.not_ready_reason = NOT_ASKED
        self.start_at, self.started_at, self.starts, self.kill_at = None, now, self.starts + 1, None
        self._command = self.plan.command
        log = self._log.open_for_process()
        try:
            self._process = subprocess.Popen(
                self.plan.command if self.was_ready_once else (*self.plan.command, *self.plan.until_ready),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.plan.folder,
                env=child_environment(self.plan.role),
                pass_fds=(self._lock,),  # the data directory stays in use until the last child is gone
                process_group=0,  # Ctrl-C goes to the launcher only, which stops the processes in order
                preexec_fn=partial(_end_with_launcher, os.getpid()),  # noqa: PLW1509 - one system call; the fork is of the main thread
            )
        finally:
            os.close(log)

    def read(self) -> None:
        """Pass on the new lines of its log."""
        for line in self._log.lines():
            self._say(line)
        if not self.plan.rolls_log:
            self._log.empty_when_full()

    def died(self, now: float) -> str | None:
        """Return once how the process died, and plan its next start; None while it runs or is not started."""
        if self._process is None or self._process.poll() is None:
            return None
        for line in self._log.last_words():
            self._say(line)
        status = self._process.returncode
        self._process, self.kill_at = None, None
        self.start_at = now
        self.ended_as_asked, self.stop_by = self.stop_by is not None, None
        if self.ended_as_asked:
            self._plan_as_asked()
        elif status == EXIT_NOT_LEADER:
            self._plan_as_follower(now)
        elif not self.ready:
            self._plan_after_failure(now)
        self.ready = False
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"

    def is_ready_now(self) -> None:
        """Record that the process answered that it is ready."""
        self.ready = self.was_ready_once = True
        self.deaths_before_ready = self._ends_before_ready = 0

    def send(self, number: signal.Signals) -> None:
        """Send a signal; SIGKILL goes to its workers too."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if number == signal.SIGKILL:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)

    def close(self) -> None:
        """Stop reading its log."""
        self._log.close()

    def _plan_after_failure(self, now: float) -> None:
        self.deaths_before_ready += 1
        self.start_at = now + _backoff(self.deaths_before_ready)

    def _plan_as_asked(self) -> None:
        self.times_asked += 1
        if self.is_held:
            self.start_at = None

    def _plan_as_follower(self, now: float) -> None:
        """Start again at once: a group without this replica has one copy less. Pauses keep one that ends at each start from taking a core."""
        self.times_not_leader += 1
        self._ends_before_ready += 1
        too_many = self._ends_before_ready - ENDS_AT_ONCE_MAX
        self.start_at = now + (_backoff(too_many) if too_many > 0 else 0.0)

    def _say(self, line: bytes) -> None:
        if not line.strip():
            return
        self.said_ready = self.said_ready or READY_LINE.search(line) is not None
        text = line.decode("utf-8", "replace").rstrip()
        self.tail.append(text)
        if not any(words in text for words in self.plan.silent):
            self._output.line(self.plan.name, text)


def _backoff(failures: int) -> float:
    """Return the seconds of the pause after so many failures in a row."""
    return min(BACKOFF_SECONDS_MIN * 2 ** min(failures - 1, 10), BACKOFF_SECONDS_MAX)


def _end_with_launcher(launcher: int) -> None:
    """Run in the child before exec: the kernel sends it SIGTERM when the launcher dies, however it dies."""
    _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if os.getppid() != launcher:  # the launcher died before prctl: nothing would end the child
        os._exit(128 + signal.SIGTERM)
