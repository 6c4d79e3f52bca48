"""The real process on free ports, with real frames."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import ClassVar

import pytest
from sending_side import send_header

from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import PullHeader, PullReplyHeader, SendReplyHeader
from gantry_wire.records.message_record import scan_records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
READY = re.compile(r"ready address=[\d.]+:(\d+) http_port=(\d+)")
ROOT = Path(__file__).resolve().parents[3]
SOURCES = [
    ROOT / part
    for part in (
        "libs/wire/src",
        "libs/link/src",
        "libs/chassis/src",
        "libs/access/src",
        "libs/guard/src",
        "services/broker-store/src",
    )
]


class Store:
    """A store process in a directory."""

    def __init__(self, directory: Path, *settings: str) -> None:
        # The fast refusal after 200 ms would only measure the load of the machine.
        chosen = [f"store_dir={directory}", "port=0", "send_wait_ms_max=60000", *settings]
        arguments = [word for setting in chosen for word in ("--set", setting)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "broker_store", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.lines: list[str] = []
        for line in self.process.stderr:
            self.lines.append(line)
            if found := READY.search(line):
                self.port, self.http_port = int(found[1]), int(found[2])
                break
        else:
            raise AssertionError("".join(self.lines))
        self.drain = threading.Thread(target=self._drain)
        self.drain.start()

    def _drain(self) -> None:
        self.lines.extend(self.process.stderr)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)

    def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


class Client:
    """A blocking client that takes one answer at a time."""

    opened: ClassVar[list["Client"]] = []

    def __init__(self, port: int) -> None:
        self.opened.append(self)
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.decoder = FrameDecoder()
        self.answers = []

    def answer(self):
        while not self.answers:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("closed")
            self.answers += [decode_command(frame) for frame in self.decoder.receive(data)]
        return self.answers.pop(0)

    def ask(self, code, header=None, body=b"", opaque=1):
        self.socket.sendall(encode_request(code, opaque, header, body))
        return self.answer()

    def send(self, body: bytes, topic="orders", queue_id=0, **more):
        return self.ask(310, send_header(topic, queue_id, **more), body)

    def pull(self, offset: int, topic="orders", queue_id=0):
        header = PullHeader(
            consumer_group="TOOLS_CONSUMER", topic=topic, queue_id=queue_id, queue_offset=offset,
            max_msg_nums=32, sys_flag=4, subscription="*",
        )  # fmt: skip
        return self.ask(11, header)

    def all_bodies(self, topic="orders", queue_id=0):
        offset, bodies = 0, []
        while (answer := self.pull(offset, topic, queue_id)).code in (0, 20):
            bodies += [record.body for record in scan_records(answer.body)]
            offset = answer.read(PullReplyHeader).next_begin_offset
        return bodies


@pytest.fixture
def start(tmp_path):
    stores = []

    def start(*settings: str) -> Store:
        stores.append(Store(tmp_path / "store", *settings))
        return stores[-1]

    yield start
    for client in Client.opened:
        client.socket.close()
    Client.opened.clear()
    for store in stores:
        if store.process.poll() is None:
            store.kill()
        store.drain.join()
        store.process.stderr.close()


def test_a_message_sent_is_pulled_again(start):
    client = Client(start().port)
    answer = client.send(b"hello")
    assert answer.read(SendReplyHeader).durability == "fsync"
    assert client.all_bodies() == [b"hello"]


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_after_kill_9_under_load_every_acknowledged_message_is_found(start, flush):
    store = start(f"flush={flush}", "checkpoint_seconds=0.2")
    acknowledged: list[bytes] = []
    for round_number in range(3):
        threads = [
            threading.Thread(
                target=send_until_killed, args=(store.port, f"{round_number}-{number}", acknowledged)
            )
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        killer = threading.Timer(1.0, store.kill)
        killer.start()
        for thread in [*threads, killer]:
            thread.join()
        store = start(f"flush={flush}", "checkpoint_seconds=0.2")
    found = [body for queue_id in range(4) for body in Client(store.port).all_bodies(queue_id=queue_id)]
    assert len(acknowledged) > 300
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))


def send_until_killed(port: int, name: str, acknowledged: list[bytes]) -> None:
    client = Client(port)
    with contextlib.suppress(OSError):
        for number in range(1_000_000):
            body = f"{name}-{number}".encode()
            if client.send(body, queue_id=number % 4).code == 0:
                acknowledged.append(body)


def test_sigterm_stops_in_order_and_the_next_start_recovers_nothing(start):
    store = start()
    Client(store.port).send(b"kept")
    assert store.stop() == 0
    again = start()
    assert Client(again.port).all_bodies() == [b"kept"]
    assert not any("rebuilding" in line for line in again.lines)


def test_a_second_process_on_the_same_directory_is_refused_in_one_line(start, tmp_path):
    start()
    arguments = ["--set", f"store_dir={tmp_path / 'store'}", "--set", "port=0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    ran = subprocess.run(
        [sys.executable, "-m", "broker_store", *arguments, "--set", "log_level=error"],
        check=False, capture_output=True, text=True, env=environment, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "in use" in ran.stderr


def test_a_port_that_is_taken_is_refused_in_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        arguments = ["--set", f"store_dir={tmp_path / 'store'}", "--set", f"port={taken.getsockname()[1]}"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
        ran = subprocess.run(
            [sys.executable, "-m", "broker_store", *arguments, "--set", "log_level=error", "--set", "http_port=0"],
            check=False, capture_output=True, text=True, env=environment, timeout=120,
        )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1


def test_health_metrics_and_snapshots_answer_over_http(start):
    store = start()
    Client(store.port).send(b"x")
    assert store.get("/health/ready") == (200, b'{"ready":true,"reason":null}\n')
    assert store.get("/health/live")[0] == 200
    status, text = store.get("/metrics")
    assert status == 200
    assert (
        b"gantry_store_append_records_total 3.0" in text
    )  # the message, the record its segment begins with, and that of its topic
    status, body = store.get("/snapshots?ttlSeconds=60", "POST")
    assert status == 201
    manifest = json.loads(body)
    assert (Path(manifest["directory"]) / "commitlog").exists()
    assert store.get(f"/snapshots/{manifest['id']}", "DELETE")[0] == 204
    assert store.get(f"/snapshots/{manifest['id']}", "DELETE")[0] == 404
    assert store.get("/snapshots?ttlSeconds=0", "POST")[0] == 400


def three_free_ports() -> int:
    """Return a port whose neighbours two below and two above are free too."""
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        with (
            contextlib.suppress(OSError),
            socket.create_server(("127.0.0.1", port - 2)),
            socket.create_server(("127.0.0.1", port + 2)),
        ):
            return port
    raise AssertionError("no three free ports")


def test_the_fast_port_takes_sends_and_serves_no_pulls(start):
    port = three_free_ports()
    start(f"port={port}")
    fast = Client(port - 2)
    assert fast.send(b"quick").code == 0
    answer = fast.pull(0)
    assert answer.code == 3
    assert answer.remark == " request type 11 not supported"
    assert Client(port).all_bodies() == [b"quick"]
    config = Client(port).ask(26).body.decode().splitlines()
    assert {f"listenPort={port}", f"fastListenPort={port - 2}"} <= set(config)


def test_a_connection_of_the_fast_port_that_ends_ends_no_pull_of_the_main_port(start):
    port = three_free_ports()
    start(f"port={port}")
    sender, waiting = Client(port), Client(port)
    assert sender.send(b"first").code == 0
    held = PullHeader(
        consumer_group="TOOLS_CONSUMER", topic="orders", queue_id=0, queue_offset=1, max_msg_nums=32,
        sys_flag=6, suspend_timeout_millis=20_000, subscription="*",
    )  # fmt: skip
    waiting.socket.sendall(encode_request(11, 1, held))
    for _ in range(3):  # as many as the main port has, and more
        fast = Client(port - 2)
        assert fast.send(b"quick", queue_id=1).code == 0
        fast.socket.close()
    waiting.socket.settimeout(10)
    assert sender.send(b"second").code == 0
    assert [record.body for record in scan_records(waiting.answer().body)] == [b"second"]


def test_lost_queues_are_rebuilt_and_served_meanwhile_or_refused(start, tmp_path):
    store = start()
    client = Client(store.port)
    for number in range(50):
        client.send(b"%d" % number)
    assert store.stop() == 0
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    again = start()
    assert any("rebuilding" in line for line in again.lines)
    assert len(Client(again.port).all_bodies()) == 50


def test_settings_can_be_changed_while_it_runs(start):
    client = Client(start().port)
    assert client.ask(25, None, b"maxMessageSize=1024\nautoCreateTopicEnable=false\n").code == 0
    assert client.send(b"1" * 1025, "DefaultCluster").code == 13
    assert client.send(b"1", "unknown").code == 17
    assert client.ask(25, None, b"flushDiskType=ASYNC_FLUSH\n").code == 16


def test_the_printed_settings_are_the_current_ones(tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName = b7\nflushDiskType=ASYNC_FLUSH\nuseEpollNativeSelector=true\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    command = [sys.executable, "-m", "broker_store", "-c", str(conf), "-n", "ns:9876"]
    ran = subprocess.run(
        [*command, "-m"], check=False, capture_output=True, text=True, env=environment, timeout=120
    )
    assert "broker_name=b7\n" in ran.stdout
    assert "flush=async\n" in ran.stdout
    assert "nameservers=ns:9876\n" in ran.stdout
    every = subprocess.run(
        [*command, "-p"], check=False, capture_output=True, text=True, env=environment, timeout=120
    )
    assert len(every.stdout.splitlines()) > len(ran.stdout.splitlines())
