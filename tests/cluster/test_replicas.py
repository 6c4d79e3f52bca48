"""`./gantry up --replicas 3`: real stores, a real cluster of NATS, and what is left when any of them dies."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..conftest import start_system, stop_system  # noqa: TID252

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

TOPIC = "Replicated"
SECONDS_MAX = 120.0
EPOCHS_LEFT_OUT = 1000
"""A register that is made again begins above so many."""


def call(method: str, url: str, body: object = None, user: str = "") -> Any:
    data = None if body is None else json.dumps(body).encode()
    credentials = {"authorization": f"Basic {b64encode(user.encode()).decode()}"} if user else {}
    headers = {"content-type": "application/json", **credentials}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.05)


class Group:
    """A system with one broker of three replicas, and what it has acknowledged."""

    def __init__(self, state: dict[str, Any], gantry: Callable[..., Any], user: str = "") -> None:
        self.state, self._gantry, self._user = state, gantry, user
        self.data, self.sent = state["data"], list[str]()
        call("PUT", f"{self._topic}", {"readQueues": 1, "writeQueues": 1, "perm": "rw"}, user)

    @property
    def _topic(self) -> str:
        return f"{self.state['http']}/v1/topics/{TOPIC}"

    def status(self) -> dict[str, Any]:
        return json.loads(self._gantry("status", "--data", self.data, "--json").stdout)

    def broker(self) -> dict[str, Any]:
        (broker,) = self.status()["brokers"]
        return broker

    def process(self, name: str) -> dict[str, Any]:
        return next(one for one in self.status()["processes"] if one["name"] == name)

    def send(self, body: str) -> None:
        """Send until it is acknowledged. One that may be stored already is sent again, and may then be there twice."""

        def is_acknowledged() -> bool:
            with contextlib.suppress(urllib.error.HTTPError):
                call("POST", f"{self._topic}/messages", {"messages": [{"body": body}]}, self._user)
                self.sent.append(body)
                return True
            return False

        until(is_acknowledged)

    def has_all(self) -> bool:
        """Whether every acknowledged message can be read."""
        read, offset = set[str](), 0
        with contextlib.suppress(urllib.error.HTTPError):
            while True:
                path = f"queues/broker-a/0/messages?offset={offset}"
                answer = call("GET", f"{self._topic}/{path}", user=self._user)
                read |= {message["body"] for message in answer["messages"]}
                if not answer["messages"]:
                    return set(self.sent) <= read
                offset = answer["nextOffset"]
        return False

    def is_whole(self) -> bool:
        """Whether one replica leads, and the others have what it has."""
        replicas = self.broker()["replicas"]
        roles = sorted(one["role"] for one in replicas)
        return roles == ["follower", "follower", "leader"] and not any(one["behindBytes"] for one in replicas)

    def leads_another_than(self, name: str) -> bool:
        return self.broker()["leader"] not in {None, name}

    def logs_of_stores(self) -> str:
        return "".join(file.read_text() for file in Path(self.data, "logs").glob("broker-a-*.log"))

    def log(self) -> str:
        return Path(self.data, "logs", "gantry.log").read_text()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    data = tmp_path_factory.mktemp("replicas")
    try:
        yield start_system(data, "--replicas", "3")
    finally:
        stop_system(data)


@pytest.fixture
def group(started: dict[str, Any], gantry: Callable[..., Any]) -> Group:
    """The group, whole again after the test before."""
    found = Group(started, gantry)
    until(found.is_whole)
    return found


def command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def test_up_lists_the_replicas_and_one_of_them_leads(started: dict[str, Any]) -> None:
    (broker,) = started["brokers"]
    assert [one["name"] for one in broker["replicas"]] == ["a", "b", "c"]
    (leader,) = [one for one in broker["replicas"] if one["role"] == "leader"]
    assert leader["name"] == broker["leader"] == "a"
    assert all(one["epoch"] == 1 for one in broker["replicas"])
    for key in ("address", "http", "pid", "store"):
        assert broker[key] == leader[key]
    for one in broker["replicas"]:
        assert Path(one["store"], "commitlog").is_dir()
        assert Path(one["store"]) == Path(started["data"], "broker-a", one["name"])
    assert len(started["nats"].split(",")) == len(started["pids"]["nats"]) == 3


def test_the_gateway_knows_every_replica_from_the_nameservers(group: Group) -> None:
    """Otherwise its sends would not wait for the next leader."""

    def ids() -> set[int]:
        (found,) = call("GET", f"{group.state['http']}/v1/cluster")["groups"]
        assert {one["name"] for one in found["replicas"]} == {"a", "b", "c"}
        return {one["brokerId"] for one in found["replicas"]}

    until(lambda: 0 in ids() and ids() <= {0, 1, 2, 3})


def test_status_as_text_has_a_line_for_each_replica(group: Group, gantry: Callable[..., Any]) -> None:
    lines = gantry("status", "--data", group.data).stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("broker-a: "))
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["a", "b", "c"]
    assert sum(" leader " in line for line in lines[at : at + 4]) == 1
    assert sum("behind by 0 bytes" in line for line in lines[at : at + 4]) == 2


def test_after_a_kill_of_the_leader_the_next_one_has_what_was_acknowledged(group: Group) -> None:
    """The launcher starts it again at once, so that it may lead again itself, in a later epoch."""
    before = group.broker()
    process = next(one for one in before["replicas"] if one["name"] == before["leader"])["process"]
    restarts = group.process(process)["restarts"]
    for number in range(20):
        group.send(f"before {number}")
    os.kill(before["pid"], signal.SIGKILL)
    group.send("after")
    until(group.is_whole)
    assert group.broker()["replicas"][0]["epoch"] > before["replicas"][0]["epoch"]
    until(group.has_all)
    assert group.process(process)["restarts"] == restarts + 1


def test_a_leader_that_was_paused_follows_and_has_not_crashed(group: Group) -> None:
    before = group.broker()
    process = next(one for one in before["replicas"] if one["name"] == before["leader"])["process"]
    restarts = group.process(process)["restarts"]
    os.kill(before["pid"], signal.SIGSTOP)
    try:
        group.send("while it is paused")
        until(lambda: group.leads_another_than(before["leader"]))
    finally:
        os.kill(before["pid"], signal.SIGCONT)
    until(group.is_whole)
    assert group.process(process)["pid"] != before["pid"]
    assert group.process(process)["restarts"] == restarts
    assert f"{process} ended as another replica leads" in group.log()
    until(group.has_all)


@pytest.mark.parametrize("server", ["nats-1", "nats-2", "nats-3"])
def test_any_nats_server_may_die_and_leaders_still_change(group: Group, server: str) -> None:
    os.kill(group.process(server)["pid"], signal.SIGKILL)
    group.send(f"without {server}")
    before = group.broker()
    os.kill(before["pid"], signal.SIGKILL)
    group.send(f"after the next leader came without {server}")
    until(group.is_whole)
    until(group.has_all)


def test_a_later_start_has_as_many_replicas_all_messages_and_no_right_to_a_new_register(
    new_system: Callable[..., dict[str, Any]], gantry: Callable[..., Any]
) -> None:
    first = Group(new_system("--replicas", "2"), gantry)
    first.send("kept")
    assert gantry("down", "--data", first.data).returncode == 0
    files = set(Path(first.data).rglob("*"))
    for words in (["--replicas", "3"], ["--replicas", "1"]):
        refused = gantry("up", "--free-ports", "--detach", "--data", first.data, *words)
        assert refused.returncode == 2
        assert f"has 2 replicas of each broker, not {words[1]}: start it without --replicas" in refused.stderr
    assert set(Path(first.data).rglob("*")) == files
    again = Group(new_system(), gantry)
    again.sent = first.sent
    until(again.has_all)
    replicas = again.broker()["replicas"]
    assert [one["name"] for one in replicas] == ["a", "b"]
    for one in replicas:
        assert not [word for word in command_of(one["pid"]) if "ha_bootstrap" in word]


def test_a_register_that_is_lost_is_made_again_by_a_command(
    new_system: Callable[..., dict[str, Any]], gantry: Callable[..., Any]
) -> None:
    first = Group(new_system("--replicas", "2"), gantry)
    first.send("kept")
    rebuild = ("replicas", "rebuild-register", "broker-a", "--data", first.data)
    assert gantry(*rebuild, "--yes").returncode == 2, "the system runs"
    assert gantry("down", "--data", first.data).returncode == 0
    for server in ("nats-1", "nats-2", "nats-3"):
        shutil.rmtree(Path(first.data, server))
    late = gantry("up", "--free-ports", "--detach", "--data", first.data, "--timeout", "25")
    assert late.returncode == 1
    assert "./gantry replicas rebuild-register" in late.stderr
    unsure = gantry(*rebuild)
    assert (unsure.returncode, "--yes" in unsure.stderr) == (2, True)
    done = gantry(*rebuild, "--yes")
    assert done.returncode == 0, done.stderr
    assert "the register of broker-a is written" in done.stdout
    again = Group(new_system(), gantry)
    again.sent = first.sent
    until(again.has_all)
    until(lambda: all(one["epoch"] > EPOCHS_LEFT_OUT for one in again.broker()["replicas"]))


def test_the_next_leader_knows_the_users_and_their_rights(
    new_system: Callable[..., dict[str, Any]], gantry: Callable[..., Any], tmp_path: Path
) -> None:
    made = json.loads(gantry("access", "init", "--json", "--data", str(tmp_path / "system")).stdout)
    guarded = Group(new_system("--replicas", "3"), gantry, f"{made['user']}:{made['secret']}")
    until(guarded.is_whole)
    guarded.send("before")
    before = guarded.broker()
    os.kill(before["pid"], signal.SIGSTOP)
    try:
        guarded.send("after")
        until(lambda: guarded.leads_another_than(before["leader"]))
        until(guarded.has_all)
        until(lambda: guarded.logs_of_stores().count(" ready address=") == 2)
        assert "no other store was read" not in guarded.logs_of_stores(), "the next leader waited"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            Group(guarded.state, gantry)
    finally:
        os.kill(before["pid"], signal.SIGCONT)
    until(guarded.is_whole)
