"""Hints over a real NATS server: sent while it is up, dropped while it is down, and reconnected without help."""

import asyncio
import contextlib
import gc
import random
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gantry_chassis import nats_hints
from gantry_chassis.nats_connection import servers_of
from gantry_chassis.nats_hints import Hints

SERVER = Path(sys.executable).parent / "nats-server"


@pytest.fixture
def port() -> Iterator[int]:
    """A port that no other process gets during the test: it is bound, and a server that reuses addresses may listen."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


@contextlib.contextmanager
def nats_server(port: int, *more: str):
    words = [str(SERVER), "-a", "127.0.0.1", "-p", str(port), "-l", "/dev/null", *more]
    process = subprocess.Popen(words)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def running(*hints: Hints) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(one.run()) for one in hints]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition) -> None:
    async with asyncio.timeout(90):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_hint_reaches_its_subscribers_and_duplicates_of_a_turn_are_merged(port: int) -> None:
    async def scenario() -> None:
        got: list[tuple[str, bytes]] = []
        sender, receiver = (
            Hints(f"nats://127.0.0.1:{port}", "a", random.Random(1)),
            Hints(f"nats://127.0.0.1:{port}", "b", random.Random(1)),
        )
        receiver.subscribe("gantry.route.*", lambda subject, payload: got.append((subject, payload)))
        with nats_server(port):
            async with running(sender, receiver):
                async with asyncio.timeout(90):
                    while not got:  # until the server knows the subscription
                        sender.publish("gantry.route.probe", b"")
                        await asyncio.sleep(0.02)
                before = sender.sent
                for _ in range(3):
                    sender.publish("gantry.route.orders", b"1")
                sender.publish("gantry.data", b"nobody listens")
                sender.publish("gantry.route.last", b"")
                await until(lambda: sender.sent == before + 3)
                await until(lambda: got[-1][0] == "gantry.route.last")
        assert got[got.index(("gantry.route.orders", b"1")) :] == [
            ("gantry.route.orders", b"1"),
            ("gantry.route.last", b""),
        ]

    asyncio.run(scenario())


def test_hints_continue_at_another_server_when_theirs_is_gone(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the first one of the list never answers: a list must not be its first server."""
    monkeypatch.setattr(nats_hints, "RECONNECT_SECONDS", 0.05)

    async def scenario() -> None:
        with socket.socket() as nobody, socket.socket() as other:
            for held in (nobody, other):
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held.bind(("127.0.0.1", 0))
            gone, second = (int(held.getsockname()[1]) for held in (nobody, other))
            urls = ", ".join(f"nats://127.0.0.1:{one}" for one in (gone, port, second))
            hints = Hints(urls, "a", random.Random(1))
            async with running(hints):
                with nats_server(port):
                    await until(lambda: hints.is_connected)
                await until(lambda: not hints.is_connected)
                with nats_server(second):
                    await until(lambda: hints.is_connected)

    asyncio.run(scenario())


def test_hints_leave_a_server_that_accepts_and_says_nothing(port: int) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            urls = f"nats://127.0.0.1:{silent.getsockname()[1]},nats://127.0.0.1:{port}"
            hints = Hints(urls, "a", random.Random(1))
            with nats_server(port):
                async with running(hints):
                    await until(lambda: hints.is_connected)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("urls", "servers"),
    [
        ("", ()),
        (" , ", ()),
        ("nats://a:1", ("nats://a:1",)),
        ("nats://a:1, nats://b:2 ,nats://c:3,", ("nats://a:1", "nats://b:2", "nats://c:3")),
    ],
)
def test_commas_separate_the_servers_of_a_setting(urls: str, servers: tuple[str, ...]) -> None:
    assert servers_of(urls) == servers


def test_hints_pass_over_tls_and_need_a_trusted_server(port: int, tmp_path: Path, authority: Any) -> None:
    pair = authority.issue(["127.0.0.1"])
    (tmp_path / "server.pem").write_bytes(pair.certificate)
    (tmp_path / "server.key").write_bytes(pair.key)
    trusting = ssl.create_default_context(cadata=authority.certificate.decode())
    more = ("--tls", "--tlscert", str(tmp_path / "server.pem"), "--tlskey", str(tmp_path / "server.key"))

    async def scenario() -> None:
        url, rng = f"tls://127.0.0.1:{port}", random.Random(1)
        got: list[str] = []
        ours = Hints(url, "ours", rng, tls=lambda: trusting)
        stranger = Hints(url, "stranger", rng, tls=ssl.create_default_context)
        ours.subscribe("gantry.route.*", lambda subject, _payload: got.append(subject))
        with nats_server(port, *more):
            async with running(ours, stranger):
                async with asyncio.timeout(90):
                    while not got:
                        ours.publish("gantry.route.x")
                        await asyncio.sleep(0.02)
                await asyncio.sleep(1.0)
                assert not stranger.is_connected

    asyncio.run(scenario())


def test_a_url_of_tls_sends_no_token_to_a_server_without_tls(port: int, tmp_path: Path) -> None:
    """Who stands between answers in clear, and would read the token."""
    (tmp_path / "token").write_text("s3cret-token")
    info = (
        b'INFO {"server_id":"x","version":"2.10.0","proto":1,"max_payload":1048576,"auth_required":true}\r\n'
    )
    tried: list[bytes] = []

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(info)
        tried.append(await reader.read())
        writer.close()

    async def scenario() -> None:
        hints = Hints(
            f"tls://127.0.0.1:{port}",
            "a",
            random.Random(1),
            str(tmp_path / "token"),
            ssl.create_default_context,
        )
        async with await asyncio.start_server(between, "127.0.0.1", port, reuse_address=True), running(hints):
            await until(lambda: tried)
        assert tried[0] == b""
        with nats_server(port):
            async with running(hints):
                await asyncio.sleep(1.0)
                assert not hints.is_connected

    asyncio.run(scenario())


# The driver leaves a socket to the garbage collector if it is cancelled while it connects.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("turns", range(1, 40))
def test_a_cancellation_in_any_turn_of_a_refused_connection_ends_the_hints(turns: int) -> None:
    """The driver may lose a cancellation that comes in the turn of an answer."""
    info = b'INFO {"server_id":"x","version":"2.10.0","proto":1,"max_payload":1048576}\r\n'

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(info)
            await reader.read()
        finally:
            writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
            url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            running = asyncio.ensure_future(
                Hints(url, "a", random.Random(1), tls=ssl.create_default_context).run()
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait([running], timeout=5)
            assert running.cancelled()

    asyncio.run(scenario())
    gc.collect()  # here its warning is ignored


def test_without_a_server_hints_are_dropped_and_nothing_raises(port: int) -> None:
    async def scenario() -> None:
        hints = Hints(f"nats://127.0.0.1:{port}", "a", random.Random(1))
        async with running(hints):
            await asyncio.sleep(0.05)
            hints.publish("gantry.data", b"x")
            await asyncio.sleep(0.05)
        assert (hints.sent, hints.dropped, hints.is_connected) == (0, 1, False)

    asyncio.run(scenario())


def test_no_address_means_no_hints() -> None:
    async def scenario() -> None:
        hints = Hints("", "a", random.Random(1))
        await hints.run()
        hints.publish("gantry.data", b"x")
        assert hints.dropped == 1

    asyncio.run(scenario())


def test_it_recovers_when_the_server_starts_late_or_returns(port: int) -> None:
    async def scenario() -> None:
        got: list[bytes] = []
        hints = Hints(f"nats://127.0.0.1:{port}", "a", random.Random(1))
        hints.subscribe("gantry.data", lambda _subject, payload: got.append(payload))

        async def arrives(payload: bytes) -> None:
            async with asyncio.timeout(90):
                while payload not in got:
                    hints.publish("gantry.data", payload)
                    await asyncio.sleep(0.02)

        async with running(hints):
            await asyncio.sleep(0.1)
            with nats_server(port):
                await arrives(b"came late")
            await until(lambda: not hints.is_connected)
            with nats_server(port):
                await arrives(b"came back")

    asyncio.run(scenario())


def test_it_recovers_after_the_server_refused_a_connection_with_an_error() -> None:
    """A client that gets `-ERR` closes for good, so another one must replace it."""

    async def scenario() -> None:
        greeted = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal greeted
            writer.write(b'INFO {"server_id":"x","version":"2.10.0","max_payload":1048576}\r\n')
            while line := await reader.readline():
                if line == b"PING\r\n":
                    writer.write(b"PONG\r\n")
                    greeted += 1
                    if greeted == 1:
                        writer.write(b"-ERR 'maximum connections exceeded'\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        hints = Hints(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", "a", random.Random(1))
        hints.subscribe("gantry.data", lambda _subject, _payload: None)
        async with running(hints):
            await until(lambda: greeted > 1 and hints.is_connected)
        server.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("refusal", [b"-ERR 'Authorization Violation'\r\n", b""], ids=["an answer", "an end"])
def test_each_connection_uses_the_token_that_the_file_holds_now(
    refusal: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a connection: NATS may come back with another token. A refusal may be lost with its connection."""
    monkeypatch.setattr(nats_hints, "RECONNECT_SECONDS", 0.05)
    right = "first"
    refused = 0
    served = list[asyncio.StreamWriter]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal refused
        writer.write(
            b'INFO {"server_id":"x","version":"2.10.0","max_payload":1048576,"auth_required":true}\r\n'
        )
        while line := await reader.readline():
            if line.startswith(b"CONNECT") and f'"auth_token":"{right}"' not in line.decode().replace(
                " ", ""
            ):
                refused += 1
                writer.write(refusal)
                break
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
                served.append(writer)
        writer.close()

    async def scenario() -> None:
        nonlocal right
        token = tmp_path / "token"
        token.write_text(right)
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        hints = Hints(url, "a", random.Random(1), str(token))
        async with running(hints):
            await until(lambda: hints.is_connected)
            right = "second"
            served[-1].close()
            await until(lambda: refused > 2)
            assert not hints.is_connected
            token.write_text(right)
            await until(lambda: hints.is_connected)
        server.close()

    asyncio.run(scenario())


NASTY_SUBJECTS = [
    b"gantry.route.\xff\xfe",
    b"gantry.route." + b"x" * 3000,
    b"gantry.route.\xc3",
    b"gantry.route.\x01",
]


@pytest.mark.parametrize("subject", NASTY_SUBJECTS, ids=repr)
@pytest.mark.parametrize("payload", [b"", b"\xff" * 3, b"x" * 1_000_000], ids=len)
def test_hints_continue_after_any_subject_and_payload(
    subject: bytes, payload: bytes, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_hints, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(nats_hints, "ANSWER_SECONDS_MAX", 0.3)
    monkeypatch.setattr(nats_hints, "RECONNECT_SECONDS", 0.1)

    async def scenario() -> None:
        got = list[str]()
        hints, sender = (
            Hints(f"nats://127.0.0.1:{port}", "a", random.Random(1)),
            Hints(f"nats://127.0.0.1:{port}", "b", random.Random(1)),
        )
        hints.subscribe("gantry.route.*", lambda subject, _payload: got.append(subject))
        with nats_server(port):
            async with running(hints, sender):
                await until(lambda: hints.is_connected and sender.is_connected)
                await asyncio.sleep(0.1)
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"CONNECT {}\r\nPUB %b %d\r\n%b\r\n" % (subject, len(payload), payload))
                await writer.drain()
                await asyncio.sleep(0.1)
                async with asyncio.timeout(60):
                    while "gantry.route.orders" not in got:
                        sender.publish("gantry.route.orders")
                        await asyncio.sleep(0.02)
                writer.close()

    asyncio.run(scenario())


def test_hints_use_the_token_from_a_file(port: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "nats.conf").write_text('authorization { token: "s3cret" }')
        (tmp_path / "token").write_text("s3cret\n")
        url = f"nats://127.0.0.1:{port}"
        knows, does_not = (
            Hints(url, "a", random.Random(1), str(tmp_path / "token")),
            Hints(url, "b", random.Random(1)),
        )
        with nats_server(port, "-c", str(tmp_path / "nats.conf")):
            async with running(knows, does_not):
                await until(lambda: knows.is_connected)
                await asyncio.sleep(0.5)
                assert not does_not.is_connected

    asyncio.run(scenario())


@pytest.mark.parametrize("content", ["guess", None])
def test_a_bad_token_is_logged_once_and_the_right_one_works_without_a_restart(
    port: int, tmp_path: Path, content: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_hints, "RECONNECT_SECONDS", 0.1)

    async def scenario() -> None:
        token = tmp_path / "token"
        (tmp_path / "nats.conf").write_text('authorization { token: "s3cret" }')
        if content is not None:
            token.write_text(content)
        hints = Hints(f"nats://127.0.0.1:{port}", "a", random.Random(1), str(token))
        with nats_server(port, "-c", str(tmp_path / "nats.conf")):
            async with running(hints):
                await until(lambda: warnings)
                await asyncio.sleep(1)  # several attempts
                assert not hints.is_connected
                token.write_text("s3cret")
                await until(lambda: hints.is_connected)

    warnings: list[dict[str, str]] = []
    monkeypatch.setattr(
        nats_hints._log, "warning", lambda event, **more: warnings.append({"event": event, **more})
    )
    asyncio.run(scenario())
    assert [warning["event"] for warning in warnings] == ["no hints, only slow polls"]
    assert ("refused the token" if content else "cannot read nats_token_file") in warnings[0]["why"]
    assert "s3cret" not in str(warnings)
    assert "guess" not in str(warnings)
