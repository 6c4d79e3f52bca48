"""`restart --rolling`: restarts a running system step by step, so that the new code of a checkout runs without an outage of its brokers."""

import time

from gantry_launcher import install
from gantry_launcher.commands.running import Rolling, Running, changing
from gantry_launcher.errors import Refused
from gantry_launcher.options import RestartOptions
from gantry_launcher.output.terminal import say, write_out
from gantry_launcher.serving.group_orders import SETTLE

ROLES = ("nameserver", "broker", "scheduler", "txn-checker", "gateway")
"""What `--all` restarts, callers after those that they call. NATS and Valkey run on: an upgrade does not change them."""


def restart(options: RestartOptions) -> int:
    """Restart the replicas of all brokers one after the other; with `--all` also the processes without replicas. Raises Refused."""
    running = Running(options.data, options.timeout_seconds, say)
    state = running.state()
    groups = [one["name"] for one in state["brokers"] if one.get("replicas")]
    if not groups and not options.is_all:
        raise Refused(
            "no broker has replicas: a restart interrupts its callers for some seconds, and needs --all"
        )
    install.ensure(install.RUN_LOCK, say)
    began = time.monotonic()
    with changing(options.data):
        for broker in groups:
            running.order(SETTLE, broker)  # what an interrupted change left
            Rolling(running, broker).roll()
        if options.is_all:
            _restart_others(running)
    write_out(f"restarted after {time.monotonic() - began:.1f} s\n")
    return 0


def _restart_others(running: Running) -> None:
    """Restart the processes without replicas one after the other. Callers of each wait, or try again, until it is back."""
    state = running.state()
    of_groups = {one["process"] for broker in state["brokers"] for one in broker.get("replicas", [])}
    roles = {
        pid: role for role, pids in state["pids"].items() if role in ROLES for pid in pids if pid is not None
    }
    others = [
        (ROLES.index(roles[one["pid"]]), one["name"])
        for one in state["processes"]
        if one["pid"] in roles and one["name"] not in of_groups
    ]
    for _, name in sorted(others):
        began = time.monotonic()
        say(f"restarting {name}")
        running.restart(name)
        running.wait_ready(name)
        say(f"{name} is ready again after {time.monotonic() - began:.1f} s")
