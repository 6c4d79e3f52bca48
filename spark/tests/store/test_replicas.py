"""The replica of a broker that is read: by what replicas say, by their files, and through a takeover."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from struct import pack
from typing import Any
from zlib import crc32

import pytest
from stores_made import StoreMade

from gantry_spark.store import directory as store_directory
from gantry_spark.store import files, replicas, snapshot
from gantry_spark.store.directory import find
from gantry_spark.store.end import StoreUnreadable
from gantry_spark.store.http import SnapshotRefused


def made(path: Path, count: int) -> StoreMade:
    store = StoreMade(path)
    for number in range(count):
        store.send(body=b"m%d" % number)
    return store


def know_group(folder: Path, leader: str = "a", epoch: int = 3, origin: str = "first") -> None:
    """Write what a replica keeps of its group: format 2 of gantry/replica, without epochs."""
    record = json.dumps({"version": 9, "origin": origin, "leader": leader, "epoch": epoch}).encode()
    content = b"GKPT" + pack(">H", 2) + pack(">QQBI", 9, 0, 0, len(record)) + record
    (folder / "gantry").mkdir(parents=True, exist_ok=True)
    (folder / "gantry" / "replica").write_bytes(content + pack(">I", crc32(content)))


def said(name: str, role: str, confirm: int = 100, epoch: int = 3, members: str = "abc") -> replicas.Said:
    return replicas.Said(f"http://{name}", name, role, role == "leader", frozenset(members), epoch, confirm)


def test_the_leader_is_read_unless_something_else_is_wished() -> None:
    group = [said("a", "follower", 90), said("b", "leader"), said("c", "follower", 95)]
    assert replicas.of_roles(group, "leader") == group[1]
    assert replicas.of_roles(group, "follower") == group[2]
    assert replicas.of_roles(group, "a") == group[0]
    assert replicas.of_roles(group, "d") is None


def test_while_nobody_leads_there_is_nothing_to_choose() -> None:
    group = [said("a", "follower"), said("c", "follower")]
    assert replicas.of_roles(group, "leader") is None
    assert replicas.of_roles(group, "follower") is None


def test_of_two_that_say_they_lead_the_newer_epoch_counts() -> None:
    group = [said("a", "leader", epoch=3), said("b", "leader", epoch=4)]
    assert replicas.of_roles(group, "leader") == group[1]


def test_a_follower_that_is_not_in_sync_is_not_read_in_place_of_the_leader() -> None:
    group = [said("a", "leader", members="a"), said("b", "follower", members="a")]
    assert replicas.of_roles(group, "follower") == group[0]


def test_a_damaged_or_missing_file_of_a_replica_names_no_group(tmp_path: Path) -> None:
    assert files.replica(str(tmp_path)) is None
    know_group(tmp_path)
    assert files.replica(str(tmp_path)) == files.Replica("first", "a", 3)
    assert files.log_id(str(tmp_path)) == "first"
    file = tmp_path / "gantry" / "replica"
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert files.replica(str(tmp_path)) is None
        file.write_bytes(whole[:at])
        assert files.replica(str(tmp_path)) is None


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """The data directory of a system that was stopped: three replicas of a broker, b with most of what is confirmed."""
    for name, count in (("a", 3), ("b", 5), ("c", 2)):
        folder = tmp_path / "broker-a" / name
        made(folder, count).write()
        know_group(folder)
    return tmp_path


def test_of_stopped_replicas_the_one_that_knows_most_to_be_confirmed_is_read(
    group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirms = {"a": 300, "b": 500, "c": 200}
    monkeypatch.setattr(files, "own_note", lambda folder: (None, confirms[folder[-1]]))
    (store,) = find([str(group)])
    assert (store.broker, store.path) == ("broker-a", f"{group}/broker-a/b")
    (store,) = find([f"shop={group}/broker-a"])
    assert (store.broker, store.path) == ("shop", f"{group}/broker-a/b")
    (store,) = find([str(group)], replica="c")
    assert store.path == f"{group}/broker-a/c"
    (store,) = find([f"broker-a={group}/broker-a/a"])
    assert store.path == f"{group}/broker-a/a"
    confirms["a"] = 500
    (store,) = find([str(group)])
    assert store.path == f"{group}/broker-a/a", (
        "of equal ones the last leader, whose files of offsets are the newest"
    )
    (store,) = find([str(group)], replica="follower")
    assert store.path == f"{group}/broker-a/b"


class Replica(BaseHTTPRequestHandler):
    """Answers as the test's function says: (status, body) by method and path; None: hangs up."""

    def _answer(self) -> None:
        answer: Callable[[str, str], tuple[int, Any] | None] = self.server.answer  # type: ignore[attr-defined]
        found = answer(self.command, self.path)
        if found is None:
            self.close_connection = True
            return
        body = json.dumps(found[1]).encode()
        self.send_response(found[0])
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - names of the base class

    def log_message(self, *_: object) -> None:
        pass


class Running:
    """A system of three replicas: which one leads, and which ones answer."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.leader, self.away = folder, "a", set[str]()
        self.made: list[str] = []
        self.on_make: Callable[[str], None] = lambda _name: None
        self.servers = {name: ThreadingHTTPServer(("127.0.0.1", 0), Replica) for name in "abc"}
        for name, server in self.servers.items():
            server.answer = lambda method, path, name=name: self._answer(name, method, path)  # type: ignore[attr-defined]
            threading.Thread(target=server.serve_forever, daemon=True).start()

    @property
    def http(self) -> str:
        return "|".join(f"http://127.0.0.1:{server.server_address[1]}" for server in self.servers.values())

    def close(self) -> None:
        for server in self.servers.values():
            server.shutdown()
            server.server_close()

    def _answer(self, name: str, method: str, path: str) -> tuple[int, Any] | None:
        if method == "POST":
            self.on_make(name)
        if name in self.away:
            return None
        if path == "/v1/replication":
            role = "leader" if name == self.leader else "follower"
            return 200, {
                "name": name, "role": role, "isServing": role == "leader", "members": list("abc"), "epoch": 3,
                "confirmOffset": {"a": 90, "b": 80, "c": 85}[name],
            }  # fmt: skip
        if method == "DELETE":
            return 204, None
        self.made.append(name)
        folder = self.folder / "broker-a" / name / "gantry" / "snapshots" / f"s-{name}"
        for part in ("commitlog", "config"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        return 201, {
            "id": f"s-{name}", "logId": "first", "endPosition": 0, "minPosition": 0, "createdMs": 1, "segments": [], "queues": [],
        }  # fmt: skip


@pytest.fixture
def running(group: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(store_directory, "is_running", lambda _folder: True)
    monkeypatch.setattr(snapshot, "_TRY_AGAIN_SECONDS", 0.02)
    system = Running(group)
    yield system
    system.close()


def taken(running: Running, replica: str = "leader") -> snapshot.StoreView:
    (view,) = snapshot.take([str(running.folder)], http={"broker-a": running.http}, replica=replica).stores
    return view


def test_the_chosen_replica_makes_the_snapshot_and_the_view_is_in_its_directory(running: Running) -> None:
    for wish, name in (("leader", "a"), ("follower", "c"), ("b", "b")):
        view = taken(running, wish)
        assert view.directory == f"{running.folder}/broker-a/{name}/gantry/snapshots/s-{name}"
        assert (view.broker, view.log_id) == ("broker-a", "first")
    assert running.made == ["a", "c", "b"]


def test_a_leader_that_dies_before_it_makes_the_snapshot_is_replaced_by_the_next_one(
    running: Running,
) -> None:
    def die(name: str) -> None:
        if name == "a":
            running.away.add("a")
            threading.Timer(0.2, setattr, (running, "leader", "b")).start()

    running.on_make = die
    assert taken(running).directory == f"{running.folder}/broker-a/b/gantry/snapshots/s-b"


def test_without_any_leader_the_error_names_every_replica_and_what_to_do(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "TAKEOVER_SECONDS_MAX", 0.2)
    running.leader, running.away = "", {"c"}
    with pytest.raises(
        StoreUnreadable,
        match=r"as leader: a is follower at .*, b is follower at .*, nobody answers at .*; wait until one leads",
    ):
        taken(running)


def test_a_store_of_other_directories_is_refused_and_keeps_no_snapshot(
    running: Running, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for name in "ab":
        made(other / "broker-a" / name, 1).write()
        know_group(other / "broker-a" / name)
    with pytest.raises(StoreUnreadable, match="is another one than"):
        snapshot.take([str(other)], http={"broker-a": running.http})


def test_a_refusal_for_lack_of_rights_is_no_takeover(running: Running) -> None:
    answer = running.servers["a"].answer  # type: ignore[attr-defined]
    running.servers["a"].answer = lambda *_: (401, {"error": "credentials are missing"})  # type: ignore[attr-defined]
    with pytest.raises(SnapshotRefused, match="GANTRY_TOKEN"):
        taken(running)
    assert answer
