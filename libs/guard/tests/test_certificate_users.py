"""Whose request it is that comes over a connection with a verified client certificate: real TLS on a remoting and on an HTTP port."""

import asyncio
import ssl
import time
from contextlib import asynccontextmanager

import httpx
import pytest
from guarded import NOW_MS, Guarded, introducer_of, policy, signed, table, user
from test_http_door import made

from gantry_access.entries.contents import policies_entry
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import Subject, UserStatus, UserType
from gantry_chassis.certificates import ServerCertificate
from gantry_chassis.http.server import HttpServer, Response
from gantry_chassis.peers.budget import Budget
from gantry_chassis.settings.tls import TlsSettings
from gantry_guard.failures import FREE_FAILURES
from gantry_link.connections.client_tls import ClientTls, ClientTlsFiles
from gantry_link.connections.connection import connect
from gantry_link.connections.pool import ConnectionPool
from gantry_link.serving.server import RemotingServer
from gantry_link.serving.tls_door import TlsDoor

pytestmark = pytest.mark.anyio
SEND = {"a": "pg", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}  # fmt: skip
MAY_SEND = "Allow Pub Topic:orders"
MISSING, WRONG = "username cannot be null.", "check signature failed."
CLAIM_HOLDER = 9005
"""A request that only Gantry's own services send."""


class Certificates:
    """A server's certificate that asks for client certificates, and clients with and without one."""

    def __init__(self, folder, authority):
        self._folder, self._authority = folder, authority
        self._ca = self._write("ca.pem", authority.certificate)
        server = authority.issue(["127.0.0.1", "localhost"])
        pair = self._write("server.pem", server.certificate + server.key)
        settings = TlsSettings(tls_cert_file=pair, tls_client_ca_file=self._ca, tls_client_auth="optional")
        self.server = ServerCertificate(settings, time.time)

    def _write(self, name, content):
        path = self._folder / name
        path.write_bytes(content)
        return str(path)

    def client(self, *names):
        """Return the file of a client certificate with these names, and its key."""
        pair = self._authority.issue(list(names), is_client=True)
        return self._write(f"client-{len(list(self._folder.iterdir()))}.pem", pair.certificate + pair.key)

    def remoting(self, *names):
        """Return the TLS of a remoting client that shows a certificate with these names; without names, none."""
        shown = self.client(*names) if names else ""
        return ClientTls(ClientTlsFiles(self._ca, shown), pytest.fail).context

    def http(self, *names):
        """Return the TLS of an HTTP client."""
        context = ssl.create_default_context(cafile=self._ca)
        if names:
            context.load_cert_chain(self.client(*names))
        return context


@pytest.fixture
def certificates(tmp_path, authority):
    return Certificates(tmp_path, authority)


@asynccontextmanager
async def serving_tls(guarded, certificates):
    server = RemotingServer(guarded.receive)
    door = TlsDoor(certificates.server, server.budget)
    port = await server.listen("127.0.0.1", 0, door)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.close()


@asynccontextmanager
async def connected(guarded, certificates, *names):
    async with serving_tls(guarded, certificates) as address:
        connection = await connect(address, tls=certificates.remoting(*names))
        try:
            yield connection
        finally:
            connection.close()


async def said(connection, code=310, fields=SEND, body=b""):
    answer = await connection.request(code, fields, body)
    return answer.code, answer.remark


def of_two(*policies, alice=None):
    """The table of alice, who has these policies, and of bob, who may send to `bills`."""
    found = table(*policies, users=[alice or user(), user("bob", "the secret of bob")])
    entries = (policy("Allow Pub Topic:bills"),)
    found.take([policies_entry(SubjectPolicies(Subject("bob"), entries), 1)])
    return found


async def test_an_unsigned_request_is_of_the_user_that_the_certificate_names(certificates, tmp_path):
    guarded = Guarded(table(MAY_SEND), tls_users=True, file=tmp_path / "audit")
    async with connected(guarded, certificates, "alice") as connection:
        assert await said(connection) == (0, None)
        refused = await said(connection, fields={**SEND, "b": "payroll"})
        assert refused[0] == 16
        assert "User:alice has no permission to access Topic:payroll" in refused[1]
    guarded.audit.close()
    lines = (tmp_path / "audit").read_text().splitlines()
    assert len(lines) == 2
    assert all('"user":"alice","way":"certificate"' in line for line in lines)


async def test_a_uri_in_the_certificate_is_taken_whole_and_goes_before_a_dns_name(certificates):
    name = "spiffe://shop.example/ns/orders/sa/web"
    found = table(users=[user(name), user("alice")])
    found.take([policies_entry(SubjectPolicies(Subject(name), (policy(MAY_SEND),)), 1)])
    guarded = Guarded(found, tls_users=True)
    async with connected(guarded, certificates, "alice", name) as connection:
        assert await said(connection) == (0, None)
    async with connected(guarded, certificates, "alice") as connection:
        assert "User:alice has no permission" in (await said(connection))[1]


@pytest.mark.parametrize("names", [(), ("mallory",), ("Alice",), ("alice ",), ("*",), ("127.0.0.1",)])
async def test_without_the_certificate_of_a_user_a_request_needs_a_signature(certificates, names):
    guarded = Guarded(table(MAY_SEND), tls_users=True)
    async with connected(guarded, certificates, *names) as connection:
        assert await said(connection) == (16, MISSING)
        assert await said(connection, fields=signed(SEND)) == (0, None)
    reason = "unknown_certificate" if names and names != ("127.0.0.1",) else "no_user"
    assert guarded.counts() == {reason: 1, "allowed": 1}


async def test_while_the_setting_is_off_a_certificate_proves_no_user(certificates):
    guarded = Guarded(table(MAY_SEND))
    async with connected(guarded, certificates, "alice") as connection:
        assert await said(connection) == (16, MISSING)
    assert guarded.counts() == {"no_user": 1}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"status": UserStatus.DISABLE}, "user_disabled"),
        ({"expires_ms": NOW_MS}, "user_expired"),
        ({"status": UserStatus.DISABLE, "type": UserType.SUPER}, "user_disabled"),
    ],
)
async def test_a_disabled_or_expired_user_is_refused(certificates, parts, reason):
    guarded = Guarded(table(MAY_SEND, users=[user(**parts)]), tls_users=True)
    async with connected(guarded, certificates, "alice") as connection:
        assert (await said(connection))[0] == 16
    assert guarded.counts() == {reason: 1}
    assert guarded.handled == []


async def test_a_signature_decides_alone(certificates):
    """The certificate gives a signed request nothing: neither its user's rights, nor a way around a wrong signature."""
    guarded = Guarded(of_two(MAY_SEND), tls_users=True)
    bills = {**SEND, "b": "bills"}
    by_bob = {"name": "bob", "secret": "the secret of bob"}
    async with connected(guarded, certificates, "alice") as connection:
        assert await said(connection, fields=signed(bills, **by_bob)) == (0, None)
        assert "User:bob has no permission" in (await said(connection, fields=signed(SEND, **by_bob)))[1]
        unsigned_parts = [
            signed(SEND, secret="another"),
            signed(SEND, name="mallory"),
            {**SEND, "AccessKey": "alice"},
        ]
        for fields in unsigned_parts:
            assert await said(connection, fields=fields) == (16, WRONG)
        for fields in ({**SEND, "AccessKey": ""}, {**SEND, "Signature": signed(SEND)["Signature"]}):
            assert await said(connection, fields=fields) == (16, MISSING)
        assert await said(connection) == (0, None)


async def test_a_super_user_by_certificate_is_none_of_gantrys_own_services(certificates):
    guarded = Guarded(table(users=[user(type=UserType.SUPER)]), tls_users=True)
    async with connected(guarded, certificates, "alice") as connection:
        assert await said(connection) == (0, None), "the entry says so"
        assert (await said(connection, CLAIM_HOLDER, {}))[0] == 16
    assert guarded.counts() == {"super_user": 1, "not_inner": 1}


async def test_an_introduced_service_stays_one_whatever_its_certificate_names(certificates):
    guarded = Guarded(table(users=[user(status=UserStatus.DISABLE)]), tls_users=True)
    async with serving_tls(guarded, certificates) as address:
        pool = ConnectionPool(introduce=introducer_of(), tls=certificates.remoting("alice"))
        connection = await pool.get(address)
        assert await said(connection, CLAIM_HOLDER, {}) == (0, None)
        await pool.close()
    assert guarded.counts() == {}


async def test_nothing_is_decided_before_the_users_were_read(certificates):
    guarded = Guarded(table(MAY_SEND, is_complete=False), tls_users=True)
    async with connected(guarded, certificates, "alice") as connection:
        assert (await said(connection))[0] == 14
    assert guarded.counts() == {"not_read_yet": 1}


async def test_the_owner_of_a_certificate_guesses_secrets_no_faster(certificates):
    """Its own unsigned requests between two guesses do not make its user one whose signature was good."""
    guarded = Guarded(table(MAY_SEND), tls_users=True)
    async with connected(guarded, certificates, "alice") as connection:
        for _ in range(FREE_FAILURES + 3):
            assert await said(connection) == (0, None)
            assert (await said(connection, fields=signed(SEND, secret="guess")))[0] == 16
        assert await said(connection) == (0, None), "guesses do not stop it either"
    assert guarded.counts()["too_many_failures"] == 2


async def test_transactions_are_checked_at_the_user_of_the_certificate(certificates):
    peers = []
    guarded = Guarded(table(MAY_SEND), tls_users=True)
    receive = guarded.receive
    guarded.receive = lambda peer, raw: (peers.append(peer), receive(peer, raw))
    async with connected(guarded, certificates, "alice") as connection:
        assert await said(connection) == (0, None)
        may = [guarded.door.may_send(peers[0], topic) for topic in ("orders", "payroll")]
        assert may == [True, False]
        assert await said(connection, fields=signed(SEND, secret="guess")) == (16, WRONG)
        assert not guarded.door.may_send(peers[0], "orders")


# HTTP


@asynccontextmanager
async def metrics_port(door, certificates):
    """A port as each service has one, and a function that asks it."""
    routes = {("GET", "/metrics"): lambda _request: Response(200, b"{}")}
    server = HttpServer("127.0.0.1", 0, routes, Budget(), authorizer=door)
    port = await server.start(TlsDoor(certificates.server, Budget()))

    async def status(*names, path="/metrics", **headers):
        async with httpx.AsyncClient(verify=certificates.http(*names)) as client:
            found = await client.get(f"https://127.0.0.1:{port}{path}", headers=headers)
        return found.status_code

    try:
        yield status
    finally:
        await server.close()


async def test_the_port_of_a_service_takes_the_user_of_the_certificate(certificates):
    users = (("reader", UserType.NORMAL, ["Get"]), ("writer", UserType.NORMAL, ["Update"]))
    door, _inner = made("broker-store", *users, tls_users=True)
    async with metrics_port(door, certificates) as status:
        assert await status() == 401
        assert await status("reader") == 200
        assert await status("writer") == 403
        assert await status("mallory") == 401
        assert await status("mallory", path="/nothing") == 401
        assert await status("reader", path="/nothing") == 404
        assert await status("reader", authorization="Bearer wrong") == 401
        assert await status("reader", authorization="") == 401
    off, _inner = made("broker-store", *users)
    async with metrics_port(off, certificates) as status:
        assert await status("reader") == 401


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, 401),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
async def test_a_browser_shows_its_certificate_for_no_page_of_another_origin(certificates, headers, expected):
    door, _inner = made("broker-store", ("reader", UserType.NORMAL, ["Get"]), tls_users=True)
    async with metrics_port(door, certificates) as status:
        assert await status("reader", **headers) == expected


async def test_many_connections_at_once_have_each_its_own_user(certificates):
    users = (("reader", UserType.NORMAL, ["Get"]), ("writer", UserType.NORMAL, ["Update"]))
    door, _inner = made("broker-store", *users, tls_users=True)
    async with metrics_port(door, certificates) as status:
        names = [(), ("reader",), ("writer",)] * 6
        assert await asyncio.gather(*(status(*one) for one in names)) == [401, 200, 403] * 6
