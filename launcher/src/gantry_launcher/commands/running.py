"""A system that runs, for commands that change it step by step: its launcher's orders, and what its replicas say."""

import fcntl
import os
import time
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gantry_launcher.errors import EXIT_FAILED, Refused, why
from gantry_launcher.planning.groups import Member, Said, leader_of, obstacles, progress_of, read_member
from gantry_launcher.planning.health import Check, Health, ask, fetch
from gantry_launcher.planning.roles import PATH
from gantry_launcher.processes import control
from gantry_launcher.serving.ending import unresponsive

ANSWER_SECONDS_MAX = 0.5
LOOK_SECONDS = 0.1
SAY_SECONDS = 5.0
"""Interval of reports about a wait that lasts."""


class StepFailed(Refused):
    """A step of a change did not end well: nothing more is changed. The message says how to continue."""

    exit_status = EXIT_FAILED


@contextmanager
def changing(data: Path) -> Generator[None]:
    """Let one command at a time change the replicas of a system, or restart them: each step of one relies on the step before.

    It holds the lock of the data directory (flock), which leaves no file behind and ends with the process. Raises Refused while another
    command holds it, and where there is no such directory.
    """
    try:
        folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Refused(f"nothing runs with the data directory {data}") from None
    except OSError as error:
        raise Refused(f"cannot open {data}: {why(error)}") from error
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"another command changes the replicas of {data}, or restarts them: repeat this one when it has ended"
            ) from None
        yield
    finally:
        os.close(folder)


class LeadCameBack(StepFailed):
    """The replica that is to leave leads again. The others may have a list without it, and would not follow it."""


class Running:
    """The system on a data directory. Waits end with StepFailed when nothing has come nearer for `timeout_seconds`."""

    def __init__(self, data: Path, timeout_seconds: float, say: Callable[[str], None]) -> None:
        self.data, self._timeout_seconds, self.say = data, timeout_seconds, say
        self.remedy = "repeat the command"
        """What helps when a wait has ended in vain."""

    def state(self) -> dict[str, Any]:
        """Return what the launcher says. Raises Refused where none answers."""
        return self.order("status")

    def order(self, *words: str) -> dict[str, Any]:
        """Ask the launcher; return its state, with what it did as `done`. Raises Refused with its reason."""
        answer = control.ask(self.data, " ".join(words))
        if answer is None:
            raise Refused(f"nothing runs with the data directory {self.data}")
        answer.connection.close()
        if isinstance(answer, control.Unresponsive):
            raise Refused(unresponsive(answer, self.data))
        if "refused" in answer.state:
            raise Refused(answer.state["refused"])
        if "done" not in answer.state and words[0] != "status":
            raise Refused("the launcher that runs is of an earlier version: stop and start the system once")
        if not answer.state["ready"]:
            raise Refused("the system is still starting: wait until it is ready")
        return answer.state

    def replicas(self, broker: str) -> dict[str, str]:
        """Return the names of a broker's replicas and their processes, in order; none for a broker without. Raises Refused for an unknown one."""
        brokers = {one["name"]: one for one in self.state()["brokers"]}
        if broker not in brokers:
            raise Refused(f"there is no broker {broker}; there are {', '.join(brokers)}")
        return {one["name"]: one["process"] for one in brokers[broker].get("replicas", [])}

    def said(self, broker: str) -> dict[str, Member | None]:
        """Ask all replicas of a broker at once."""
        state, replicas = self.state(), self.replicas(broker)
        checks = {one["name"]: Check(**one["check"]) for one in state["processes"]}
        with ThreadPoolExecutor(max(1, len(replicas))) as pool:
            said = pool.map(_member, (checks[process] for process in replicas.values()))
            return dict(zip(replicas, said, strict=True))

    def process(self, name: str) -> dict[str, Any]:
        """Return what the launcher says about a process."""
        return next(one for one in self.state()["processes"] if one["name"] == name)

    def health(self, name: str) -> Health:
        """Ask a process whether it is ready."""
        known = self.process(name)
        if known["pid"] is None:
            return Health(ready=False, message="it does not run", body={})
        return ask(Check(**known["check"]), ANSWER_SECONDS_MAX)

    def restart(self, name: str) -> None:
        """Restart a process in order, and wait until another one with its name runs. Raises StepFailed."""
        before = self.order("restart", name)["done"]["pid"]

        def missing() -> tuple[str, object]:
            pid = self.process(name)["pid"]
            if pid == before:
                return "it has not stopped yet", pid
            return "" if pid else "it does not run yet", pid

        self.wait(name, missing)

    def wait_ready(self, name: str) -> None:
        """Wait until a process is ready. Raises StepFailed."""

        def missing() -> tuple[str, object]:
            health = self.health(name)
            return ("" if health.ready else health.message, None)

        self.wait(name, missing)

    def bring_back(self, broker: str, said: Said) -> bool:
        """Restart the replicas that are out of the set and run under another list of replicas than the planned one; return whether there were any.

        Their list may lack the replica that leads: they hear nothing that it says, and would never follow it. An interrupted removal leaves
        them where the replica that was to leave has begun to lead.
        """
        leader = leader_of(said)
        leading = said[leader] if leader is not None else None
        if leading is None:
            return False
        processes = {one["name"]: one for one in self.state()["processes"]}
        older = {
            name: process
            for name, process in self.replicas(broker).items()
            if name not in leading.members and not processes[process].get("isAsPlanned", True)
        }
        for name, process in older.items():
            self.say(f"{broker}: restarting {name}, which is not in sync and has an older list of replicas")
            self.restart(process)
        return bool(older)

    def wait_in_sync(
        self, broker: str, but: Collection[str] = (), *, with_unknown: bool = False, leaving: str = ""
    ) -> Said:
        """Wait until all replicas of a broker but these are in sync, and another one could lead; return what they say. Raises StepFailed.

        Those that the leader does not know count only `with_unknown`. Raises LeadCameBack at once where the one that is `leaving` leads.
        """
        last: Said = {}

        def missing() -> tuple[str, object]:
            nonlocal last
            last = self.said(broker)
            if leaving and leader_of(last) == leaving:
                raise LeadCameBack(f"{broker}: {leaving} leads again; repeat the command")
            found = obstacles(last, with_unknown=with_unknown)
            found = {name: words for name, words in found.items() if name not in but}
            if found:
                self.bring_back(broker, last)
            leader = leader_of(last)
            leading = last[leader] if leader is not None else None
            if leading is not None and leading.register_fault:
                found = {
                    "": f"the register does not answer, so that no other replica could lead: {leading.register_fault}"
                }
            words = ", ".join(f"{name}: {words}" if name else words for name, words in found.items())
            return words, progress_of(last, found)

        self.wait(broker, missing)
        return last

    def wait(self, what: str, missing: Callable[[], tuple[str, object]]) -> None:
        """Wait until nothing is missing: in words, with what changes while it comes nearer. Raises StepFailed."""
        moved_at = said_at = time.monotonic()
        place: object = None
        while True:
            words, now_at = missing()
            if not words:
                return
            now = time.monotonic()
            if now_at != place:
                place, moved_at = now_at, now
            if now - moved_at > self._timeout_seconds:
                raise StepFailed(
                    f"{what}: nothing came nearer for {self._timeout_seconds:g} s ({words}); nothing more is changed. "
                    f"{self.data}/logs says why; when it is well again, {self.remedy}"
                )
            if now - said_at > SAY_SECONDS:
                self.say(f"{what}: still waiting ({words})")
                said_at = now
            time.sleep(LOOK_SECONDS)


class Rolling:
    """Restarts the replicas of a broker one after the other: the followers first, the leader last, which hands over."""

    def __init__(self, running: Running, broker: str, but: Sequence[str] = (), *, leaving: str = "") -> None:
        """All replicas but these and the one that is leaving, which are not waited for either. See `wait_in_sync`."""
        but = [*but, leaving] if leaving else but
        self._running, self._broker, self._but, self._leaving = running, broker, tuple(but), leaving
        self._names = [name for name in running.replicas(broker) if name not in but]
        self._left = list(self._names)

    def roll_followers(self) -> None:
        """Restart those that do not lead. Each step waits until all replicas are in sync. Raises StepFailed."""
        while True:
            said = self._wait()
            leader = leader_of(said)
            name = next((name for name in self._left if name != leader), None)
            if name is None:
                return
            self._step(name, said)

    def roll(self) -> None:
        """Restart those that were not restarted yet. Raises StepFailed."""
        while self._left:
            self.roll_followers()
            if self._left:  # it leads
                self._step(self._left[0], self._wait())
        began = time.monotonic()
        said = self._running.wait_in_sync(self._broker, with_unknown=True)
        took = time.monotonic() - began
        self._running.say(
            f"{self._broker}: all replicas are in sync after {took:.1f} s; {leader_of(said)} leads"
        )

    def _wait(self) -> Said:
        return self._running.wait_in_sync(self._broker, self._but, leaving=self._leaving)

    def _step(self, name: str, said: Said) -> None:
        running, broker, leader = self._running, self._broker, leader_of(said)
        leading = said[leader] if leader is not None else None
        assert leading is not None, "they are in sync"
        others = leading.members - {name}
        if not others:
            raise StepFailed(f"{broker}: {name} is the only replica in sync, and is not restarted")
        refusals = "" if len(others) >= leading.min_in_sync else "; sends wait until it is back"
        role = "which leads and hands over" if name == leader else "which follows"
        count = f"{len(self._names) - len(self._left) + 1} of {len(self._names)}"
        running.say(f"{broker}: restarting {name}, {role} ({count}){refusals}")
        began = time.monotonic()
        running.restart(running.replicas(broker)[name])
        self._left.remove(name)
        self._wait()
        running.say(f"{broker}: {name} is in sync again after {time.monotonic() - began:.1f} s")


def _member(check: Check) -> Member | None:
    """Return what a replica says. One that has just started counts as a member of the set for a moment: it must be ready, too."""
    if not ask(check, ANSWER_SECONDS_MAX).ready:
        return None
    return read_member(fetch(check, PATH, ANSWER_SECONDS_MAX))
