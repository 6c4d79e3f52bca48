"""Runs one profile in this process: alone, as the master of others, or as one of these. Returns what was seen."""

import socket
import sys
import time
from typing import Any

import gevent
from gevent.event import Event
from locust import runners
from locust.runners import LocalRunner, MasterRunner, WorkerRunner
from locust.stats import stats_history

from gantry_loadtest.drain import DRAINS_MAX
from gantry_loadtest.findings import Findings
from gantry_loadtest.options import Plan, Refused
from gantry_loadtest.profiles.base import Profile
from gantry_loadtest.progress import Progress, say
from gantry_loadtest.seat import LOOK_SECONDS, Seat
from gantry_loadtest.verdict import Outcome, judge

BUSY_WINDOW_SECONDS = 2.0
WORKERS_SECONDS_MAX = MASTER_SECONDS_MAX = 120.0
JOIN_TRIES = 2
"""Of five seconds each, deaf to signals: Locust's way of asking a master that listens already."""
FINAL_SECONDS_MAX = 60.0
"""How long workers may take to tell their end, beside the time that their readers go on."""
LAST_WORDS_SECONDS = 1.0


def drive(plan: Plan, host: str, profile: type[Profile]) -> Outcome | None:
    """Run it; a worker has no outcome of its own. Raises Refused."""
    seat = Seat(plan, host, profile)
    if plan.role == "worker":
        _work(seat)
        return None
    return _lead(seat) if plan.role == "master" else _alone(seat)


def _alone(seat: Seat) -> Outcome:
    runner = seat.environment.create_local_runner()
    _show_page(seat)
    try:
        seat.profile.prepare(seat.world.calls())
        seat.environment.stats.clear_all()
        seat.begin()
        runner.start_shape()
        world = seat.world
        progress, busy = Progress(seat.plan), _Busy(world.findings)
        while (
            not _is_over(seat, runner) and world.now() < seat.plan.seconds and not seat.profile.is_settled()
        ):
            gevent.sleep(LOOK_SECONDS)
            busy.look()
            progress.tell(world.now(), runner.user_count, world.findings, seat.totals(world.now()))
        world.cut_short()
        runner.stop()
        seat.end()
        outcome = _outcome(seat, world.findings)
    finally:
        seat.clean_up()
    runner.quit()
    return outcome


def _lead(seat: Seat) -> Outcome:
    runner = seat.environment.create_master_runner("*", seat.plan.master[1])
    _show_page(seat)
    told: dict[str, Findings] = {}

    def take(client_id: str, data: dict[str, Any], **_: Any) -> None:
        if "gantry" in data:
            told[client_id] = Findings.from_dict(data["gantry"])

    seat.environment.events.worker_report.add_listener(take)
    _wait_for_workers(seat, runner)
    seat.world.begin()
    runner.start_shape()
    progress = Progress(seat.plan)
    while not _is_over(seat, runner) and seat.world.now() < seat.plan.seconds:
        gevent.sleep(LOOK_SECONDS)
        progress.tell(
            seat.world.now(), runner.user_count, _sum(seat.plan, told), seat.totals(seat.world.now())
        )
    seat.world.cut_short()
    runner.stop()
    until = time.monotonic() + DRAINS_MAX * seat.plan.drain + FINAL_SECONDS_MAX
    while time.monotonic() < until and _is_awaited(runner, told):
        gevent.sleep(LOOK_SECONDS)
    findings = _sum(seat.plan, told)
    if sum(one.is_final for one in told.values()) < seat.plan.workers:
        seat.world.fault("worker", "not every worker told its end")
    findings.load_seconds = seat.world.load_end
    outcome = _outcome(seat, findings)
    runner.quit()
    return outcome


def _is_awaited(runner: MasterRunner, told: dict[str, Findings]) -> bool:
    """Whether a worker that lives has not told its end, or nobody has told anything yet."""
    gone = {client.id for client in runner.clients.missing}
    return not told or any(not one.is_final for client, one in told.items() if client not in gone)


def _work(seat: Seat) -> None:
    """Load as the master says. Each worker has topics of its own, so that it can judge alone what arrives."""
    _wait_for_master(seat)
    seat.profile.prepare(seat.world.calls())
    try:
        runner = _joined(seat)
        events = seat.environment.events
        is_stopping = Event()
        events.test_start.add_listener(lambda **_: seat.begin())
        events.test_stop.add_listener(lambda **_: is_stopping.set())

        has_told_the_end = False

        def report(data: dict[str, Any], **_: Any) -> None:
            nonlocal has_told_the_end
            data["gantry"] = seat.world.findings.to_dict()
            has_told_the_end = seat.world.findings.is_final

        events.report_to_master.add_listener(report)
        while not has_told_the_end and not seat.is_stopped and len(runner.greenlet):
            if is_stopping.is_set() and not seat.world.is_over:
                seat.end()  # here, not where Locust listens to its master: readers may go on for long
            gevent.sleep(LOOK_SECONDS)
        gevent.sleep(
            LAST_WORDS_SECONDS
        )  # what was told is on its way; the master sends no farewell to workers that stopped
        runner.quit()
    finally:
        seat.clean_up()


def _wait_for_master(seat: Seat) -> None:
    """Locust's own waiting lasts five minutes and hears no signal."""
    host, port = seat.plan.master
    until = time.monotonic() + MASTER_SECONDS_MAX
    has_told = False
    while True:
        try:
            socket.create_connection((host, port), 1.0).close()
        except OSError as error:
            if seat.is_stopped or time.monotonic() > until:
                raise Refused(f"no master at {host}:{port} ({error}); start it with --master N") from error
            if not has_told:
                say(f"waiting for the master at {host}:{port} ({error})")
                has_told = True
            gevent.sleep(LOOK_SECONDS)
        else:
            return


def _joined(seat: Seat) -> WorkerRunner:
    host, port = seat.plan.master
    runners.CONNECT_RETRY_COUNT = JOIN_TRIES
    try:
        return seat.environment.create_worker_runner(host, port)
    except ConnectionError:
        raise Refused(f"what listens at {host}:{port} is no master of a load") from None


def _wait_for_workers(seat: Seat, runner: MasterRunner) -> None:
    until = time.monotonic() + WORKERS_SECONDS_MAX
    while len(runner.clients.ready) < seat.plan.workers:
        if seat.is_stopped or time.monotonic() > until:
            raise Refused(
                f"{len(runner.clients.ready)} of {seat.plan.workers} workers came; start them with --worker HOST"
            )
        gevent.sleep(LOOK_SECONDS)


def _is_over(seat: Seat, runner: LocalRunner | MasterRunner | WorkerRunner) -> bool:
    if runner.state == "stopped":  # by the button of the page
        seat.is_stopped = True
    return seat.is_stopped


def _sum(plan: Plan, told: dict[str, Findings]) -> Findings:
    found = Findings.over(plan.seconds, plan.load_seconds)
    for one in told.values():
        found.merge(one)
    return found


def _outcome(seat: Seat, findings: Findings) -> Outcome:
    plan = seat.plan
    return judge(
        Outcome(
            plan.entry.name,
            plan.entry.measure,
            seat.totals(findings.load_seconds),
            findings,
            plan.limits,
            seat.is_stopped,
        )
    )


class _Busy:
    """How much of a core this process used, at most over two seconds: one that has no time left measures itself."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._at, self._used = time.monotonic(), time.process_time()

    def look(self) -> None:
        """Note it, if it is time to."""
        now, used = time.monotonic(), time.process_time()
        if now < self._at + BUSY_WINDOW_SECONDS:
            return
        percent = round(100 * (used - self._used) / (now - self._at))
        counts = self._findings.counts
        counts["clientCpuPercent"] = max(counts["clientCpuPercent"], percent)
        self._at, self._used = now, used


def _show_page(seat: Seat) -> None:
    if seat.plan.headless or seat.plan.json:
        return
    sys.argv = sys.argv[:1]  # Locust's page reads it for options of Locust's own
    page = seat.environment.create_web_ui("127.0.0.1", 0, delayed_start=True)
    page.start()
    gevent.spawn(stats_history, seat.environment.runner)
    while page.server is None or not page.server.started:
        gevent.sleep(0.05)
    sys.stderr.write(f"gantry: Locust's page while it runs: http://127.0.0.1:{page.server.server_port}\n")
