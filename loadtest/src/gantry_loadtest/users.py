"""The Locust side of a profile: a user that keeps to its schedule, and the shape that says how many there are."""

import gevent
from locust import FastHttpUser, LoadTestShape, task

from gantry_loadtest.calls import ANSWER_SECONDS_MAX, CONNECT_SECONDS_MAX, LocustCalls
from gantry_loadtest.options import Plan
from gantry_loadtest.profiles.base import Profile
from gantry_loadtest.schedule import Pace
from gantry_loadtest.shapes import SHAPES, most
from gantry_loadtest.world import World

IDLE_SECONDS = 0.2
UNSENT = "unsent"


class LoadUser(FastHttpUser):
    """Acts at the instants of its pace: the load of a run is how many of these there are."""

    profile: Profile
    """Set on a subclass that is made for the run."""
    abstract = True
    network_timeout = ANSWER_SECONDS_MAX
    connection_timeout = CONNECT_SECONDS_MAX
    max_retries = 0
    concurrency = 1

    def on_start(self) -> None:
        """Begin a stream of messages, and its pace."""
        self.world: World = self.profile.world
        self.sender = self.world.new_sender()
        self.calls = LocustCalls(self.client, self.world)
        self.pace = Pace(self.world.now(), self.world.plan.rate_per_user, self.sender.stream)
        self.has_ended = False

    def on_stop(self) -> None:
        """Say what it did not come to."""
        if not self.has_ended:
            self._end()

    @task
    def step(self) -> None:
        """Wait for the next intended instant, and act."""
        now = self.world.now()
        if now >= self.world.load_end or self.world.is_over:
            if not self.has_ended:
                self._end()
            gevent.sleep(IDLE_SECONDS)
            return
        if self.sender.paused_until > now:
            skipped = self.pace.skip_until(self.sender.paused_until)
            self.world.findings.count("heldBack", now, skipped)
            self.sender.paused_until = 0.0
        self._act_at(self.pace.take())

    def _act_at(self, intended: float) -> None:
        wait = min(intended, self.world.load_end) - self.world.now()
        if wait > 0:
            gevent.sleep(wait)
        if intended >= self.world.load_end:
            return
        self.world.findings.count("intended", intended)
        self.world.in_flight += 1
        try:
            self.profile.act(self.calls, self.sender, intended)
        finally:
            self.world.in_flight -= 1

    def _end(self) -> None:
        """Count what was intended and not begun: it has waited at least so long."""
        self.has_ended = True
        end = min(self.world.now(), self.world.load_end)
        for intended in self.pace.overdue(end):
            self.world.findings.count("intended", intended)
            self.world.findings.count(UNSENT, intended)
            self.world.findings.took(self.profile.act_measure, intended, (end - intended) * 1000)


class PlannedShape(LoadTestShape):
    """The users that the profile's shape wants at this moment. It ends nothing: whoever runs it does."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def tick(self) -> tuple[int, float]:
        """Return users, and how many may be started or stopped a second."""
        share = min(self.get_run_time() / self._plan.load_seconds, 0.999)
        shape = self._plan.entry.shape
        return SHAPES[shape](share, self._plan.users), float(most(shape, self._plan.users))
