"""Commands that change the replicas of one system at the same time, and what an interrupted one leaves: real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher.processes import control

from ..conftest import start_system  # noqa: TID252

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

WHOLE_SECONDS_MAX = 60.0


def roles_of(gantry: Callable[..., Any], data: str) -> dict[str, str]:
    (broker,) = json.loads(gantry("status", "--data", data, "--json").stdout)["brokers"]
    return {one["name"]: one["role"] for one in broker["replicas"]}


def order(data: str, words: str) -> dict[str, Any]:
    """Give the launcher an order, as a command does."""
    answer = control.ask(Path(data), words)
    assert isinstance(answer, control.Answer), "the launcher has ended"
    answer.connection.close()
    return answer.state


def wait_whole(gantry: Callable[..., Any], data: str, count: int) -> dict[str, str]:
    """Wait until one of so many replicas leads, and all others follow."""
    end = time.monotonic() + WHOLE_SECONDS_MAX
    while sorted((roles := roles_of(gantry, data)).values()) != [*["follower"] * (count - 1), "leader"]:
        assert time.monotonic() < end, roles
        time.sleep(0.2)
    return roles


def says(replica: dict[str, Any]) -> dict[str, Any]:
    """Return what a replica says of its group; nothing where it does not answer."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{replica['http']}/v1/replication") as answer:
        return json.load(answer)
    return {}


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WHOLE_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def leads_although_it_is_to_leave(gantry: Callable[..., Any], data: str) -> str:
    """Begin a removal, kill the two others one after the other, and let them start under the list of the removal; return who was to leave."""
    wait_whole(gantry, data, 3)
    (broker,) = json.loads(gantry("status", "--data", data, "--json").stdout)["brokers"]
    replicas = {one["name"]: one for one in broker["replicas"]}
    first = replicas.pop(broker["leader"])
    other, leaving = replicas.values()
    launcher = order(data, f"replica-part broker-a {leaving['name']}")["pids"]["launcher"][0]
    os.kill(launcher, signal.SIGSTOP)
    try:
        os.kill(other["pid"], signal.SIGKILL)
        until(lambda: len(says(first)["members"]) == 2, "the set has not shrunk")
        os.kill(first["pid"], signal.SIGKILL)
        until(lambda: says(leaving).get("members") == [leaving["name"]], "it does not lead alone")
    finally:
        os.kill(launcher, signal.SIGCONT)
    until(lambda: bool(says(other) and says(first)), "the others have not started")
    return leaving["name"]


@pytest.fixture
def data(tmp_path: Path, gantry: Callable[..., Any]) -> Iterator[str]:
    """The directory of a system with three replicas."""
    try:
        yield start_system(tmp_path / "system", "--replicas", "3")["data"]
    finally:
        gantry("down", "--data", str(tmp_path / "system"))


def test_a_removal_that_was_interrupted_may_be_taken_back_or_repeated(
    data: str, gantry: Callable[..., Any]
) -> None:
    """The others have a list without the leader, so they hear nothing that it says."""
    left = leads_although_it_is_to_leave(gantry, data)
    order(data, "replica-hold broker-a " + left)
    ran = gantry("restart", "--rolling", "--timeout", "40", "--data", data)
    assert ran.returncode == 0, ran.stderr
    left = leads_although_it_is_to_leave(gantry, data)
    ran = gantry("replicas", "remove", "broker-a", left, "--timeout", "40", "--data", data)
    assert ran.returncode == 0, ran.stderr
    assert sorted(wait_whole(gantry, data, 2)) == sorted(set("abc") - {left})


def test_nothing_is_restarted_while_the_register_does_not_answer(
    data: str, gantry: Callable[..., Any]
) -> None:
    """The leader serves without it, but no replica could lead after it."""
    before = wait_whole(gantry, data, 3)
    state = json.loads(gantry("status", "--data", data, "--json").stdout)
    (leader,) = (one for one in state["brokers"][0]["replicas"] if one["role"] == "leader")
    servers = [one["pid"] for one in state["processes"] if one["name"].startswith("nats-")]
    for pid in servers:
        os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: says(leader)["registerFault"] != "", "the register answers")
        for words in (
            ("restart", "--rolling"),
            ("replicas", "add", "broker-a"),
            ("replicas", "remove", "broker-a", "c"),
        ):
            ran = gantry(*words, "--timeout", "3", "--data", data)
            assert ran.returncode == 1, ran.stderr
            assert "the register does not answer" in ran.stderr
        assert roles_of(gantry, data) == before
    finally:
        for pid in servers:
            os.kill(pid, signal.SIGCONT)
    ran = gantry("restart", "--rolling", "--timeout", "40", "--data", data)
    assert ran.returncode == 0, ran.stderr


def test_the_second_of_two_removals_is_refused_and_nothing_stays_stopped(
    data: str, gantry: Callable[..., Any]
) -> None:
    """Each of them alone leaves the two replicas that a broker needs; both together would not."""
    with ThreadPoolExecutor(2) as pool:
        removals = [
            pool.submit(gantry, "replicas", "remove", "broker-a", name, "--data", data) for name in "bc"
        ]
        ran = sorted((one.result() for one in removals), key=lambda one: one.returncode)
    assert [one.returncode for one in ran] == [0, 2], [one.stderr for one in ran]
    assert "another command changes the replicas" in ran[1].stderr
    roles = wait_whole(gantry, data, 2)
    for words in ("replica-hold broker-a {}", "replica-keep broker-a {}", "replica-forget broker-a {}"):
        gone = (set("abc") - roles.keys()).pop()
        assert "has no replica" in order(data, words.format(gone))["refused"]
