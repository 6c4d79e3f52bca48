"""A disk that is full or refuses writes, without root: limits of the process and of the store stand in for the disk's own.

`test_broken_disks.py` does the same with real file systems, on request and as root.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from ..crash.store_process import StoreProcess  # noqa: TID252
from .client import Client
from .conftest import NewStore
from .filled import commit, committed
from .test_damaged_log import log_of, metric
from .test_parts_die import SOME, Traffic, call, until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]
MIB = 1 << 20
MARGIN_BYTES_MAX = 4096 * MIB
STOPPED, DISK_FULL = 2, 1
SYSTEM_ERROR, REFUSED = 1, 14


def limit_file_size(pid: int, size: int) -> None:
    """From now on every write of this process beyond `size` bytes of a file fails, with EFBIG."""
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


def send_until_refused(client: Client, acknowledged: dict[int, bytes]) -> tuple[int, str]:
    """Send until the store refuses; return its code and remark."""
    for number in range(20_000):
        body = b"%d:" % number + b"." * 4000
        answer = client.try_send(body)
        if answer.code != 0:
            return answer.code, answer.remark or ""
        acknowledged[int(answer.ext["queueOffset"])] = body
    raise AssertionError("the store never refused")


def test_a_failed_write_stops_the_store_until_a_restart_checks_everything(
    new_store: NewStore,
) -> None:
    store = new_store(segment_bytes=str(64 * MIB))
    store.start()
    acknowledged: dict[int, bytes] = {}
    with Client(store.port) as client:
        acknowledged[client.send(b"before")] = b"before"
        client.pull(0)
        commit(client, 1)
        limit_file_size(store.pid, 4 * MIB)
        code, remark = send_until_refused(client, acknowledged)
        assert code in (REFUSED, SYSTEM_ERROR), remark
        limit_file_size(store.pid, resource.RLIM_INFINITY)
        for _ in range(5):
            answer = client.try_send(b"never again without a restart")
            assert (answer.code, answer.ext.get("gantryCode")) == (REFUSED, "STORE_STOPPED")
        assert len(acknowledged) > 100
        assert client.read_all() == acknowledged, "reads continue"
        assert committed(client) == 1
    assert metric(store, "gantry_store_log_state") == STOPPED
    status, body = store.get("/health/ready")
    assert status == 503
    assert b"stop" in body.lower()
    until(lambda: "the state of the log changed" in log_of(store))
    store.stop()
    store.start()
    with Client(store.port) as client:
        found = client.read_all()
        assert {offset: found.get(offset) for offset in acknowledged} == acknowledged
        after = client.send(b"after")
        assert after == len(found)
        assert committed(client) == 1


def free_bytes(path: Path) -> int:
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize


class Disk:
    """The disk of a test, and a limit of free space. Other programs use and free space meanwhile: some gigabytes change nothing."""

    def __init__(self, directory: Path) -> None:
        free = free_bytes(directory)
        self._margin = min(MARGIN_BYTES_MAX, free // 8)
        self.limit = free - self._margin
        self._filler = directory / "filler"

    def fill(self) -> None:
        """Leave as much less than the limit as there was more."""
        size = free_bytes(self._filler.parent) - (self.limit - self._margin)
        with self._filler.open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, size)

    def empty(self) -> None:
        self._filler.unlink()


def test_a_full_disk_is_507_over_http_and_recovers_by_itself(new_system: Any, tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    state = new_system(
        "--set", f"broker-store.free_bytes_min={disk.limit}", "--set", f"broker-store.ballast_bytes={MIB}"
    )
    url = state["http"]
    assert call(url, "PUT", "/v1/topics/full", {"readQueues": 2, "writeQueues": 2})[0] == 200
    traffic = Traffic(url, "full")
    traffic.start()
    traffic.continues(SOME)
    path = "/v1/topics/full/messages"
    disk.fill()
    try:
        until(lambda: call(url, "POST", path, {"messages": [{"body": "x"}]})[0] == 507)
        status, problem = call(url, "POST", path, {"messages": [{"body": "x"}]})
        assert (status, problem["code"], problem["retryable"]) == (507, "DISK_FULL", True)
        assert problem["retryAfterMs"] > 0
        assert call(url, "GET", "/v1/topics/full/queues/broker-a/0/messages?max=5")[1]["status"] == "FOUND"
        offsets = {"offsets": [{"topic": "full", "broker": "broker-a", "queueId": 0, "offset": 1}]}
        assert call(url, "PUT", "/v1/groups/readers", {})[0] == 200
        assert call(url, "PUT", "/v1/groups/readers/offsets", offsets)[0] == 200
        assert call(url, "GET", "/v1/groups/readers/lag")[1]["queues"][0]["offset"] in (0, 1)
    finally:
        disk.empty()
    until(
        lambda: call(url, "POST", path, {"messages": [{"body": "back", "idempotencyKey": "back"}]})[0] == 200
    )
    traffic.continues(2 * SOME)
    traffic.stop()
    assert {(code, name) for code, name, _ in traffic.refusals(keyed=True)} == {(507, "DISK_FULL")}
    for name in ("x", "back"):
        traffic.history.attempt(name, keyed=name == "back")
    traffic.judge()


def test_a_full_disk_refuses_sends_with_14_but_serves_reads_and_commits(
    new_store: NewStore, tmp_path: Path
) -> None:
    disk = Disk(tmp_path)
    store = new_store(free_bytes_min=str(disk.limit), ballast_bytes=str(MIB))
    store.start()
    with Client(store.port) as client:
        acknowledged = {client.send(b"before"): b"before"}
        client.pull(0)
        disk.fill()
        try:
            code, _ = send_until_refused(client, acknowledged)
            assert code == REFUSED
            assert client.try_send(b"x").ext["gantryCode"] == "DISK_FULL"
            assert metric(store, "gantry_store_log_state") == DISK_FULL
            until(lambda: not (store.store_dir / "gantry" / "reserve").exists())
            commit(client, 1)
            assert client.read_all() == acknowledged
        finally:
            disk.empty()
        until(lambda: client.try_send(b"x").code == 0)
        assert committed(client) == 1
        assert (store.store_dir / "gantry" / "reserve").stat().st_size == MIB, "the ballast is recreated"
        assert acknowledged.items() <= client.read_all().items()
    assert is_ready(store)


def is_ready(store: StoreProcess) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", store.port + 2, timeout=60)
    try:
        connection.request("GET", "/health/ready")
        return bool(json.loads(connection.getresponse().read())["ready"])
    finally:
        connection.close()
