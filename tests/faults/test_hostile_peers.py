"""Crowds that keep a store busy with nothing: half frames, and connections that use up every descriptor. It holds a bound, and heals by itself."""

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
CROWD = 40
HEALS_SECONDS_MAX = 120.0


@contextlib.contextmanager
def crowd(port: int, count: int, data: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections that send `data` and say nothing more; those that are refused are passed over."""
    with contextlib.ExitStack() as stack:
        made: list[socket.socket] = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                made.append(one)
                one.sendall(data)
        yield made


def figures(store: StoreProcess) -> dict[str, float]:
    line = http.client.HTTPConnection("127.0.0.1", store.port + 2, timeout=60)
    line.request("GET", "/metrics")
    text = line.getresponse().read().decode()
    line.close()
    rows = [row.rpartition(" ") for row in text.splitlines() if not row.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def resident_bytes(store: StoreProcess) -> int:
    pages = Path(f"/proc/{store.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def test_half_frames_of_a_crowd_hold_a_bound_and_their_memory_comes_back(new_store: NewStore) -> None:
    store = new_store(address_bytes_max=str(8 * MIB))
    store.start()
    half = struct.pack(">II", 16 * MIB - 4, 100) + bytes(HALF_BYTES)
    with Client(store.port) as honest:
        honest.send(b"before")
        before = resident_bytes(store)
        with crowd(store.port, CROWD, half):
            for number in range(50):
                honest.send(b"%d" % number * 10_000)
            assert figures(store)["gantry_store_peer_held_bytes"] <= 8 * MIB
            assert figures(store)['gantry_store_peers_refused_total{reason="hoarding"}'] >= CROWD // 2
        end = time.monotonic() + HEALS_SECONDS_MAX
        while figures(store)["gantry_store_peer_held_bytes"]:
            assert time.monotonic() < end, "bytes of connections that are gone are held"
            time.sleep(0.05)
        while resident_bytes(store) - before > CROWD * HALF_BYTES / 6:  # the figures alone load 10 MB
            assert time.monotonic() < end, "the memory did not come back"
            time.sleep(0.5)
        assert len(honest.read_all()) == 51
    assert store.stop() == 0


def test_a_log_that_finds_no_descriptor_is_not_stopped_and_goes_on_once_there_are_some(
    new_store: NewStore,
) -> None:
    store = new_store()
    store.start()
    acknowledged: list[bytes] = []
    with Client(store.port) as honest:
        honest.send(b"first")
        limit = len(list(Path(f"/proc/{store.pid}/fd").iterdir())) + 60
        resource.prlimit(store.pid, resource.RLIMIT_NOFILE, (limit, limit))
        with crowd(store.port, 2 * limit):
            for number in range(60):  # sixty times 100 kB: six segments
                body = b"%d:" % number + bytes(100_000)
                if honest.try_send(body).code == 0:
                    acknowledged.append(body)
        end = time.monotonic() + HEALS_SECONDS_MAX
        while honest.try_send(b"last").code != 0:
            assert time.monotonic() < end, "the log did not heal by itself"
            time.sleep(0.1)
        read = set(honest.read_all().values())
    assert {b"first", b"last", *acknowledged} <= read
    assert store.stop() == 0
