"""A system with access control whose every port speaks TLS alone and demands a client certificate: signed clients, tokens, users by certificate.

The launcher asks for health with the certificate of the services. The server's certificate is renewed while the system runs.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

import gantrymq
from gantry_link.connections.client_tls import ClientTls, ClientTlsFiles
from gantry_link.connections.connection import connect

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(400)]
SERVICES = ("nameserver", "broker-store", "scheduler", "txn-checker", "gateway")
NO_PERMISSION, CREATE_USER = 16, 3001
ONLY_BY_SUPER_USERS = 1
"""RocketMQ's code for a Super user that a Normal one makes."""
PATIENT_SECONDS = 90
METRICS = {"gateway": "gateway", "broker-a": "gantry_store"}
"""Prefix of the metrics of a process."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ("asyncio", {"use_uvloop": True})


class Secured:
    """A running system with its certificates, its first user `root`, and what clients need."""

    def __init__(self, folder: Path, authority: Any) -> None:
        self.folder, self.authority = folder, authority
        self.state: dict[str, Any] = {}
        self.secrets: dict[str, str] = {}
        self.server = authority.issue(["localhost", "127.0.0.1"])
        self.write("ca.pem", authority.certificate)
        self.write("server.pem", self.server.certificate)
        self.write("server.key", self.server.key)

    def write(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return str(path)

    def client(self, name: str) -> str:
        """Return the file of a client certificate with this name, and its key."""
        path = self.folder / f"client-{name}.pem"
        if not path.exists():
            pair = self.authority.issue([name], is_client=True)
            self.write(path.name, pair.certificate + pair.key)
        return str(path)

    def options(self) -> list[str]:
        values = {
            "tls_mode": "enforcing",
            "tls_cert_file": self.folder / "server.pem",
            "tls_key_file": self.folder / "server.key",
            "tls_client_ca_file": self.folder / "ca.pem",
            "tls_client_auth": "require",
            "tls_users": "true",
            "tls_client": "true",
            "tls_ca_file": self.folder / "ca.pem",
            "tls_client_cert_file": self.client("gantry"),
        }
        return [
            word
            for service in SERVICES
            for name, value in values.items()
            for word in ("--set", f"{service}.{name}={value}")
        ]

    def remoting(self, certificate: str, user: str = "") -> dict[str, Any]:
        """The options of a client of the SDK that shows a certificate; it signs if a user is given."""
        signs = {"access_key": user, "secret_key": self.secrets[user]} if user else {}
        tls = {"tls_ca_file": str(self.folder / "ca.pem"), "tls_cert_file": self.client(certificate)}
        return {"nameservers": self.state["nameserver"], "tls": True, **tls, **signs}

    def context(self, certificate: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if certificate:
            context.load_cert_chain(self.client(certificate))
        return context

    def basic(self, user: str) -> str:
        return "Basic " + base64.b64encode(f"{user}:{self.secrets[user]}".encode()).decode()

    def call(
        self, path: str, certificate: str, authorization: str = "", body: object = None, method: str = ""
    ) -> tuple[int, Any]:
        headers = {"content-type": "application/json"}
        if authorization:
            headers["authorization"] = authorization
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.state['http'].replace('http:', 'https:')}{path}"
        request = urllib.request.Request(
            url, data, headers, method=method or ("GET" if body is None else "POST")
        )
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.context(certificate)) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def metric(self, process: str, name: str) -> float:
        at = self.state["http"] if process == "gateway" else self.state["brokers"][0]["http"]
        headers = {"authorization": self.basic("root")}
        request = urllib.request.Request(f"{at.replace('http:', 'https:')}/metrics", headers=headers)
        with urllib.request.urlopen(request, timeout=30, context=self.context("shop")) as answer:
            lines = answer.read().decode().splitlines()
        wanted = f"{METRICS[process]}_{name} "
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(wanted))

    def allow(self, user: str, *entries: tuple[str, str]) -> None:
        """Make a user with these rights (resource, action)."""
        root = self.basic("root")
        status, made = self.call("/v1/users", "shop", root, {"user": user})
        assert status in {200, 201}, made
        self.secrets[user] = made["secret"]
        custom = [{"resource": resource, "actions": [action]} for resource, action in entries]
        assert self.call(f"/v1/policies/{user}", "shop", root, {"custom": custom}, "PUT")[0] == 200


@pytest.fixture
def secured(
    tmp_path: Path, authority: Any, gantry: Any, new_system: Callable[..., dict[str, Any]]
) -> Secured:
    folder = tmp_path / "certs"
    folder.mkdir(mode=0o700)
    found = Secured(folder, authority)
    ran = gantry("access", "init", "--data", str(tmp_path / "system"), "--user", "root", "--json")
    assert ran.returncode == 0, ran.stderr
    made = json.loads(ran.stdout)
    found.secrets[made["user"]] = made["secret"]
    found.state = new_system(*found.options())
    found.allow("shop", ("Topic:orders", "Pub"), ("Topic:orders", "Sub"), ("Group:billing", "Sub"))
    found.allow("clerk", ("Cluster:DefaultCluster", "Update"))
    queues = {"readQueues": 2, "writeQueues": 2, "perm": "rw"}
    assert found.call("/v1/topics/orders", "shop", found.basic("root"), queues, "PUT")[0] == 200
    return found


async def send(body: bytes, options: dict[str, Any]) -> int:
    """Send one message. Return the code of the refusal; 0 for none, -1 without an answer."""
    try:
        async with gantrymq.Producer("shop", retries=0, **options) as producer:
            await producer.send(gantrymq.Message("orders", body), timeout=20)
    except gantrymq.GantryError as error:
        return error.code or -1
    return 0


async def consumed(secured: Secured, bodies: set[bytes]) -> set[bytes]:
    """Return what a push consumer that signs gets of these bodies."""
    seen: set[bytes] = set()
    consumer = gantrymq.PushConsumer(
        "billing",
        start=gantrymq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        **secured.remoting("gantry", "shop"),
    )
    consumer.subscribe("orders")

    @consumer.listener
    async def take(message: gantrymq.ReceivedMessage) -> None:
        seen.add(message.body)

    async with consumer, asyncio.timeout(PATIENT_SECONDS):
        while not bodies <= seen:
            await asyncio.sleep(0.02)
    return seen


def is_closed_in_clear(address: str, question: bytes) -> bool:
    host, _, port = address.rpartition("/")[2].rpartition(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.settimeout(30)
        try:
            connection.sendall(question)
            return connection.recv(1) == b""
        except ConnectionError:
            return True


async def changed(secured: Secured, certificate: str, user: str, kind: str) -> int:
    """Create a user over remoting (3001), unsigned; return the code of the answer."""
    files = ClientTlsFiles(str(secured.folder / "ca.pem"), secured.client(certificate))
    connection = await connect(
        secured.state["brokers"][0]["address"], tls=ClientTls(files, pytest.fail).context
    )
    body = json.dumps({"username": user, "password": "a long secret", "userType": kind}).encode()
    answer = await connection.request(CREATE_USER, {"username": user}, body, 30)
    connection.close()
    return answer.code


async def test_everything_on_at_once(secured: Secured) -> None:
    assert secured.state["accessControl"] == "on"
    # The signature decides, whatever the certificate names; without one the certificate does.
    assert await send(b"signed", secured.remoting("gantry", "shop")) == 0
    assert await send(b"certified", secured.remoting("shop")) == 0
    assert await send(b"x", secured.remoting("gantry")) == NO_PERMISSION
    assert await send(b"x", secured.remoting("clerk")) == NO_PERMISSION
    assert (
        await send(b"x", {**secured.remoting("shop"), "access_key": "shop", "secret_key": "wrong"})
        == NO_PERMISSION
    )

    def over_http() -> None:
        scope = [{"resource": "Topic:orders", "actions": ["Pub"]}]
        asked = {"user": "shop", "scope": scope, "expiresInSeconds": 3600}
        status, made = secured.call("/v1/tokens", "gantry", secured.basic("root"), asked)
        assert status in {200, 201}, made
        path, bearer = "/v1/topics/orders/messages", f"Bearer {made['token']}"
        assert secured.call(path, "gantry", bearer, {"messages": [{"body": "token"}]})[0] == 200
        assert secured.call(path, "shop", "", {"messages": [{"body": "https"}]})[0] == 200
        assert secured.call(path, "gantry", "", {"messages": [{"body": "x"}]})[0] == 401
        assert secured.call(path, "shop", "Bearer wrong", {"messages": [{"body": "x"}]})[0] == 401
        shown = secured.call("/v1/access:whoami", "shop")[1]
        assert (shown["user"], shown["way"]) == ("shop", "certificate")
        with pytest.raises(OSError, match=r"(?i)certificate|closed|reset|eof|broken pipe"):
            secured.call(path, "", bearer, {"messages": [{"body": "x"}]})

    await asyncio.to_thread(over_http)
    bodies = {b"signed", b"certified", b"token", b"https"}
    assert await consumed(secured, bodies) == bodies

    # Who changes users over remoting is the user of the certificate, with no more than its rights.
    assert await changed(secured, "clerk", "helper", "Normal") == 0
    assert await changed(secured, "clerk", "boss", "Super") == ONLY_BY_SUPER_USERS
    assert await changed(secured, "root", "boss", "Super") == 0
    assert await changed(secured, "shop", "other", "Normal") == NO_PERMISSION
    assert await changed(secured, "gantry", "other", "Normal") == NO_PERMISSION

    await asyncio.to_thread(check_clear, secured)
    await renew(secured)


def check_clear(secured: Secured) -> None:
    store = secured.state["brokers"][0]
    http = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
    for address in (secured.state["http"], store["http"]):
        assert is_closed_in_clear(address, http)
    for address in (secured.state["nameserver"], store["address"]):
        assert is_closed_in_clear(address, bytes.fromhex("0000000600000002") + b"{}")


async def renew(secured: Secured) -> None:
    """Renew the server's certificate with its key, and the certificate that services show: open connections stay, new ones get the new one."""
    async with gantrymq.Producer("open", **secured.remoting("gantry", "shop")) as producer:
        await producer.send(gantrymq.Message("orders", b"before"))
        renewed = secured.authority.issue(["localhost", "127.0.0.1"], key=secured.server.key)
        secured.write("server.pem", renewed.certificate)
        shown = secured.authority.issue(["gantry"], is_client=True)
        secured.write("client-gantry.pem", shown.certificate + shown.key)
        begin = time.monotonic()
        while any([await asyncio.to_thread(secured.metric, one, "tls_reloads_total") < 1 for one in METRICS]):
            assert time.monotonic() - begin < PATIENT_SECONDS
            await asyncio.sleep(0.1)
        await producer.send(gantrymq.Message("orders", b"after"))
    assert await send(b"again", secured.remoting("gantry", "shop")) == 0
    serial = x509.load_pem_x509_certificate(renewed.certificate).serial_number
    assert await asyncio.to_thread(serial_of, secured) == serial
    assert await asyncio.to_thread(secured.metric, "broker-a", "tls_reload_failures_total") == 0


def serial_of(secured: Secured) -> int:
    host, _, port = secured.state["brokers"][0]["address"].rpartition(":")
    with (
        socket.create_connection((host, int(port)), 30) as connection,
        secured.context("shop").wrap_socket(connection, server_hostname="localhost") as secure,
    ):
        found = secure.getpeercert(binary_form=True)
    assert found is not None
    return x509.load_der_x509_certificate(found).serial_number
