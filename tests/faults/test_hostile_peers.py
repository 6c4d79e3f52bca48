"""Many connections that only cost resources: half frames, and connections that use up every descriptor. Their cost is bounded, and the store recovers by itself."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..crash.store_process import StoreProcess  # noqa: TID252
from .client import Client
from .conftest import NewStore

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]
MIB = 1024 * 1024
HALF_BYTES = 3 * MIB
PEERS = 40
HEALS_SECONDS_MAX = 120.0


@contextlib.contextmanager
def connections(port: int, count: int, data: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open `count` connections that send `data` and nothing more; skip refused ones."""
    with contextlib.ExitStack() as stack:
        made: list[socket.socket] = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                made.append(one)
                one.sendall(data)
        yield made


def metrics(store: StoreProcess) -> dict[str, float]:
    line = http.client.HTTPConnection("127.0.0.1", store.port + 2, timeout=60)
    line.request("GET", "/metrics")
    text = line.getresponse().read().decode()
    line.close()
    rows = [row.rpartition(" ") for row in text.splitlines() if not row.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def resident_bytes(store: StoreProcess) -> int:
    pages = Path(f"/proc/{store.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def test_half_frames_of_many_peers_use_bounded_memory_that_is_released(new_store: NewStore) -> None:
    store = new_store(address_bytes_max=str(8 * MIB))
    store.start()
    half = struct.pack(">II", 16 * MIB - 4, 100) + bytes(HALF_BYTES)
    with Client(store.port) as honest:
        honest.send(b"before")
        before = resident_bytes(store)
        with connections(store.port, PEERS, half):
            for number in range(50):
                honest.send(b"%d" % number * 10_000)
            assert metrics(store)["gantry_store_peer_held_bytes"] <= 8 * MIB
            assert metrics(store)['gantry_store_peers_refused_total{reason="hoarding"}'] >= PEERS // 2
        end = time.monotonic() + HEALS_SECONDS_MAX
        while metrics(store)["gantry_store_peer_held_bytes"]:
            assert time.monotonic() < end, "bytes of closed connections are still held"
            time.sleep(0.05)
        while (
            resident_bytes(store) - before > PEERS * HALF_BYTES / 6
        ):  # reading the metrics alone loads 10 MB
            assert time.monotonic() < end, "the memory was not released"
            time.sleep(0.5)
        assert len(honest.read_all()) == 51
    assert store.stop() == 0


def test_a_log_without_free_descriptors_does_not_stop_and_resumes_when_some_are_free(
    new_store: NewStore,
) -> None:
    store = new_store()
    store.start()
    acknowledged: list[bytes] = []
    with Client(store.port) as honest:
        honest.send(b"first")
        limit = len(list(Path(f"/proc/{store.pid}/fd").iterdir())) + 60
        resource.prlimit(store.pid, resource.RLIMIT_NOFILE, (limit, limit))
        with connections(store.port, 2 * limit):
            for number in range(60):  # sixty times 100 kB: six segments
                body = b"%d:" % number + bytes(100_000)
                if honest.try_send(body).code == 0:
                    acknowledged.append(body)
        end = time.monotonic() + HEALS_SECONDS_MAX
        while honest.try_send(b"last").code != 0:
            assert time.monotonic() < end, "the log did not recover by itself"
            time.sleep(0.1)
        read = set(honest.read_all().values())
    assert {b"first", b"last", *acknowledged} <= read
    assert store.stop() == 0
