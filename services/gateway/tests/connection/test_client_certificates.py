"""Calls without `Authorization` over HTTPS connections with a client certificate, against the gateway's own server."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager

import httpx
import pytest
from gateway_fast_line import SEND, Line, ended
from gateway_guarded import SETTINGS, Access

from gantry_access.model.users import UserStatus
from gantry_chassis.certificates import ServerCertificate
from gantry_chassis.machine.environment import machine
from gantry_chassis.peers.budget import Budget
from gantry_chassis.settings.tls import TlsSettings
from gantry_link.serving.tls_door import TlsDoor
from gateway.connection.serving import HttpServer

pytestmark = pytest.mark.anyio
ONE = json.dumps({"messages": [{"body": "x"}]}).encode()
JSON = "content-type: application/json"
WHOAMI = "/v1/access:whoami"


@pytest.fixture
def access(anyio_backend):
    return Access(tls_users=True)


class Port:
    """A port of a gateway that asks for client certificates."""

    def __init__(self, folder, authority, gateway, server):
        self._folder, self._authority, self.gateway, self.server = folder, authority, gateway, server
        self.port = 0

    def trust(self, *names):
        """Return the TLS of a client that shows a certificate with these names; without names, none."""
        context = ssl.create_default_context(cadata=self._authority.certificate.decode())
        if names:
            pair = self._authority.issue(list(names), is_client=True)
            path = self._folder / "client.pem"
            path.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(path)
        return context

    async def call(self, *names, method="GET", path=WHOAMI, **parts):
        async with httpx.AsyncClient(verify=self.trust(*names)) as client:
            return await client.request(method, f"https://127.0.0.1:{self.port}{path}", **parts)

    @asynccontextmanager
    async def line(self, system, *names):
        """A connection that shows a certificate, with the counts of the fast path."""
        streams = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.trust(*names), server_hostname="localhost"
        )
        one = Line(system, self.gateway, self.server, self.port, *streams)
        try:
            yield one
        finally:
            await ended(one.writer)


@asynccontextmanager
async def port_of(system, access, folder, authority, **options):
    pair, clients = authority.issue(["127.0.0.1", "localhost"]), folder / "clients.pem"
    (folder / "server.pem").write_bytes(pair.certificate + pair.key)
    clients.write_bytes(authority.certificate)
    settings = TlsSettings(
        tls_cert_file=str(folder / "server.pem"), tls_client_ca_file=str(clients), tls_client_auth="optional"
    )
    gateway = system.gateway(access_parts=access.parts, **SETTINGS, **options)
    budget = Budget()
    http = HttpServer(gateway.app, gateway.fast_path, budget, drain_seconds=2)
    found = Port(folder, authority, gateway, http)
    door = TlsDoor(ServerCertificate(settings, machine().wall), budget)
    found.port = await http.start("127.0.0.1", 0, reuse_port=False, door=door)
    try:
        yield found
    finally:
        gateway.drain()
        await http.close()


def messages(system) -> int:
    return sum(len(queue) for queue in system.stores["broker-a"].queues.values())


async def test_the_certificate_names_the_caller(system, access, tmp_path, authority):
    basic = access.user("alice", "Allow Pub Topic:orders")
    access.user("bob")
    async with port_of(system, access, tmp_path, authority) as port:
        found = (await port.call("alice")).json()
        assert (found["user"], found["type"], found["way"]) == ("alice", "Normal", "certificate")
        question = {"resource": "Topic:orders", "actions": ["Pub"]}
        explained = await port.call("alice", method="POST", path="/v1/access:explain", json=question)
        assert (explained.json()["user"], explained.json()["allowed"]) == ("alice", True)
        sent = [
            (await port.call(*names, method="POST", path=SEND, json=json.loads(ONE))).status_code
            for names in (("alice",), ("bob",), ("mallory",), ())
        ]
        assert sent == [200, 403, 401, 401]
        by_alice = {"authorization": basic}
        assert (await port.call("bob", headers=by_alice)).json()["way"] == "secret"
        assert (await port.call("alice", headers={"authorization": "Bearer wrong"})).status_code == 401
    ways = [(asked.user, asked.way) for asked in access.audit.admitted]
    assert ways == [("alice", "certificate")] * 3 + [("alice", "secret")]
    refused = [(asked.user, asked.way, reason) for asked, reason in access.audit.denied]
    assert refused == [
        ("bob", "certificate", "no_match"), ("mallory", "", "unknown_certificate"), ("", "", "no_credentials"),
        ("", "", "wrong_token"),
    ]  # fmt: skip


async def test_a_disabled_or_ended_user_is_refused(system, access, tmp_path, authority):
    access.user("alice", "Allow Pub Topic:orders", status=UserStatus.DISABLE)
    access.user("bob", "Allow Pub Topic:orders", expires_ms=access.now_ms)
    async with port_of(system, access, tmp_path, authority) as port:
        for name in ("alice", "bob"):
            sent = await port.call(name, method="POST", path=SEND, json=json.loads(ONE))
            assert sent.status_code == 403
        assert messages(system) == 0


@pytest.mark.parametrize("first", [("alice",), ()])
async def test_the_same_head_on_another_connection_is_decided_by_that_ones_certificate(
    system, access, tmp_path, authority, first
):
    """Known heads are kept for all connections; a certificate is its connection's."""
    access.user("alice", "Allow Pub Topic:orders")
    expected = {("alice",): 200, ("bob",): 401, (): 401}
    async with port_of(system, access, tmp_path, authority) as port:
        for names in (first, (), ("alice",), ("bob",), (), ("alice",)):
            async with port.line(system, *names) as line:
                for _ in range(2):
                    status, headers, _body = await line.post(ONE, JSON)
                    assert status == expected[names], names
                    if ("connection", "close") in headers:
                        break
    assert messages(system) == 2 * (3 if first else 2)


@pytest.mark.parametrize("origins", ["", "*", "https://evil.example"])
async def test_a_page_of_another_origin_cannot_use_the_certificate_of_the_browser(
    system, access, tmp_path, authority, origins
):
    """Not even one that `cors_origins` lets call: it has no credentials of its own."""
    access.user("alice", "Allow Pub Topic:orders")
    async with port_of(system, access, tmp_path, authority, cors_origins=origins) as port:
        own = f"https://127.0.0.1:{port.port}"

        async def sent(**headers):
            answer = await port.call("alice", method="POST", path=SEND, json=json.loads(ONE), headers=headers)
            return answer.status_code

        refused = 401 if origins else 403
        assert await sent(origin="https://evil.example") == refused
        assert await sent(origin="https://evil.example", **{"sec-fetch-site": "cross-site"}) == refused
        assert await sent(origin="null") == (401 if origins == "*" else 403)
        assert messages(system) == 0
        assert await sent(origin=own, **{"sec-fetch-site": "same-origin"}) == 200
        assert messages(system) == 1
