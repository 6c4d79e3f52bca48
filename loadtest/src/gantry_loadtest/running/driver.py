"""Runs one profile in this process: alone, as the master of workers, or as a worker. Returns the outcome."""

import socket
import sys
import time
from typing import Any

import gevent
from gevent.event import Event
from locust import runners
from locust.runners import LocalRunner, MasterRunner, WorkerRunner
from locust.stats import stats_history

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.verdict import Outcome, judge
from gantry_loadtest.load.drain import DRAINS_MAX
from gantry_loadtest.options import Plan, Refused
from gantry_loadtest.profiles.base import Profile
from gantry_loadtest.running.locust_run import LOOK_SECONDS, LocustRun
from gantry_loadtest.running.progress import Progress, say

BUSY_WINDOW_SECONDS = 2.0
WORKERS_SECONDS_MAX = MASTER_SECONDS_MAX = 120.0
JOIN_TRIES = 2
"""Locust's connection attempts to a listening master: five seconds each, ignoring signals."""
FINAL_SECONDS_MAX = 60.0
"""Longest wait for the workers' reports, besides the time their readers continue."""
LAST_WORDS_SECONDS = 1.0


def drive(plan: Plan, host: str, profile: type[Profile]) -> Outcome | None:
    """Run the profile; a worker has no outcome of its own. Raises Refused."""
    locust_run = LocustRun(plan, host, profile)
    try:
        if plan.role == "worker":
            _work(locust_run)
            return None
        return _lead(locust_run) if plan.role == "master" else _alone(locust_run)
    finally:
        locust_run.is_done = True


def _alone(locust_run: LocustRun) -> Outcome:
    runner = locust_run.environment.create_local_runner()
    _show_page(locust_run)
    try:
        locust_run.profile.prepare(locust_run.state.calls())
        locust_run.environment.stats.clear_all()
        locust_run.begin()
        runner.start_shape()
        state = locust_run.state
        progress, busy = Progress(locust_run.plan), _Busy(state.findings)
        while (
            not _is_over(locust_run, runner)
            and state.now() < locust_run.plan.seconds
            and not locust_run.profile.is_settled()
        ):
            gevent.sleep(LOOK_SECONDS)
            busy.look()
            progress.tell(state.now(), runner.user_count, state.findings, locust_run.totals(state.now()))
        state.cut_short()
        runner.stop()
        locust_run.end()
        outcome = _outcome(locust_run, state.findings)
    finally:
        locust_run.clean_up()
    runner.quit()
    return outcome


def _lead(locust_run: LocustRun) -> Outcome:
    runner = locust_run.environment.create_master_runner("*", locust_run.plan.master[1])
    _show_page(locust_run)
    reported: dict[str, Findings] = {}

    def take(client_id: str, data: dict[str, Any], **_: Any) -> None:
        if "gantry" in data:
            reported[client_id] = Findings.from_dict(data["gantry"])

    locust_run.environment.events.worker_report.add_listener(take)
    _wait_for_workers(locust_run, runner)
    locust_run.state.begin()
    runner.start_shape()
    progress = Progress(locust_run.plan)
    while not _is_over(locust_run, runner) and locust_run.state.now() < locust_run.plan.seconds:
        gevent.sleep(LOOK_SECONDS)
        progress.tell(
            locust_run.state.now(),
            runner.user_count,
            _sum(locust_run.plan, reported),
            locust_run.totals(locust_run.state.now()),
        )
    locust_run.state.cut_short()
    runner.stop()
    until = time.monotonic() + DRAINS_MAX * locust_run.plan.drain + FINAL_SECONDS_MAX
    while time.monotonic() < until and _is_awaited(runner, reported):
        gevent.sleep(LOOK_SECONDS)
    findings = _sum(locust_run.plan, reported)
    if sum(one.is_final for one in reported.values()) < locust_run.plan.workers:
        locust_run.state.fault("worker", "not every worker reported its end")
    findings.load_seconds = locust_run.state.load_end
    outcome = _outcome(locust_run, findings)
    runner.quit()
    return outcome


def _is_awaited(runner: MasterRunner, reported: dict[str, Findings]) -> bool:
    """Whether a live worker has not reported its end, or no worker has reported anything yet."""
    gone = {client.id for client in runner.clients.missing}
    return not reported or any(not one.is_final for client, one in reported.items() if client not in gone)


def _work(locust_run: LocustRun) -> None:
    """Load as the master says. Each worker has its own topics, so that it judges arrivals alone."""
    _wait_for_master(locust_run)
    locust_run.profile.prepare(locust_run.state.calls())
    try:
        runner = _joined(locust_run)
        events = locust_run.environment.events
        is_stopping = Event()
        events.test_start.add_listener(lambda **_: locust_run.begin())
        events.test_stop.add_listener(lambda **_: is_stopping.set())

        has_told_the_end = False

        def report(data: dict[str, Any], **_: Any) -> None:
            nonlocal has_told_the_end
            data["gantry"] = locust_run.state.findings.to_dict()
            has_told_the_end = locust_run.state.findings.is_final

        events.report_to_master.add_listener(report)
        while not has_told_the_end and not locust_run.is_stopped and len(runner.greenlet):
            if is_stopping.is_set() and not locust_run.state.is_over:
                locust_run.end()  # here, not where Locust listens to its master: readers may continue for long
            gevent.sleep(LOOK_SECONDS)
        gevent.sleep(
            LAST_WORDS_SECONDS
        )  # reports are in flight; the master sends no farewell to stopped workers
        runner.quit()
    finally:
        locust_run.clean_up()


def _wait_for_master(locust_run: LocustRun) -> None:
    """Wait for a master. Locust's own wait lasts five minutes and ignores signals."""
    host, port = locust_run.plan.master
    until = time.monotonic() + MASTER_SECONDS_MAX
    has_told = False
    while True:
        try:
            socket.create_connection((host, port), 1.0).close()
        except OSError as error:
            if locust_run.is_stopped or time.monotonic() > until:
                raise Refused(f"no master at {host}:{port} ({error}); start it with --master N") from error
            if not has_told:
                say(f"waiting for the master at {host}:{port} ({error})")
                has_told = True
            gevent.sleep(LOOK_SECONDS)
        else:
            return


def _joined(locust_run: LocustRun) -> WorkerRunner:
    host, port = locust_run.plan.master
    runners.CONNECT_RETRY_COUNT = JOIN_TRIES
    try:
        return locust_run.environment.create_worker_runner(host, port)
    except ConnectionError:
        raise Refused(f"the process listening at {host}:{port} is no master of a load") from None


def _wait_for_workers(locust_run: LocustRun, runner: MasterRunner) -> None:
    until = time.monotonic() + WORKERS_SECONDS_MAX
    while len(runner.clients.ready) < locust_run.plan.workers:
        if locust_run.is_stopped or time.monotonic() > until:
            raise Refused(
                f"{len(runner.clients.ready)} of {locust_run.plan.workers} workers connected; start them with --worker HOST"
            )
        gevent.sleep(LOOK_SECONDS)


def _is_over(locust_run: LocustRun, runner: LocalRunner | MasterRunner | WorkerRunner) -> bool:
    if runner.state == "stopped":  # by the button of the page
        locust_run.is_stopped = True
    return locust_run.is_stopped


def _sum(plan: Plan, reported: dict[str, Findings]) -> Findings:
    found = Findings.over(plan.seconds, plan.load_seconds)
    for one in reported.values():
        found.merge(one)
    return found


def _outcome(locust_run: LocustRun, findings: Findings) -> Outcome:
    plan = locust_run.plan
    return judge(
        Outcome(
            plan.entry.name,
            plan.entry.measure,
            locust_run.totals(findings.load_seconds),
            findings,
            plan.limits,
            locust_run.is_stopped,
        )
    )


class _Busy:
    """The CPU use of this process, at most over two seconds. A saturated process measures itself."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._at, self._used = time.monotonic(), time.process_time()

    def look(self) -> None:
        """Record the CPU use if it is time to."""
        now, used = time.monotonic(), time.process_time()
        if now < self._at + BUSY_WINDOW_SECONDS:
            return
        percent = round(100 * (used - self._used) / (now - self._at))
        counts = self._findings.counts
        counts["clientCpuPercent"] = max(counts["clientCpuPercent"], percent)
        self._at, self._used = now, used


def _show_page(locust_run: LocustRun) -> None:
    if locust_run.plan.headless or locust_run.plan.json:
        return
    sys.argv = sys.argv[:1]  # Locust's page reads it for Locust's own options
    page = locust_run.environment.create_web_ui("127.0.0.1", 0, delayed_start=True)
    page.start()
    gevent.spawn(stats_history, locust_run.environment.runner)
    while page.server is None or not page.server.started:
        gevent.sleep(0.05)
    sys.stderr.write(f"gantry: Locust's page while it runs: http://127.0.0.1:{page.server.server_port}\n")
