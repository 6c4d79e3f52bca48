"""Invalid frames, peers that never finish and readers that never read: each gets a response or is closed, and no other client is affected."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantry_wire.codes import RequestCode
from gantry_wire.frames.encode import encode_request
from gantry_wire.headers.messages import PullHeader

from ..crash.store_process import ROOT, SOURCES, StoreProcess, free_port_block  # noqa: TID252
from .client import Client, frame
from .conftest import SETTINGS
from .hostile import ATTACKS, CLOSED, Attack, header

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]
MIB = 1024 * 1024
HEALTHY_SECONDS_MAX = 30.0
"""Far longer than a send on a busy machine, far shorter than an attack with an effect."""
SLOW_PEERS = 200


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    settings = SETTINGS | {
        "output_bytes_max": str(4 * MIB),
        "idle_seconds": "10",
        "segment_bytes": str(64 * MIB),
    }
    store = StoreProcess(tmp_path_factory.mktemp("hostile") / "store", settings=settings)
    store.start()
    with Client(store.port) as client:
        client.send(b"first")
    yield store
    with Client(store.port) as client:
        assert client.read_all()[0] == b"first"
    assert store.stop() == 0, "it stops cleanly after all attacks"


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of the module's own nameserver."""
    directory = tmp_path_factory.mktemp("nameserver")
    port = free_port_block()
    sources = [*SOURCES, ROOT / "services/nameserver/src"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "nameserver", "--set", f"port={port}", "--set", f"data_dir={directory}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))},
        )  # fmt: skip
        try:
            wait_for_port(port)
            yield port
            process.terminate()
            assert process.wait(60) == 0
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert "Traceback" not in Path(directory / "log").read_text()


def wait_for_port(port: int) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < end, "the nameserver is not listening"
            time.sleep(0.02)
        else:
            return


def check_attack(port: int, attack: Attack) -> None:
    with Client(port) as client:
        client.write(attack.data)
        answer = client.answer()
        if attack.answer is CLOSED:
            assert answer is None, f"answered with {answer and answer.code} instead of a close"
        else:
            assert answer is not None, "closed without a response"
            assert answer.code == attack.answer
            assert client.ask(9998).code == 3, "the connection stays open"


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
def test_a_store_responds_or_closes_and_serves_other_clients(store: StoreProcess, attack: Attack) -> None:
    with Client(store.port) as healthy:
        healthy.send(b"before")
        check_attack(store.port, attack)
        began = time.monotonic()
        healthy.send(b"after")
        assert time.monotonic() - began < HEALTHY_SECONDS_MAX


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
def test_a_nameserver_responds_or_closes_and_serves_other_clients(nameserver: int, attack: Attack) -> None:
    with Client(nameserver) as healthy:
        assert healthy.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
        check_attack(nameserver, attack)
        assert healthy.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0


def test_valid_frames_before_an_invalid_one_get_a_response(store: StoreProcess) -> None:
    with Client(store.port) as client:
        client.write(frame(header(code=9999, opaque=5)) + frame(b"", length=-7))
        answer = client.answer()
        assert answer is not None
        assert (answer.code, answer.opaque) == (3, 5)
        assert client.answer() is None


BAD_REQUESTS = [
    ({}, b""),
    ({"a": "g"}, b"x"),
    ({"a": "g", "b": "t" * 4000, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}, b"x"),
    ({"a": "g", "b": "no topic!", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}, b"x"),
    ({"a": "g", "b": "faults", "c": "TBW102", "d": 4, "e": 10**9, "f": 0, "g": 1, "h": 0}, b"x"),
    ({"a": "g", "b": "faults", "c": "TBW102", "d": 4, "e": 0, "f": "x", "g": 1, "h": 0}, b"x"),
    ({"a": "g", "b": "faults", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}, b"x" * (4 * MIB + 1)),
    ({"a": "g", "b": "faults", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": "p" * 40_000}, b"x"),
    ({"a": "g", "b": "faults", "c": "TBW102", "d": 2**40, "e": 0, "f": 0, "g": 1, "h": 0}, b"x"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD_REQUESTS)))
@pytest.mark.parametrize("code", [310, 320])
def test_an_invalid_send_is_refused_and_stores_nothing(store: StoreProcess, code: int, number: int) -> None:
    fields, body = BAD_REQUESTS[number]
    with Client(store.port) as client:
        end = len(client.read_all())
        client.write(
            frame(header(code=code, extFields={name: str(value) for name, value in fields.items()}), body)
        )
        answer = client.answer()
        assert answer is not None
        assert answer.code not in (0, 10, 11, 12)
        assert answer.remark
        assert len(client.read_all()) == end


HANDLED = [
    12, 14, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 200, 202, 203, 204, 207, 208, 215, 361,
]  # fmt: skip


@pytest.mark.parametrize("code", HANDLED)
@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({}, b""),
        ({"topic": "\u0000", "consumerGroup": "x" * 5000, "queueId": "-1", "offset": "9" * 30}, b"[" * 50_000),
        ({"topic": "other", "queueId": "1e9", "consumerGroup": "", "timestamp": "-1"}, b"\xff" * 100),
        ({"topic": "other", "queueId": "7", "group": "nobody", "offset": str(2**62)}, b'{"clientID":7}'),
    ],
    ids=["nothing", "absurd", "no numbers", "outside"],
)  # fmt: skip
def test_any_code_with_invalid_fields_gets_a_response(
    store: StoreProcess, code: int, fields: dict[str, str], body: bytes
) -> None:
    with Client(store.port) as client:
        client.write(frame(header(code=code, extFields=fields), body))
        answer = client.answer()
        assert answer is not None
        assert "Error: " not in (answer.remark or ""), "a refusal with a message, not an escaped exception"
        client.send(b"continues")


@contextlib.contextmanager
def peers(port: int, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]


WHOLE = encode_request(RequestCode.GET_MAX_OFFSET, 1, {"topic": "faults", "queueId": "0"})


def test_peers_that_send_a_byte_at_a_time_slow_no_client(store: StoreProcess) -> None:
    with peers(store.port, SLOW_PEERS) as slow, Client(store.port) as healthy:
        for byte in range(10):
            for peer in slow:
                peer.send(WHOLE[byte : byte + 1])
            began = time.monotonic()
            healthy.send(b"among slow ones")
            assert time.monotonic() - began < HEALTHY_SECONDS_MAX
    with Client(store.port) as client:
        client.send(b"after")


def test_peers_that_stop_amid_a_frame_are_closed_when_idle(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store", settings=SETTINGS | {"idle_seconds": "1"})
    store.start()
    try:
        with peers(store.port, SLOW_PEERS) as slow:
            for peer in slow:
                with contextlib.suppress(ConnectionError):  # a busy machine may have closed it before
                    for byte in range(10):
                        peer.send(WHOLE[byte : byte + 1])
            for peer in slow:
                peer.settimeout(90)
                with contextlib.suppress(ConnectionError):
                    assert peer.recv(1) == b"", "silent for idle_seconds: closed"
        with Client(store.port) as client:
            client.send(b"after")
    finally:
        assert store.stop() == 0


def test_readers_that_never_read_are_disconnected_and_use_bounded_memory(store: StoreProcess) -> None:
    with Client(store.port) as client:
        for _ in range(8):
            client.send(b"large" * 20_000, "large")
    pull = PullHeader(
        consumer_group="stalled", topic="large", queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=4,
        commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
    )  # fmt: skip
    request = encode_request(RequestCode.PULL_MESSAGE, 1, pull)
    before, grown = resident_bytes(store.pid), 0
    with peers(store.port, 10) as stalled, Client(store.port) as healthy:
        closed: set[socket.socket] = set()
        flood = threading.Thread(target=write_until_closed, args=(stalled, request * 100, closed))
        flood.start()
        while flood.is_alive():
            began = time.monotonic()
            healthy.send(b"beside stalled readers")
            assert time.monotonic() - began < HEALTHY_SECONDS_MAX
            grown = max(grown, resident_bytes(store.pid) - before)
        flood.join()
    assert len(closed) == len(stalled), "the store disconnects each"
    assert grown < 10 * 8 * MIB + 64 * MIB, f"grew by {grown >> 20} MiB for ten peers of at most 4 MiB each"
    with Client(store.port) as client:
        client.send(b"after")


def write_until_closed(stalled: list[socket.socket], data: bytes, closed: set[socket.socket]) -> None:
    for peer in stalled:
        peer.setblocking(False)
    end = time.monotonic() + 90
    while len(closed) < len(stalled) and time.monotonic() < end:
        for peer in set(stalled) - closed:
            try:
                peer.send(data)
            except BlockingIOError:
                pass
            except OSError:
                closed.add(peer)
        time.sleep(0.01)


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
