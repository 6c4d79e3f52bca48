"""Runs the plan: starts all processes, waits until they are ready, restarts what dies, stops them in order.

One thread, one selector; its loop never waits for a terminal or for a process that does not answer.
"""

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from gantry_launcher.errors import EXIT_REFUSED, IN_THE_WAY, Refused, why
from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.health import Health, ask
from gantry_launcher.planning.plan import ROLES
from gantry_launcher.planning.system_plan import SystemPlan
from gantry_launcher.processes import control
from gantry_launcher.processes.child import ASK_SECONDS, EXIT_NOT_LEADER, Child
from gantry_launcher.processes.orders import Orders
from gantry_launcher.processes.waiting import Waiting
from gantry_launcher.processes.watch import STARTING_FACTOR, Watch

ASK_BUSY_SECONDS_MAX = 0.4
"""On a machine with more to do than it can, answers take longer, so each missing answer extends the wait."""
POLL_SECONDS = 0.02
POLL_LATER_SECONDS = 0.1
POLL_EAGER_SECONDS = 15.0
LOOK_SECONDS = 0.25
"""The interval at which the launcher reads the logs of the processes and checks whether to ask one for its health."""
DUMP_SECONDS = 2.0
"""The time a process that hangs has to log its stacks before it is killed."""
DEATHS_AT_START_MAX = 3
KILLED_SECONDS_MAX = 2.0
SAME_WISH_SECONDS = 1.0
"""Signals within this time count as one request to stop. A later one asks to stop at once."""


class Supervisor:
    """Owns every process of one system from its start to its end."""

    def __init__(
        self,
        plan: SystemPlan,
        output: Output,
        lock: int,
        listener: socket.socket,
        asked_at: float,
        hung_seconds: float,
        waiting: Waiting,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan, self._output, self._listener, self._asked_at = plan, output, listener, asked_at
        self._steady = steady
        self._orders: Orders | None = None
        """Given by `run`: nobody asks before."""
        self._lock = lock
        self._children = [Child(process, output, lock) for process in plan.processes]
        self._selector = selectors.DefaultSelector()
        self._watches = {child: Watch(child.plan.watched, self._selector) for child in self._children}
        self._hung_seconds, self._waiting = hung_seconds, waiting
        self._signals_in, self._signals_out = socket.socketpair()
        self._waiting_for_end: list[socket.socket] = []
        self._stop_signals = 0
        self._stop_asked_at = -SAME_WISH_SECONDS
        self._next_poll = 0.0
        self._seconds: float | None = None

    def run(
        self, on_ready: Callable[[dict[str, Any]], None], say: Callable[[str], None], orders: Orders
    ) -> None:
        """Run until asked to stop. `on_ready` gets the state once; raises Refused when it cannot start."""
        self._orders = orders
        self._prepare()
        try:
            for child in self._children:
                self._start(child)
            while not self._stop_signals:
                self._turn()
                now = self._steady()
                if self._seconds is None and self._is_all_ready() and orders.is_settled(now):
                    self._seconds = round(now - self._asked_at, 3)
                    on_ready(self.state())
                elif self._seconds is None and self._waiting.is_due(now):
                    missing = self._missing() or {"replicas": "not all are in sync"}
                    message = self._waiting.message(missing, now)
                    if message is not None:
                        say(message)
        finally:
            self._stop_all()

    def stop(self) -> None:
        """End `run`, as a request to stop does."""
        self._stop_signals = max(self._stop_signals, 1)

    def state(self) -> dict[str, Any]:
        """Return the object that `up` and `status` print, with the pids of this moment."""
        state: dict[str, Any] = {
            "ready": self._seconds is not None,
            "seconds": self._seconds,
            **self._plan.addresses({child.plan.name: child.pid for child in self._children}),
        }
        by_role: dict[str, list[int | None]] = {"launcher": [os.getpid()]}
        for role in ROLES:
            by_role[role] = [child.pid for child in self._children if child.plan.role == role]
        return {**state, "pids": by_role}

    def restart(self, name: str) -> int | None:
        """Ask a process to stop in order, and start it again; return its pid before that. Raises Refused."""
        return self._ask_to_stop(name, is_held=False)

    def hold(self, name: str) -> int | None:
        """Ask a process to stop in order, and do not start it again; return its pid before that. Raises Refused."""
        return self._ask_to_stop(name, is_held=True)

    def release(self, name: str) -> int | None:
        """Start a process again that is held; return its pid. One that is not held is left. Raises Refused."""
        child = self._child(name)
        child.release(self._steady())
        return child.pid

    def _child(self, name: str) -> Child:
        if self._seconds is None:
            raise Refused("the system has not been ready yet")
        child = next((child for child in self._children if child.plan.name == name), None)
        if child is None:
            raise Refused(f"there is no process {name}")
        return child

    def _ask_to_stop(self, name: str, *, is_held: bool) -> int | None:
        child = self._child(name)
        pid = child.pid
        self._output.line("gantry", f"{name} is asked to stop{'' if is_held else ', to be started again'}")
        child.ask_to_stop(self._steady(), is_held=is_held)
        return pid

    def is_running(self, name: str) -> bool:
        """Whether a process of this name runs, or is about to be started."""
        return any(
            child.pid is not None or child.start_at is not None
            for child in self._children
            if child.plan.name == name
        )

    def use(self, plan: SystemPlan) -> None:
        """Continue with another plan of the same system: new processes start, those that it lacks have been held before.

        The others run on with their old commands until they are started again.
        """
        old = {child.plan.name: child for child in self._children}
        self._children, self._plan = [], plan
        for process in plan.processes:
            child = old.pop(process.name, None)
            if child is None:
                child = Child(process, self._output, self._lock)
                self._watches[child] = Watch(process.watched, self._selector)
                child.start_at = self._steady()
            child.plan = process
            self._children.append(child)
        for child in old.values():
            assert child.pid is None, "a process leaves a system after its end"
            self._watches.pop(child).forget()
            child.close()

    def _prepare(self) -> None:
        for end in (self._signals_in, self._signals_out):
            end.setblocking(False)
        signal.set_wakeup_fd(self._signals_out.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake_only)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_stop_signal)
        self._selector.register(self._signals_in, selectors.EVENT_READ, self._drain_signals)
        self._selector.register(self._listener, selectors.EVENT_READ, self._answer)

    def _on_stop_signal(self, *_: object) -> None:
        """Count a request to stop. One Ctrl-C can arrive twice: from the terminal, and forwarded by the parent process."""
        now = self._steady()
        if now - self._stop_asked_at > SAME_WISH_SECONDS:
            self._stop_signals += 1
            self._stop_asked_at = now

    def _turn(self) -> None:
        """Do everything that is due, then wait for the next event, at most until the next poll."""
        now = self._steady()
        for child in self._children:
            how = child.died(now)
            if how is not None:
                self._on_death(child, how)
            if child.start_at is not None and child.start_at <= now:
                self._start(child)
            self._end_late(child, now)
            child.read()
            self._look_after(child, now)
        if now >= self._next_poll:
            self._poll(now)
        pauses = [child.start_at - now for child in self._children if child.start_at is not None]
        pauses.append(LOOK_SECONDS)
        if self._seconds is None or any(not child.ready for child in self._children):
            pauses.append(self._next_poll - now)
        self._wait(max(0.0, min(pauses)))

    def _wait(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            key.data()

    def _start(self, child: Child) -> None:
        self._watches[child].forget()
        try:
            child.start(self._steady())
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            message = f"cannot start {child.plan.name}: {place}{why(error)}"
            if self._seconds is None and not child.was_ready_once:
                remedy = "; move it away, or take another --data" if isinstance(error, IN_THE_WAY) else ""
                raise Refused(f"{message}{remedy}") from error
            self._output.line("gantry", f"{message}; trying again")

    def _look_after(self, child: Child, now: float) -> None:
        """Treat a process that has not answered for too long as dead: make it log its stacks, then kill it."""
        if child.pid is None or not self._hung_seconds:
            return
        limit = self._hung_seconds * (1 if child.ready else STARTING_FACTOR)
        seconds = self._watches[child].silent_seconds(now)
        name = f"{child.plan.name} (pid {child.pid})"
        if seconds < limit:
            if child.kill_at is not None:
                child.kill_at = None
                self._output.line("gantry", f"{name} answers again and is left alone")
        elif child.kill_at is None:
            child.kill_at = now + DUMP_SECONDS
            self._output.line("gantry", f"{name} has answered nothing for {seconds:.0f} s; killing it")
            if child.plan.dump_signal is not None:
                child.send(signal.Signals(child.plan.dump_signal))
        elif child.kill_at <= now:
            child.kill_at = float("inf")  # only once: a second SIGKILL changes nothing
            child.send(signal.SIGKILL)

    def _end_late(self, child: Child, now: float) -> None:
        """Kill a process that was asked to stop and does not."""
        if child.stop_by is not None and child.stop_by <= now:
            child.stop_by = float("inf")  # only once
            self._output.line("gantry", f"{child.plan.name} does not end by itself; killing it")
            child.send(signal.SIGKILL)

    def _on_death(self, child: Child, how: str) -> None:
        self._watches[child].forget()
        if child.ended_as_asked:
            then = "it stays so" if child.is_held else "starting it again on its old ports"
            self._output.line("gantry", f"{child.plan.name} stopped as asked ({how}); {then}")
            return
        if how == f"exit status {EXIT_NOT_LEADER}":
            self._output.line(
                "gantry", f"{child.plan.name} ended as another replica leads; starting it again as a follower"
            )
            return
        if self._seconds is None and not child.was_ready_once:
            message = child.tail[-1] if child.tail else "it said nothing"
            if how == f"exit status {EXIT_REFUSED}":
                raise Refused(message)
            if child.deaths_before_ready >= DEATHS_AT_START_MAX:
                raise Refused(f"{child.plan.name} cannot start ({how}): {message}")
        self._output.line("gantry", f"{child.plan.name} died ({how}); starting it again on its old ports")

    def _poll(self, now: float) -> None:
        eager = now - self._asked_at < POLL_EAGER_SECONDS
        for child in self._children:
            if child.pid is None or child.ready:
                continue
            health = ask(child.plan.check, child.ask_seconds)
            child.ask_seconds = (
                ASK_SECONDS if health.answered else min(child.ask_seconds * 2, ASK_BUSY_SECONDS_MAX)
            )
            self._wait(0)  # a slow process delays neither `status` nor the output of the others
            child.not_ready_reason = self._reason_not_ready(child, health)
            if child.not_ready_reason:
                continue
            child.is_ready_now()
            self._watches[child].forget()  # the time of its start does not count as silence
            if child.starts > 1:
                took = self._steady() - child.started_at
                message = f"{child.plan.name} is ready again after {took:.1f} s (pid {child.pid})"
                self._output.line("gantry", message)
        self._next_poll = self._steady() + (POLL_SECONDS if eager else POLL_LATER_SECONDS)

    def _reason_not_ready(self, child: Child, health: Health) -> str:
        """Return why the start still waits for a process after this answer; empty when it does not.

        Gateways share a port, so each must have logged that it is ready; and at the first start the probe must have
        made the round trip through every store.
        """
        if not health.ready:
            return health.message
        if child.plan.role != "gateway":
            return ""
        stores: dict[str, str] = health.body.get("stores") or {}
        names = dict.fromkeys(store.name for store in self._plan.stores)
        unseen = [name for name in names if stores.get(name) != "ok"]
        if unseen and self._seconds is None:
            return f"no message has made the round trip through {', '.join(unseen)}"
        shared = sum(other.plan.role == "gateway" for other in self._children) > 1
        return "another gateway answered on the shared port" if shared and not child.said_ready else ""

    def _is_all_ready(self) -> bool:
        return all(child.ready for child in self._children)

    def _missing(self) -> dict[str, str]:
        """Return the processes that are not ready, each with the reason from its last health check."""
        return {
            child.plan.name: child.not_ready_reason if child.pid is not None else "it ended and starts again"
            for child in self._children
            if not child.ready
        }

    def _drain_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._signals_in.recv(4096)

    def _answer(self) -> None:
        connection = control.accept(self._listener)
        if connection is not None:
            self._selector.register(connection, selectors.EVENT_READ, lambda: self._answer_word(connection))

    def _answer_word(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        word = control.word(connection)
        if word is None:
            return
        done = self._obeyed(word)
        checks = [
            {
                "name": child.plan.name,
                "pid": child.pid,
                "restarts": child.restarts,
                "isAsPlanned": child.is_as_planned,
                "check": vars(child.plan.check),
            }
            for child in self._children
        ]
        control.answer(connection, {**self.state(), "processes": checks, **done})
        if word == "stop":
            self._stop_signals = max(self._stop_signals, 1)  # a second `down` waits with the first
            self._stop_asked_at = self._steady()  # `down` sends SIGTERM too when the answer comes late
            self._waiting_for_end.append(connection)  # `down` waits until our end closes it
        else:
            connection.close()

    def _obeyed(self, word: str) -> dict[str, Any]:
        """Do what a caller asks; return what is answered beside the state."""
        if word in {"status", "stop"} or self._orders is None:
            return {}
        try:
            return {"done": self._orders.obey(word.split(), self)}
        except Refused as refused:
            return {"refused": str(refused)}

    def _stop_all(self) -> None:
        """Stop stage after stage: ask, wait, then kill. A process that survives SIGKILL is left to the kernel."""
        asked_once = self._stop_signals
        for stage in sorted({child.plan.stage for child in self._children}):
            children = [child for child in self._children if child.plan.stage == stage]
            for child in children:
                child.send(signal.SIGTERM)
            limit = max(child.plan.stop_seconds for child in children)
            if not self._wait_for_end(children, limit, asked_once):
                for child in children:
                    if child.pid is not None:
                        self._output.line("gantry", f"{child.plan.name} does not end by itself; killing it")
                        child.send(signal.SIGKILL)
                self._wait_for_end(children, KILLED_SECONDS_MAX, None)
        for child in self._children:
            if child.pid is not None:
                self._output.line("gantry", f"{child.plan.name} (pid {child.pid}) did not end after SIGKILL")
            self._watches[child].forget()
            child.close()

    def _wait_for_end(self, children: list[Child], seconds: float, asked_once: int | None) -> bool:
        """Wait until `children` have ended; return False when the time is over, or after a second Ctrl-C."""
        until = self._steady() + seconds
        while True:
            now = self._steady()
            for child in self._children:
                child.read()
                child.died(now)
                child.start_at = None
            if all(child.pid is None for child in children):
                return True
            impatient = asked_once is not None and self._stop_signals > max(asked_once, 1)
            if now >= until or impatient:
                return False
            self._wait(min(0.1, until - now))


def _wake_only(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up descriptor ends the wait of the selector."""
