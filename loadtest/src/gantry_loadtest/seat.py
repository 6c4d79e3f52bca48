"""What a run of Locust sits on: its environment, the profile in it, and the wish to stop."""

import logging
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import gevent
from locust.env import Environment

from gantry_loadtest.calls import LocustCalls
from gantry_loadtest.drain import Drain
from gantry_loadtest.options import Plan
from gantry_loadtest.ports import Calls
from gantry_loadtest.profiles.base import Profile
from gantry_loadtest.progress import say
from gantry_loadtest.users import LoadUser, PlannedShape
from gantry_loadtest.verdict import Totals
from gantry_loadtest.world import CHECK, REFUSED, World

LOOK_SECONDS = 0.25
CLOSING_SECONDS_MAX = 10.0
"""How long readers may take to come to an end of what they read."""
STOP_SECONDS_MAX = 10.0
"""How long users may take to end what they have begun."""


class CheckFailed(Exception):
    """What Locust shows of a fault that a check found."""


class Seat:
    """A Locust environment, the profile in it, and the wish to stop."""

    def __init__(self, plan: Plan, host: str, profile: type[Profile]) -> None:
        logging.getLogger("locust").setLevel(logging.ERROR)  # what it warns of is told in the answer
        self.plan = plan
        self.is_stopped = False
        self.environment = Environment(
            user_classes=[], shape_class=PlannedShape(plan), host=host, stop_timeout=STOP_SECONDS_MAX
        )
        self.world = World(
            plan,
            profile.readers(plan),
            lambda world: LocustCalls.opened(self.environment, world),
            self._tell,
            profile.size_of,
        )
        self.profile = profile(self.world)
        self.environment.user_classes = [
            type("PlannedUser", (LoadUser,), {"profile": self.profile, "abstract": False})
        ]
        self.environment.events.user_error.add_listener(self._user_failed)
        self._watchers: list[gevent.Greenlet[..., None]] = []
        hub = gevent.get_hub()
        hub.NOT_ERROR = (*hub.NOT_ERROR, KeyboardInterrupt)  # whoever says it twice wants no traceback
        for number in (signal.SIGINT, signal.SIGTERM):
            gevent.signal_handler(number, self._stop)

    def begin(self) -> None:
        """Start the clock and the readers."""
        self.world.begin()
        self._watchers = [
            gevent.spawn(self._watch, watch, self.world.calls()) for watch in self.profile.watchers()
        ]

    def end(self) -> None:
        """Wait for what has not arrived, let the readers end, and take the last look."""
        is_whole = self.world.now() >= self.plan.load_seconds
        self.world.cut_short()
        has_waited = is_whole and self._drain()
        self.world.is_over = True
        gevent.joinall(self._watchers, timeout=CLOSING_SECONDS_MAX if has_waited else 0)
        gevent.killall(self._watchers)
        try:
            self.profile.last_look(self.world.calls(), has_waited=has_waited)
        except Exception as error:  # noqa: BLE001 - a look that fails is a fault of the run, not its end
            self._failed("last look", error)
        self.world.findings.is_final = True

    def clean_up(self) -> None:
        """Remove what the profile made; a second wish to stop leaves it."""
        try:
            self.profile.clean_up(self.world.calls())
        except Exception as error:  # noqa: BLE001 - the result stands
            sys.stderr.write(f"gantry: cannot remove what the run made: {error}\n")

    def totals(self, seconds: float) -> Totals:
        """Return what Locust counted, refused calls and checks apart."""
        entries = self.environment.stats.entries.values()
        requests = sum(
            one.num_requests for one in entries if one.method != CHECK and not one.name.endswith(REFUSED)
        )
        return Totals(requests, sum(one.num_failures for one in entries), seconds)

    def _drain(self) -> bool:
        """Let readers go on until everything is there or they had their chance; False where somebody wished to stop."""
        world = self.world
        drain = Drain(self.plan.drain, world.now())
        if not self.profile.is_settled():
            say(f"not everything has arrived: readers go on until nothing has come for {self.plan.drain:g} s")
        while not self.is_stopped and not self.profile.is_settled():
            if drain.is_over(world.now(), world.moved_at, world.due_at):
                return True
            gevent.sleep(LOOK_SECONDS)
        return not self.is_stopped

    def _watch(self, watch: Callable[[Calls], None], calls: Calls) -> None:
        try:
            watch(calls)
        except Exception as error:  # noqa: BLE001 - told as a failure, the run goes on
            traceback.print_exc()
            self._failed("reader", error)

    def _failed(self, who: str, error: Exception) -> None:
        self.world.findings.example(f"{who}: {error!r}")
        self._tell(who, repr(error))

    def _user_failed(self, exception: Exception, **_: Any) -> None:
        self._failed("user", exception)

    def _tell(self, kind: str, words: str) -> None:
        self.environment.events.request.fire(
            request_type=CHECK, name=kind, response_time=0, response_length=0, exception=CheckFailed(words), context={},
        )  # fmt: skip

    def _stop(self) -> None:
        if self.is_stopped:
            raise KeyboardInterrupt
        self.is_stopped = True
        sys.stderr.write("gantry: ending; once more leaves at once\n")
