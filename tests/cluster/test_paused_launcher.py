"""A paused launcher blocks no service."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

RESETS = 1_000
"""Each gives one line in the store's log; together they exceed the size of a pipe."""


def call(method: str, url: str, body: object) -> None:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def test_a_paused_launcher_blocks_no_service_and_loses_no_log_line(new_system) -> None:
    system = new_system()
    call("PUT", f"{system['http']}/v1/topics/orders", {"readQueues": 1, "writeQueues": 1, "perm": "rw"})
    call("PUT", f"{system['http']}/v1/groups/readers", {})
    (launcher,) = system["pids"]["launcher"]
    os.kill(launcher, signal.SIGSTOP)
    try:
        reset = {"topic": "orders", "to": "earliest"}
        with ThreadPoolExecutor(8) as pool:
            url = f"{system['http']}/v1/groups/readers/offsets:reset"
            list(pool.map(lambda _: call("POST", url, reset), range(RESETS)))
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
