"""The Locust side of a profile: a user that follows its schedule, and the shape that sets their number."""

import gevent
from locust import FastHttpUser, LoadTestShape, task

from gantry_loadtest.load.run_state import RunState
from gantry_loadtest.load.schedule import Pace
from gantry_loadtest.load.shapes import SHAPES, most
from gantry_loadtest.options import Plan
from gantry_loadtest.profiles.base import Profile
from gantry_loadtest.running.calls import ANSWER_SECONDS_MAX, CONNECT_SECONDS_MAX, LocustCalls

IDLE_SECONDS = 0.2
UNSENT = "unsent"


class LoadUser(FastHttpUser):
    """Acts at the instants of its pace. The number of these users is the load."""

    profile: Profile
    """Set on a subclass that is made for the run."""
    abstract = True
    network_timeout = ANSWER_SECONDS_MAX
    connection_timeout = CONNECT_SECONDS_MAX
    max_retries = 0
    concurrency = 1

    def on_start(self) -> None:
        """Begin a stream of messages, and its pace."""
        self.state: RunState = self.profile.state
        self.sender = self.state.new_sender()
        self.calls = LocustCalls(self.client, self.state)
        self.pace = Pace(self.state.now(), self.state.plan.rate_per_user, self.sender.stream)
        self.has_ended = False

    def on_stop(self) -> None:
        """Report the acts it did not begin."""
        if not self.has_ended:
            self._end()

    @task
    def step(self) -> None:
        """Wait for the next intended instant, and act."""
        now = self.state.now()
        if now >= self.state.load_end or self.state.is_over:
            if not self.has_ended:
                self._end()
            gevent.sleep(IDLE_SECONDS)
            return
        if self.sender.paused_until > now:
            skipped = self.pace.skip_until(self.sender.paused_until)
            self.state.findings.count("heldBack", now, skipped)
            self.sender.paused_until = 0.0
        self._act_at(self.pace.take())

    def _act_at(self, intended: float) -> None:
        wait = min(intended, self.state.load_end) - self.state.now()
        if wait > 0:
            gevent.sleep(wait)
        if intended >= self.state.load_end:
            return
        self.state.findings.count("intended", intended)
        self.state.in_flight += 1
        try:
            self.profile.act(self.calls, self.sender, intended)
        finally:
            self.state.in_flight -= 1

    def _end(self) -> None:
        """Count intended acts that were not begun, with the time they waited."""
        self.has_ended = True
        end = min(self.state.now(), self.state.load_end)
        for intended in self.pace.overdue(end):
            self.state.findings.count("intended", intended)
            self.state.findings.count(UNSENT, intended)
            self.state.findings.took(self.profile.act_measure, intended, (end - intended) * 1000)


class PlannedShape(LoadTestShape):
    """The number of users the profile's shape wants now. The runner ends the test, not the shape."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def tick(self) -> tuple[int, float]:
        """Return users, and how many may start or stop a second."""
        share = min(self.get_run_time() / self._plan.load_seconds, 0.999)
        shape = self._plan.entry.shape
        return SHAPES[shape](share, self._plan.users), float(most(shape, self._plan.users))
