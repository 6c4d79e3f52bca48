"""The environment of a Locust run: its profile, and the stop signal."""

import logging
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import gevent
from locust.env import Environment

from gantry_loadtest.judging.verdict import Totals
from gantry_loadtest.load.drain import Drain
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.load.run_state import CHECK, REFUSED, RunState
from gantry_loadtest.options import Plan
from gantry_loadtest.profiles.base import Profile
from gantry_loadtest.running.calls import LocustCalls
from gantry_loadtest.running.progress import say
from gantry_loadtest.running.users import LoadUser, PlannedShape

LOOK_SECONDS = 0.25
CLOSING_SECONDS_MAX = 10.0
"""Longest time for readers to reach the end."""
STOP_SECONDS_MAX = 10.0
"""Longest time for users to finish their current act."""


class CheckFailed(Exception):
    """A failed check, as Locust displays it."""


class LocustRun:
    """A Locust environment with its profile and stop signal."""

    def __init__(self, plan: Plan, host: str, profile: type[Profile]) -> None:
        logging.getLogger("locust").setLevel(logging.ERROR)  # the answer reports what it warns of
        self.plan = plan
        self.is_stopped = False
        self.is_done = False
        """What follows may not be interrupted: the run's own system is stopped and its data deleted."""
        self.environment = Environment(
            user_classes=[], shape_class=PlannedShape(plan), host=host, stop_timeout=STOP_SECONDS_MAX
        )
        self.state = RunState(
            plan,
            profile.readers(plan),
            lambda state: LocustCalls.opened(self.environment, state),
            self._tell,
            profile.size_of,
        )
        self.profile = profile(self.state)
        self.environment.user_classes = [
            type("PlannedUser", (LoadUser,), {"profile": self.profile, "abstract": False})
        ]
        self.environment.events.user_error.add_listener(self._user_failed)
        self._watchers: list[gevent.Greenlet[..., None]] = []
        hub = gevent.get_hub()
        hub.NOT_ERROR = (*hub.NOT_ERROR, KeyboardInterrupt)  # a second Ctrl-C should print no traceback
        for number in (signal.SIGINT, signal.SIGTERM):
            gevent.signal_handler(number, self._stop)

    def begin(self) -> None:
        """Start the clock and the readers."""
        self.state.begin()
        self._watchers = [
            gevent.spawn(self._watch, watch, self.state.calls()) for watch in self.profile.watchers()
        ]

    def end(self) -> None:
        """Wait for missing messages, let the readers end, and do the final check."""
        is_whole = self.state.now() >= self.plan.load_seconds
        self.state.cut_short()
        has_waited = is_whole and self._drain()
        self.state.is_over = True
        gevent.joinall(self._watchers, timeout=CLOSING_SECONDS_MAX if has_waited else 0)
        gevent.killall(self._watchers)
        try:
            self.profile.last_look(self.state.calls(), has_waited=has_waited)
        except Exception as error:  # noqa: BLE001 - a look that fails is a fault of the run, not its end
            self._failed("last look", error)
        self.state.findings.is_final = True

    def clean_up(self) -> None:
        """Delete what the profile created; a second stop signal leaves it."""
        try:
            self.profile.clean_up(self.state.calls())
        except Exception as error:  # noqa: BLE001 - the result stands
            sys.stderr.write(f"gantry: cannot remove what the run made: {error}\n")

    def totals(self, seconds: float) -> Totals:
        """Return Locust's counts, refused calls and checks apart."""
        entries = self.environment.stats.entries.values()
        requests = sum(
            one.num_requests for one in entries if one.method != CHECK and not one.name.endswith(REFUSED)
        )
        return Totals(requests, sum(one.num_failures for one in entries), seconds)

    def _drain(self) -> bool:
        """Let readers continue until everything arrived or they waited long enough; False after a stop signal."""
        state = self.state
        drain = Drain(self.plan.drain, state.now())
        if not self.profile.is_settled():
            say(f"messages are missing: readers continue until nothing arrives for {self.plan.drain:g} s")
        while not self.is_stopped and not self.profile.is_settled():
            if drain.is_over(state.now(), state.moved_at, state.due_at):
                return True
            gevent.sleep(LOOK_SECONDS)
        return not self.is_stopped

    def _watch(self, watch: Callable[[Calls], None], calls: Calls) -> None:
        try:
            watch(calls)
        except Exception as error:  # noqa: BLE001 - reported as a failure; the run continues
            traceback.print_exc()
            self._failed("reader", error)

    def _failed(self, who: str, error: Exception) -> None:
        self.state.findings.example(f"{who}: {error!r}")
        self._tell(who, repr(error))

    def _user_failed(self, exception: Exception, **_: Any) -> None:
        self._failed("user", exception)

    def _tell(self, kind: str, words: str) -> None:
        self.environment.events.request.fire(
            request_type=CHECK, name=kind, response_time=0, response_length=0, exception=CheckFailed(words), context={},
        )  # fmt: skip

    def _stop(self) -> None:
        if self.is_done:
            return
        if self.is_stopped:
            raise KeyboardInterrupt
        self.is_stopped = True
        sys.stderr.write("gantry: ending; once more leaves at once\n")
