"""TLS options of every client: over remoting and HTTP, asyncio and blocking, from arguments and from the environment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import gantrymq
import gantrymq.http
from gantry_link.connections.connection import connect
from gantry_link.serving.budget import NoBudget
from gantry_link.serving.server import RemotingServer
from gantry_link.serving.tls_door import TlsDoor
from gantrymq.cli.calls import base_of
from gantrymq.cli.main import main
from gantrymq.http import blocking
from gantrymq.http.settings import HttpSettings
from gantrymq.settings import client_settings
from gantrymq.tls import VARIABLES, check_tls

pytestmark = pytest.mark.anyio
NAMESERVER = "127.0.0.1:9876"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def files(tmp_path: Path, authority: Any) -> Path:
    """Write ca.pem, server.pem and client.pem (with their keys)."""
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    server = authority.issue(["127.0.0.1", "localhost"])
    client = authority.issue(["orders"], is_client=True)
    (tmp_path / "server.pem").write_bytes(server.certificate + server.key)
    (tmp_path / "client.pem").write_bytes(client.certificate)
    (tmp_path / "client.key").write_bytes(client.key)
    return tmp_path


def server_context(files: Path, *, needs: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "server.pem")
    if needs:
        context.load_verify_locations(files / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Empty(BaseHTTPRequestHandler):
    """Answers calls with empty lists, and with a topic `orders` that is deleted when its messages are read: these tests are about the connection. A whole system over TLS is in tests/cluster."""

    def do_GET(self) -> None:
        body = b'{"topics":[],"brokers":[],"missing":[]}'
        if self.path.startswith("/v1/topics/orders/queues/"):  # of `tail -f`
            body = b'{"code":"TOPIC_NOT_EXIST","detail":"topic orders does not exist"}'
        elif self.path == "/v1/topics/orders":
            body = b'{"brokers":[],"missing":[],"queues":[{"broker":"broker-a","queueId":0,"minOffset":0,"maxOffset":0}]}'
        is_problem = b"TOPIC_NOT" in body
        self.send_response(404 if is_problem else 200)
        self.send_header("content-type", "application/problem+json" if is_problem else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(files: Path, host: str) -> Iterator[str]:
    """Serve over TLS, for clients with a certificate of ours. Yields the address."""
    server = ThreadingHTTPServer((host, 0), Empty)
    server.socket = server_context(files, needs=True).wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] - refused clients
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def https(files: Path) -> Iterator[str]:
    with serving(files, "127.0.0.1") as address:
        yield address


def test_options_come_from_the_environment_unless_given(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not client_settings({"nameservers": NAMESERVER}).tls
    monkeypatch.setenv("GANTRY_TLS", "1")
    monkeypatch.setenv("GANTRY_TLS_CA_FILE", str(files / "ca.pem"))
    monkeypatch.setenv("GANTRY_TLS_VERIFY_NAME", "off")
    found = client_settings({"nameservers": NAMESERVER})
    assert (found.tls, found.tls_ca_file, found.tls_verify_name) == (True, str(files / "ca.pem"), False)
    given = client_settings({"nameservers": NAMESERVER, "tls": False, "tls_verify_name": True})
    assert (given.tls, given.tls_verify_name) == (False, True)
    over_http = gantrymq.http.Producer(http="https://127.0.0.1:1")
    assert over_http.settings.tls_ca_file == str(files / "ca.pem")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tls": True, "tls_ca_file": "/none.pem"}, "tls: cannot read the authorities in /none.pem"),
        ({"tls": True, "tls_key_file": "/k"}, "tls_key_file: the key of a certificate"),
        ({"tls": True, "tls_cert_file": "/none.pem"}, "tls: cannot use the client certificate in /none.pem"),
    ],
)
def test_files_that_cannot_be_used_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(gantrymq.ConfigurationError, match=words):
        client_settings({"nameservers": NAMESERVER, **options})  # type: ignore[typeddict-item]
    over_http = {name: value for name, value in options.items() if name != "tls"}
    with pytest.raises(gantrymq.ConfigurationError, match=words):
        HttpSettings(http="https://127.0.0.1:1", **over_http)
    HttpSettings(http="http://127.0.0.1:1", **over_http)  # they are for https


def test_a_switch_is_on_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_TLS", "perhaps")
    with pytest.raises(gantrymq.ConfigurationError, match="GANTRY_TLS: 'perhaps' is neither 1 nor 0"):
        client_settings({"nameservers": NAMESERVER})


class Certificate:
    """A server's, for clients that show theirs."""

    is_plain_allowed = False

    def __init__(self, files: Path) -> None:
        self._context = server_context(files, needs=True)

    def context(self, _protocols: tuple[str, ...]) -> ssl.SSLContext:
        return self._context


async def test_remoting_clients_show_their_certificate(files: Path) -> None:
    seen: list[str] = []
    server = RemotingServer(
        lambda _peer, _frame: None, on_connect=lambda peer: seen.append(peer.attributes["certificate"])
    )
    port = await server.listen("127.0.0.1", 0, TlsDoor(Certificate(files), NoBudget()))
    settings = client_settings(
        {
            "nameservers": NAMESERVER,
            "tls": True,
            "tls_ca_file": str(files / "ca.pem"),
            "tls_cert_file": str(files / "client.pem"),
            "tls_key_file": str(files / "client.key"),
        }
    )
    connection = await connect(f"localhost:{port}", tls=check_tls(settings.tls_files))
    async with asyncio.timeout(60):
        while not seen:
            await asyncio.sleep(0.01)
    assert seen == ["orders"]
    connection.close()
    await server.close()


async def test_http_clients_show_their_certificate_and_verify_the_server(files: Path, https: str) -> None:
    options = {
        "tls_ca_file": str(files / "ca.pem"),
        "tls_cert_file": str(files / "client.pem"),
        "tls_key_file": str(files / "client.key"),
    }
    async with gantrymq.http.Producer(http=https, **options) as producer:
        assert await producer.queues("orders") == []
    for wrong in ({"tls_ca_file": options["tls_ca_file"]}, {}):
        async with gantrymq.http.Producer(http=https, retries=0, **wrong) as producer:
            with pytest.raises(gantrymq.ConnectionFailed):
                await producer.queues("orders")


@contextlib.contextmanager
def breaking_tls(files: Path) -> Iterator[str]:
    """Serve handshakes, and answer the first request of each connection with bytes that are not TLS. Yields the address."""
    context = server_context(files)

    def answer(taken: socket.socket) -> None:
        with contextlib.closing(context.wrap_socket(taken, server_side=True)) as secure:
            secure.recv(65536)
            os.write(secure.fileno(), b"HTTP/1.1 200 OK\r\n\r\n")

    def serve() -> None:
        while True:
            taken, _ = listening.accept()
            if is_over.is_set():
                taken.close()
                return
            answer(taken)

    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            is_over.set()
            socket.create_connection(listening.getsockname()).close()
            thread.join()


async def test_tls_that_breaks_after_the_handshake_is_a_failed_connection(files: Path) -> None:
    with breaking_tls(files) as address:
        async with gantrymq.http.Producer(
            http=address, retries=0, tls_ca_file=str(files / "ca.pem")
        ) as producer:
            with pytest.raises(gantrymq.ConnectionFailed) as failed:
                await producer.queues("orders")
    assert failed.value.sent


async def test_an_address_in_capitals_is_verified_too(files: Path, https: str) -> None:
    options = {
        "tls_ca_file": str(files / "ca.pem"),
        "tls_cert_file": str(files / "client.pem"),
        "tls_key_file": str(files / "client.key"),
    }
    capitals = https.replace("https", "HTTPS")
    async with gantrymq.http.Producer(http=capitals, **options) as producer:
        assert await producer.queues("orders") == []
    assert HttpSettings(http="HTTPS://127.0.0.1:1/").http == "https://127.0.0.1:1"
    with pytest.raises(gantrymq.ConfigurationError, match="/none"):
        HttpSettings(http="HTTPS://127.0.0.1:1", tls_ca_file="/none.pem")
    assert base_of("HTTPS://127.0.0.1:1/") == "https://127.0.0.1:1"


def test_blocking_http_clients_take_the_same_options(files: Path, https: str) -> None:
    options = {
        "tls_ca_file": str(files / "ca.pem"),
        "tls_cert_file": str(files / "client.pem"),
        "tls_key_file": str(files / "client.key"),
    }
    with blocking.Producer(http=https, **options) as producer:
        assert producer.queues("orders") == []


def test_the_command_line_takes_the_files(
    files: Path, https: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ca, cert, key = (str(files / name) for name in ("ca.pem", "client.pem", "client.key"))
    words = ["topic", "list", "--json", "--http", https]
    assert main([*words, "--ca-file", ca, "--cert-file", cert, "--key-file", key]) == 0
    capsys.readouterr()
    assert main([*words, "--ca-file", ca]) == 4
    assert main(words) == 4
    assert "no secure connection" in capsys.readouterr().err
    assert main([*words, "--ca-file", "/none.pem"]) == 2
    assert "cannot read the authorities in /none.pem" in capsys.readouterr().err


def test_tail_takes_the_files(files: Path, https: str, capsys: pytest.CaptureFixture[str]) -> None:
    ca, cert, key = (str(files / name) for name in ("ca.pem", "client.pem", "client.key"))
    words = ["tail", "orders", "-f", "--last", "0", "--http", https]
    assert main([*words, "--ca-file", ca, "--cert-file", cert, "--key-file", key]) == 3
    assert "topic orders does not exist" in capsys.readouterr().err


def test_the_command_line_verifies_names_unless_the_environment_says_no(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, cert, key = (str(files / name) for name in ("ca.pem", "client.pem", "client.key"))
    with serving(files, "127.0.0.2") as address:  # the certificate names 127.0.0.1
        words = ["topic", "list", "--json", "--http", address]
        words += ["--ca-file", ca, "--cert-file", cert, "--key-file", key]
        assert main(words) == 4
        monkeypatch.setenv("GANTRY_TLS_VERIFY_NAME", "0")
        assert main(words) == 0
