"""A paused process is killed and restarted; a paused launcher blocks no service."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

RESETS = 1_000
"""Each gives one line in the store's log; together they exceed the size of a pipe."""


def status(gantry, data: str) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(gantry("status", "--data", data, "--json").stdout)
    return state


def call(method: str, url: str, body: object) -> None:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def test_a_paused_store_and_one_paused_gateway_of_two_are_restarted(new_system, gantry) -> None:
    system = new_system("--gateway-workers", "2", "--hung-seconds", "6")
    stopped = {"broker-a": system["brokers"][0]["pid"], "gateway-1": system["pids"]["gateway"][0]}
    for pid in stopped.values():
        os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + 120
    while True:
        state = status(gantry, system["data"])
        processes = {process["name"]: process for process in state["processes"]}
        if state["ready"] and all(processes[name]["pid"] != pid for name, pid in stopped.items()):
            break
        assert time.monotonic() < end, state
        time.sleep(0.2)
    assert {name for name, process in processes.items() if process["restarts"]} == set(stopped)
    log = Path(system["data"], "logs", "gantry.log").read_text()
    for name, pid in stopped.items():
        assert f"{name} (pid {pid}) has answered nothing for" in log


def test_a_paused_launcher_blocks_no_service_and_loses_no_log_line(new_system) -> None:
    system = new_system()
    call("PUT", f"{system['http']}/v1/topics/orders", {"readQueues": 1, "writeQueues": 1, "perm": "rw"})
    call("PUT", f"{system['http']}/v1/groups/readers", {})
    (launcher,) = system["pids"]["launcher"]
    os.kill(launcher, signal.SIGSTOP)
    try:
        for _ in range(RESETS):
            reset = {"topic": "orders", "to": "earliest"}
            call("POST", f"{system['http']}/v1/groups/readers/offsets:reset", reset)
        with urllib.request.urlopen(f"{system['http']}/health/ready", timeout=60) as answer:
            assert answer.status == 200
    finally:
        os.kill(launcher, signal.SIGCONT)
    merged = Path(system["data"], "logs", "gantry.log")
    end = time.monotonic() + 60
    while merged.read_text().count("offsets reset") < RESETS and time.monotonic() < end:
        time.sleep(0.1)
    assert merged.read_text().count("offsets reset") == RESETS
    assert "has answered nothing" not in merged.read_text()
