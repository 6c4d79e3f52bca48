"""TLS and plain connections on one remoting port, by their first byte."""

import asyncio
import contextlib
import socket
import ssl
from types import SimpleNamespace

import pytest
from grpc_client import Noted
from scripted_link import ECHO, RawClient, answer_echo, eventually, serving

from gantry_link.connections.client_tls import ClientTls, ClientTlsFiles, TlsFilesRefused, hints_tls
from gantry_link.connections.connection import connect
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError, NotConnected
from gantry_link.limits import LinkLimits
from gantry_link.serving.server import RemotingServer
from gantry_link.serving.tls_door import HANDSHAKE_BYTES, TlsDoor, certificate_name

pytestmark = pytest.mark.anyio
HELLO = bytes.fromhex("1603010005010000010303")  # a handshake record that says less than its length


class Certificate:
    """A server's certificate, which a test may replace."""

    def __init__(self, folder, pair, *, is_plain_allowed=True, clients=None, needs=ssl.CERT_NONE):
        self.is_plain_allowed = is_plain_allowed
        self._folder, self._clients, self._needs = folder, clients, needs
        self.use(pair)

    def use(self, pair):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*written(self._folder, "server", pair))
        if self._clients is not None:
            self._context.load_verify_locations(cadata=self._clients.decode())
            self._context.verify_mode = self._needs

    def context(self, _protocols):
        return self._context


def written(folder, name, pair):
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    for path, content in zip(paths, pair, strict=True):
        path.write_bytes(content)
    return paths


@contextlib.asynccontextmanager
async def tls_serving(certificate, budget, handler=answer_echo, limits=None, **door):
    server = RemotingServer(handler, budget=budget, limits=limits)
    port = await server.listen("127.0.0.1", 0, TlsDoor(certificate, budget, **door))
    try:
        yield server, port
    finally:
        await server.close()


def trusting(folder, authority, **files):
    path = folder / "ca.pem"
    path.write_bytes(authority.certificate)
    return ClientTls(ClientTlsFiles(str(path), **files), pytest.fail).context


async def echo(connection, body):
    return bytes((await connection.request(ECHO, None, body)).body)


async def asked_once(address, tls):
    connection = await connect(address, tls=tls)
    return await echo(connection, b"x")


@pytest.fixture
def server_pair(authority):
    return authority.issue(["127.0.0.1", "localhost"])


async def test_plain_and_tls_clients_are_served_by_one_port(tmp_path, authority, server_pair):
    budget = Noted()
    async with tls_serving(Certificate(tmp_path, server_pair), budget) as (server, port):
        address = f"127.0.0.1:{port}"
        plain = await connect(address)
        secure = await connect(address, tls=trusting(tmp_path, authority))
        assert await echo(plain, b"in clear") == b"in clear"
        big = bytes(range(256)) * 20_000
        assert await echo(secure, big) == big
        assert server.metrics.accepted == 2
        assert not budget.reasons
        plain.close()
        secure.close()
        await eventually(lambda: not server.peers)


async def test_a_pool_connects_by_tls(tmp_path, authority, server_pair):
    async with tls_serving(Certificate(tmp_path, server_pair, is_plain_allowed=False), Noted()) as (_, port):
        pool = ConnectionPool(tls=trusting(tmp_path, authority))
        assert await echo(await pool.get(f"localhost:{port}"), b"by name") == b"by name"
        await pool.close()


async def test_enforcing_closes_plain_connections_and_counts_them(tmp_path, authority, server_pair):
    budget = Noted()
    async with tls_serving(Certificate(tmp_path, server_pair, is_plain_allowed=False), budget) as (
        server,
        port,
    ):
        async with RawClient.connected(port) as client:
            client.ask(1)
            assert await client.is_closed()
        secure = await connect(f"127.0.0.1:{port}", tls=trusting(tmp_path, authority))
        assert await echo(secure, b"x") == b"x"
        secure.close()
        assert budget.reasons == {"plain": 1}
        assert server.metrics.accepted == 1


async def test_a_plain_port_closes_tls_connections_and_counts_them(tmp_path, authority):
    budget = Noted()
    async with serving(budget=budget) as (server, port):
        with pytest.raises(NotConnected):
            await connect(f"127.0.0.1:{port}", tls=trusting(tmp_path, authority))
        await eventually(lambda: not server.peers)
        assert budget.reasons == {"tls": 1}
        assert "tls_mode=disabled" in budget.messages[0]


@pytest.mark.parametrize("first", [1, 2, 3, 5])
async def test_a_hello_cut_at_any_byte_is_one_of_tls(tmp_path, authority, server_pair, first):
    async with tls_serving(Certificate(tmp_path, server_pair), Noted()) as (_, port):
        hello, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting(tmp_path, authority)().wrap_bio(hello, outgoing, server_hostname="127.0.0.1")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        record = outgoing.read()
        async with RawClient.connected(port) as client:
            client.send(record[:first])
            await client.writer.drain()
            await asyncio.sleep(0.05)
            client.send(record[first:])
            assert (await client.reader.readexactly(1)) == b"\x16"  # the server's hello


async def test_wrong_authorities_and_names_are_refused_by_clients(tmp_path, authority, server_pair):
    from gantrymq.cli.certificates import Authority

    other = tmp_path / "other"
    other.mkdir()
    budget = Noted()
    named = authority.issue(["broker.example"])
    async with tls_serving(Certificate(tmp_path, server_pair), budget) as (_, port):
        with pytest.raises(NotConnected, match=r"(?i)certificate.verify.failed"):
            await connect(f"127.0.0.1:{port}", tls=trusting(other, Authority()))
        await eventually(lambda: budget.reasons == {"handshake": 1})
    async with tls_serving(Certificate(tmp_path, named), Noted()) as (_, port):
        with pytest.raises(NotConnected, match=r"not valid for '127.0.0.1'"):
            await connect(f"127.0.0.1:{port}", tls=trusting(tmp_path, authority))
        lenient = await connect(f"127.0.0.1:{port}", tls=trusting(tmp_path, authority, verify_name=False))
        assert await echo(lenient, b"any name") == b"any name"
        lenient.close()


async def test_expired_certificates_are_refused_by_clients(tmp_path, authority):
    expired = authority.issue(["127.0.0.1"], days=-1)
    async with tls_serving(Certificate(tmp_path, expired), Noted()) as (_, port):
        with pytest.raises(NotConnected, match="expired"):
            await connect(f"127.0.0.1:{port}", tls=trusting(tmp_path, authority))


def client_files(folder, authority, names):
    certificate, key = written(folder, "client", authority.issue(names, is_client=True))
    return {"certificate": str(certificate), "key": str(key)}


@pytest.mark.parametrize(
    ("needs", "shows", "is_served"),
    [
        (ssl.CERT_NONE, "", True),
        (ssl.CERT_NONE, "ours", True),
        (ssl.CERT_OPTIONAL, "", True),
        (ssl.CERT_OPTIONAL, "ours", True),
        (ssl.CERT_OPTIONAL, "other", False),
        (ssl.CERT_REQUIRED, "", False),
        (ssl.CERT_REQUIRED, "ours", True),
        (ssl.CERT_REQUIRED, "other", False),
    ],
)
async def test_client_certificates(tmp_path, authority, server_pair, needs, shows, is_served):
    from gantrymq.cli.certificates import Authority

    issuers = {"ours": authority, "other": Authority()}
    files = client_files(tmp_path, issuers[shows], ["urn:gantry:orders"]) if shows else {}
    certificate = Certificate(tmp_path, server_pair, clients=authority.certificate, needs=needs)
    budget = Noted()
    async with tls_serving(certificate, budget) as (server, port):
        tls = trusting(tmp_path, authority, **files)
        if is_served:
            connection = await connect(f"127.0.0.1:{port}", tls=tls)
            assert await echo(connection, b"x") == b"x"
            [peer] = server.peers.values()
            named = "urn:gantry:orders" if shows and needs != ssl.CERT_NONE else None
            assert peer.attributes.get("certificate") == named
            connection.close()
        else:  # with TLS 1.3 a client learns it from its first read
            with pytest.raises(LinkError):
                await asked_once(f"127.0.0.1:{port}", tls)
            await eventually(lambda: budget.reasons == {"handshake": 1})
            assert server.metrics.accepted == 0


async def test_a_new_certificate_serves_new_connections_and_old_ones_stay_open(
    tmp_path, authority, server_pair
):
    from gantrymq.cli.certificates import Authority

    other = Authority()
    certificate = Certificate(tmp_path, server_pair)
    async with tls_serving(certificate, Noted()) as (server, port):
        address, old = f"127.0.0.1:{port}", trusting(tmp_path, authority)
        connections = [await connect(address, tls=old) for _ in range(50)]
        certificate.use(other.issue(["127.0.0.1"]))
        with pytest.raises(NotConnected):
            await connect(address, tls=old)
        folder = tmp_path / "new"
        folder.mkdir()
        connections.append(await connect(address, tls=trusting(folder, other)))
        answers = await asyncio.gather(*(echo(one, b"%d" % n) for n, one in enumerate(connections)))
        assert answers == [b"%d" % n for n in range(51)]
        assert len(server.peers) == 51
        for one in connections:
            one.close()


async def test_a_silent_connection_is_closed_after_its_time(tmp_path, server_pair):
    budget = Noted()
    async with tls_serving(Certificate(tmp_path, server_pair), budget, silent_seconds=0.2) as (server, port):
        async with RawClient.connected(port) as client:
            assert await client.is_closed()
        assert budget.reasons == {"silent": 1}
        assert server.metrics.accepted == 0


async def test_a_slow_handshake_is_closed_after_its_time_and_holds_bytes_until_then(tmp_path, server_pair):
    budget = Noted()
    async with tls_serving(Certificate(tmp_path, server_pair), budget, handshake_seconds=0.3) as (_, port):
        async with RawClient.connected(port) as client:
            client.send(HELLO[:3])
            await eventually(lambda: list(budget.held.values()) == [HANDSHAKE_BYTES])
            assert await client.is_closed()
        await eventually(lambda: budget.reasons == {"handshake": 1})
        assert not budget.held


async def test_the_budget_can_close_a_handshake(tmp_path, server_pair):
    budget = Noted()
    async with tls_serving(Certificate(tmp_path, server_pair), budget) as (_, port):
        async with RawClient.connected(port) as client:
            client.send(HELLO[:3])
            await eventually(lambda: bool(budget.held))
            [account] = budget.held
            account.cut("too much")
            assert await client.is_closed()
        assert budget.reasons == {"hoarding": 1}
        await eventually(lambda: not budget.held)


@pytest.mark.parametrize(
    "garbage", [HELLO, b"\x16" + b"\xff" * 600, b"\x16\x03\x01\x00\x00", bytes([22] * 5000)]
)
async def test_garbage_in_a_handshake_closes_the_connection(tmp_path, server_pair, garbage):
    budget = Noted()
    async with tls_serving(Certificate(tmp_path, server_pair), budget, handshake_seconds=1.0) as (
        server,
        port,
    ):
        async with RawClient.connected(port) as client:
            client.send(garbage)
            assert await client.is_closed()
        await eventually(lambda: budget.reasons == {"handshake": 1})
        assert server.metrics.accepted == 0


async def test_garbage_after_the_handshake_closes_the_connection(tmp_path, authority, server_pair):
    async with tls_serving(Certificate(tmp_path, server_pair), Noted()) as (server, port):
        loop = asyncio.get_running_loop()

        def broken():
            with socket.create_connection(("127.0.0.1", port)) as plain:
                tls = trusting(tmp_path, authority)().wrap_socket(plain, server_hostname="127.0.0.1")
                raw = socket.socket(fileno=tls.detach())
                raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
                with contextlib.suppress(ConnectionError):
                    while raw.recv(4096):
                        pass
                raw.close()

        await asyncio.to_thread(broken)
        assert loop.is_running()
        await eventually(lambda: not server.peers)
        assert server.metrics.accepted == 1


async def test_waiting_connections_count_as_connections(tmp_path, server_pair):
    budget = Noted()
    limits = LinkLimits(connections_max=2)
    async with (
        tls_serving(Certificate(tmp_path, server_pair), budget, limits=limits) as (server, port),
        RawClient.connected(port),
        RawClient.connected(port) as second,
    ):
        second.send(b"\x16")
        await asyncio.sleep(0.05)
        async with RawClient.connected(port) as third:
            third.ask(1)
            assert await third.is_closed()
        assert budget.reasons == {"connections": 1}
        assert server.metrics.refused == 1


async def test_a_connection_without_a_descriptor_is_refused(tmp_path, server_pair):
    budget = Noted(descriptors_max=0)
    async with (
        tls_serving(Certificate(tmp_path, server_pair), budget) as (_, port),
        RawClient.connected(port) as client,
    ):
        assert await client.is_closed()
    assert budget.reasons == {"descriptors": 1}


async def test_closing_a_server_closes_what_has_not_begun(tmp_path, server_pair):
    server = RemotingServer(answer_echo)
    port = await server.listen("127.0.0.1", 0, TlsDoor(Certificate(tmp_path, server_pair), Noted()))
    async with RawClient.connected(port) as silent, RawClient.connected(port) as shaking:
        shaking.send(b"\x16")
        await asyncio.sleep(0.05)
        await server.close()
        assert await silent.is_closed()
        assert await shaking.is_closed()


async def test_a_client_that_leaves_before_its_first_byte_leaves_nothing(tmp_path, server_pair):
    budget = Noted()
    async with tls_serving(Certificate(tmp_path, server_pair), budget) as (server, port):
        for sent in (b"", b"\x16"):
            async with RawClient.connected(port) as client:
                client.send(sent)
        await eventually(lambda: not any(door.waiting for door in server._open_doors))
        assert not budget.held


async def test_a_closing_server_drains_a_tls_client(tmp_path, authority, server_pair):
    server = RemotingServer(answer_echo)
    port = await server.listen("127.0.0.1", 0, TlsDoor(Certificate(tmp_path, server_pair), Noted()))
    connection = await connect(f"127.0.0.1:{port}", tls=trusting(tmp_path, authority))
    answer = connection.request(ECHO, None, b"last")
    await eventually(lambda: len(server.peers) == 1)
    assert bytes((await answer).body) == b"last"
    await server.close(5.0)
    await eventually(lambda: not connection.is_open)


async def test_every_address_accepts_tls(tmp_path, authority, server_pair):
    server = RemotingServer(answer_echo)
    port = await server.listen("::", 0, TlsDoor(Certificate(tmp_path, server_pair), Noted()))
    connection = await connect(f"127.0.0.1:{port}", tls=trusting(tmp_path, authority))
    assert await echo(connection, b"v4") == b"v4"
    connection.close()
    await server.close()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((("DNS", "a"), ("URI", "urn:b"), ("URI", "urn:c")), "urn:b"),
        ((("IP Address", "127.0.0.1"), ("DNS", "a"), ("DNS", "b")), "a"),
        ((("IP Address", "127.0.0.1"), ("email", "a@b")), ""),
        ((), ""),
    ],
)
def test_the_name_in_a_certificate(names, expected):
    assert certificate_name({"subject": ((("commonName", "cn"),),), "subjectAltName": names}) == expected
    assert certificate_name(None) == certificate_name({}) == ""


def test_files_that_cannot_be_used_are_named(tmp_path, authority):
    good = written(tmp_path, "client", authority.issue(["a"], is_client=True))
    other = written(tmp_path, "other", authority.issue(["b"], is_client=True))
    (tmp_path / "empty.pem").write_text("")
    for files, words in [
        (ClientTlsFiles(str(tmp_path / "none.pem")), "none.pem: No such file"),
        (ClientTlsFiles(str(tmp_path / "empty.pem")), "empty.pem"),
        (ClientTlsFiles(certificate=str(good[0]), key=str(other[1])), "KEY_VALUES_MISMATCH"),
        (ClientTlsFiles(certificate=str(good[0])), "client.pem"),
        (ClientTlsFiles(verify_name=False), "needs a file of authorities"),
    ]:
        with pytest.raises(TlsFilesRefused, match=words):
            ClientTls(files, pytest.fail)


@pytest.mark.parametrize(
    ("url", "is_tls"),
    [
        ("tls://nats:4222", True),
        ("TLS://nats:4222", True),
        ("nats://a:4222,tls://b:4222", True),
        ("nats://tls:4222", False),
        ("", False),
    ],
)
def test_a_url_of_nats_that_names_tls_means_tls(url, is_tls):
    settings = SimpleNamespace(
        nats_url=url, tls_client=False, tls_ca_file="", tls_client_cert_file="", tls_client_key_file="", tls_verify_name=True
    )  # fmt: skip
    assert (hints_tls(settings, pytest.fail) is not None) == is_tls


def test_a_renewed_client_certificate_is_read_and_a_broken_one_is_not(tmp_path, authority):
    certificate, key = written(tmp_path, "client", authority.issue(["a"], is_client=True))
    refused: list[str] = []
    tls = ClientTls(ClientTlsFiles(certificate=str(certificate), key=str(key)), refused.append)
    first = tls.context()
    assert tls.context() is first
    certificate.write_bytes(authority.issue(["b"], is_client=True, key=key.read_bytes()).certificate)
    second = tls.context()
    assert second is not first
    assert refused == []
    certificate.write_bytes(b"half")
    assert [tls.context() is second for _ in range(3)] == [True] * 3
    assert len(refused) == 1, "once for each change"
    assert str(certificate) in refused[0]
    certificate.unlink()
    assert tls.context() is second
    assert len(refused) == 2
    certificate.write_bytes(authority.issue(["c"], is_client=True, key=key.read_bytes()).certificate)
    assert tls.context() is not second
    assert len(refused) == 2
