"""Commands that change the replicas of one system at the same time, and orders for a replica that is gone: real processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher.processes import control

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

WHOLE_SECONDS_MAX = 60.0


def roles_of(gantry: Callable[..., Any], data: str) -> dict[str, str]:
    (broker,) = json.loads(gantry("status", "--data", data, "--json").stdout)["brokers"]
    return {one["name"]: one["role"] for one in broker["replicas"]}


def test_the_second_of_two_removals_is_refused_and_nothing_stays_stopped(
    new_system: Callable[..., dict[str, Any]], gantry: Callable[..., Any]
) -> None:
    """Each of them alone leaves the two replicas that a broker needs; both together would not."""
    data = new_system("--replicas", "3")["data"]
    with ThreadPoolExecutor(2) as pool:
        removals = [
            pool.submit(gantry, "replicas", "remove", "broker-a", name, "--data", data) for name in "bc"
        ]
        ran = sorted((one.result() for one in removals), key=lambda one: one.returncode)
    assert [one.returncode for one in ran] == [0, 2], [one.stderr for one in ran]
    assert "another command changes the replicas" in ran[1].stderr
    until = time.monotonic() + WHOLE_SECONDS_MAX
    while sorted((roles := roles_of(gantry, data)).values()) != ["follower", "leader"]:
        assert time.monotonic() < until, roles
        time.sleep(0.2)

    for words in ("replica-hold broker-a {}", "replica-keep broker-a {}", "replica-forget broker-a {}"):
        answer = control.ask(Path(data), words.format((set("abc") - roles.keys()).pop()))
        assert isinstance(answer, control.Answer), "the launcher has ended"
        answer.connection.close()
        assert "has no replica" in answer.state["refused"]
