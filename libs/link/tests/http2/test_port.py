"""The port of HTTP/2: TLS and plain connections, one write per turn, stalled clients, floods and refusals."""

import asyncio
import ssl

import pytest
from grpc_client import Client, Noted, framed, grpc_serving
from scripted_link import RawClient, eventually

from gantry_chassis.certificates import ServerCertificate
from gantry_chassis.settings.tls import TlsSettings
from gantry_link.grpc.limits import GrpcLimits
from gantry_link.grpc.status import GrpcStatus
from gantry_link.http2.limits import Http2Limits
from gantry_link.serving.tls_door import TlsDoor

pytestmark = pytest.mark.anyio
ECHO, CHAT, WAIT = "/test.Test/Echo", "/test.Test/Chat", "/test.Test/Wait"


def echo(_info, message):
    return message


async def chat(stream):
    while (message := await stream.receive()) is not None:
        await stream.send(message)


async def wait(_info, _message):
    await asyncio.Event().wait()


def serving(**options):
    return grpc_serving({ECHO: echo, WAIT: wait}, {CHAT: chat}, **options)


def quick(**limits):
    return GrpcLimits(http2=Http2Limits(sweep_seconds=0.02, **limits))


def certificate(folder, authority, mode="permissive", **more):
    cert, key = authority.issue(["127.0.0.1", "localhost"])
    (folder / "tls.pem").write_bytes(cert)
    (folder / "tls.key").write_bytes(key)
    settings = TlsSettings(
        tls_mode=mode,
        tls_cert_file=str(folder / "tls.pem"),
        tls_key_file=str(folder / "tls.key"),
        **more,
    )
    return ServerCertificate(settings, lambda: 0.0)


def trusting(authority, protocols=("h2",)):
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


def connection_of(server):
    return next(iter(server._port.connections))


async def test_plain_and_tls_clients_share_a_port(tmp_path, authority):
    infos = []

    def note(info, message):
        infos.append(info)
        return message

    budget = Noted()
    door = TlsDoor(certificate(tmp_path, authority), budget)
    async with grpc_serving({ECHO: note}, budget=budget, door=door) as (_, port):
        async with (
            Client.connected(port) as plain,
            Client.connected(port, tls=trusting(authority)) as secure,
        ):
            assert (await plain.call(ECHO, b"in clear")).messages == [b"in clear"]
            large = bytes(range(256)) * 20_000
            stream = secure.begin(ECHO)
            await secure.send_whole(stream, framed(large))
            assert (await secure.over(stream)).messages == [large]
            chosen = secure.transport.get_extra_info("ssl_object").selected_alpn_protocol()
            assert chosen == "h2"
        assert [info.is_secure for info in infos] == [False, True]
        assert not budget.reasons


async def test_a_client_that_offers_several_protocols_gets_http2(tmp_path, authority):
    door = TlsDoor(certificate(tmp_path, authority), Noted())
    async with serving(door=door) as (_, port):
        for offered in (("grpc-exp", "h2"), ("h2", "http/1.1"), ("http/1.1", "h2")):
            async with Client.connected(port, tls=trusting(authority, offered)) as client:
                assert (await client.call(ECHO, b"x")).messages == [b"x"]
                chosen = client.transport.get_extra_info("ssl_object").selected_alpn_protocol()
                assert chosen == "h2"


async def test_a_port_of_http1_does_not_choose_http2(tmp_path, authority):
    loop = asyncio.get_running_loop()
    door = TlsDoor(certificate(tmp_path, authority), Noted())
    from grpc_client import listen

    listener = listen("127.0.0.1", 0, backlog=5)
    opened = door.open(listener, asyncio.Protocol, lambda *_: None)
    transport, _ = await loop.create_connection(
        asyncio.Protocol, *listener.getsockname(), ssl=trusting(authority, ("h2", "http/1.1")), server_hostname="localhost"
    )  # fmt: skip
    assert transport.get_extra_info("ssl_object").selected_alpn_protocol() is None
    transport.abort()
    opened.close()


async def test_enforcing_closes_plain_connections(tmp_path, authority):
    budget = Noted()
    door = TlsDoor(certificate(tmp_path, authority, "enforcing"), budget)
    async with serving(door=door, budget=budget) as (_, port):
        async with RawClient.connected(port) as client:
            client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert await client.is_closed()
        assert budget.reasons == {"plain": 1}


async def test_a_name_in_a_client_certificate_is_the_user(tmp_path, authority):
    users = []

    def note(info, _message):
        users.append(info.user)
        return b""

    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.certificate)
    door = TlsDoor(
        certificate(tmp_path, authority, tls_client_ca_file=str(ca), tls_client_auth="require"), Noted()
    )
    cert, key = authority.issue(["client.example"], is_client=True)
    (tmp_path / "client.pem").write_bytes(cert)
    (tmp_path / "client.key").write_bytes(key)
    tls = trusting(authority)
    tls.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
    async with grpc_serving({ECHO: note}, door=door) as (_, port), Client.connected(port, tls=tls) as client:
        await client.call(ECHO, b"")
        assert users == ["client.example"]


async def test_answers_of_one_turn_are_one_write():
    futures = []

    def later(_info, _message):
        futures.append(asyncio.get_running_loop().create_future())
        return futures[-1]

    async with grpc_serving({"/t/L": later}) as (server, port), Client.connected(port) as client:
        streams = [client.start("/t/L", b"") for _ in range(50)]
        await eventually(lambda: len(futures) == 50)
        connection = connection_of(server)
        writes = []
        transport = connection._transport

        class Counting:
            def write(self, data):
                writes.append(len(data))
                transport.write(data)

            def __getattr__(self, name):
                return getattr(transport, name)

        connection._transport = Counting()
        for future in futures:
            future.set_result(b"small")
        await client.until(lambda: all(client.answers[stream].is_over for stream in streams))
        assert len(writes) == 1


async def test_pings_of_an_idle_client_are_answered():
    async with serving() as (_, port), Client.connected(port) as client:
        await client.until(lambda: client.pieces)
        for number in range(100):
            client.h2.ping(b"%08d" % number)
            client.flush()
        assert (await client.call(ECHO, b"after")).messages == [b"after"]
        assert not client.goodbyes


async def test_an_idle_connection_is_closed_with_a_goodbye_whatever_it_pings():
    async with serving(limits=quick(idle_seconds=0.1)) as (server, port), Client.connected(port) as client:
        assert (await client.call(ECHO, b"x")).messages == [b"x"]
        while not client.goodbyes:
            client.h2.ping(b"12345678")
            client.flush()
            await asyncio.sleep(0.01)
        await client.until(lambda: client.is_lost)
        assert [goodbye.error_code for goodbye in client.goodbyes] == [0, 0]
        await eventually(lambda: server.connections == 0)


async def test_a_connection_with_an_open_stream_is_not_idle():
    async with serving(limits=quick(idle_seconds=0.05)) as (server, port), Client.connected(port) as client:
        stream = client.begin(CHAT)
        await eventually(lambda: server.connections == 1)
        connection = connection_of(server)
        await eventually(lambda: connection._h2.open_calls == 1)
        now = asyncio.get_running_loop().time()
        for later in range(1, 100):
            connection.sweep(now + later)
        assert not connection.is_leaving
        client.send(stream, framed(b"x"), is_end=True)
        assert (await client.over(stream)).messages == [b"x"]


async def test_a_client_with_a_call_that_is_gone_is_cut_and_a_silent_one_is_not():
    limits = quick(ping_seconds=0.05, silent_seconds=0.5)
    budget, cancelled = Noted(), asyncio.Event()

    async def conversation(stream):
        try:
            await chat(stream)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    serving = grpc_serving({ECHO: echo}, {CHAT: conversation}, limits=limits, budget=budget)
    async with serving as (server, port), Client.connected(port) as gone, Client.connected(port) as silent:
        stream = silent.begin(CHAT)
        gone.begin(CHAT)
        await eventually(lambda: server.connections == 2)
        gone.transport.pause_reading()
        await cancelled.wait()
        assert budget.reasons == {"silent": 1}
        assert server.connections == 1
        silent.send(stream, framed(b"here"), is_end=True)
        assert (await silent.over(stream)).messages == [b"here"]


async def test_a_client_that_never_answers_the_goodbye_is_closed():
    limits = quick(idle_seconds=0.05, closing_seconds=0.1)
    async with serving(limits=limits) as (server, port):
        async with RawClient.connected(port) as client:
            client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert await client.is_closed()
        await eventually(lambda: server.connections == 0)


async def test_a_client_that_reads_nothing_is_cut():
    async def many(stream):
        while True:
            await stream.send(bytes(100_000))

    budget = Noted()
    async with (
        grpc_serving(streaming={CHAT: many}, budget=budget, limits=quick(unsent_seconds=0.1)) as (
            server,
            port,
        ),
        Client.connected(port) as client,
    ):
        client.acknowledges = False
        client.begin(CHAT, is_end=True)
        await eventually(lambda: budget.reasons)
        assert budget.reasons == {"stalled": 1}
        await eventually(lambda: server.connections == 0)
        assert not budget.held


async def test_the_budget_cuts_answers_that_are_not_read():
    budget = Noted()
    large = bytes(1_000_000)
    async with (
        grpc_serving({ECHO: lambda *_: large}, budget=budget) as (server, port),
        Client.connected(port) as client,
    ):
        client.acknowledges = False
        for _ in range(5):
            client.start(ECHO, b"")
        await eventually(lambda: budget.most["answers it does not read"] > 4_900_000)
        next(iter(budget.held)).cut("too much")
        await eventually(lambda: server.connections == 0)
        assert budget.reasons == {"stalled": 1}
        assert not budget.held


async def test_a_flood_of_cancelled_calls_ends_the_connection():
    budget = Noted()
    async with serving(budget=budget) as (server, port), Client.connected(port) as client:
        for _ in range(1000):
            if client.is_lost:
                break
            stream = client.start(WAIT, b"")
            client.cancel(stream)
        await client.until(lambda: client.is_lost)
        assert budget.reasons == {"flooding": 1}
        assert client.goodbyes[0].error_code == 11
        await eventually(lambda: server.connections == 0)


@pytest.mark.parametrize(
    "words", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0\0\0\0nonsense", b"PRI * HTTP/2.0\r\n\r\nXX"]
)
async def test_what_is_no_http2_is_closed_and_counted(words):
    budget = Noted()
    async with serving(budget=budget) as (_, port):
        async with RawClient.connected(port) as client:
            client.send(words)
            assert await client.is_closed()
        assert budget.reasons == {"malformed": 1}


async def test_tls_on_a_plain_port_is_counted(authority):
    budget = Noted()
    async with serving(budget=budget) as (_, port):
        with pytest.raises(OSError):
            async with Client.connected(port, tls=trusting(authority)):
                pass
        await eventually(lambda: budget.reasons)
        assert budget.reasons == {"tls": 1}


@pytest.mark.parametrize("with_door", [False, True])
async def test_connections_without_a_descriptor_are_refused(tmp_path, authority, with_door):
    budget = Noted(descriptors_max=0)
    door = TlsDoor(certificate(tmp_path, authority), budget) if with_door else None
    async with serving(budget=budget, door=door) as (server, port):
        async with RawClient.connected(port) as client:
            assert await client.is_closed()
        assert budget.reasons == {"descriptors": 1}
        assert server.connections == 0


async def test_a_shutdown_lets_calls_finish_and_ends_streams():
    release, began = asyncio.Event(), asyncio.Event()
    cancelled = []

    async def slow(_info, message):
        began.set()
        await release.wait()
        return message

    async def conversation(stream):
        try:
            await chat(stream)
        except asyncio.CancelledError:
            cancelled.append(stream)
            raise

    methods = {"/t/Slow": slow, ECHO: echo}
    async with grpc_serving(methods, {CHAT: conversation}, drain_seconds=60) as (server, port):  # noqa: SIM117
        async with Client.connected(port) as client, Client.connected(port) as idle:
            await idle.until(lambda: idle.pieces)
            talk, running = client.begin(CHAT), client.start("/t/Slow", b"done")
            client.send(talk, framed(b"hello"))
            await client.until(lambda: client.answers[talk].messages)
            await began.wait()
            closing = asyncio.ensure_future(server.close())
            await client.until(lambda: client.goodbyes)
            await idle.until(lambda: idle.is_lost)
            client.send(talk, framed(b"still here"))
            await client.until(lambda: len(client.answers[talk].messages) == 2)
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", port)
            assert not closing.done()
            release.set()
            assert (await client.over(running)).messages == [b"done"]
            answer = await client.over(talk)
            assert (answer.status, answer.text) == (GrpcStatus.UNAVAILABLE, "the server shuts down")
            await client.until(lambda: client.is_lost)
            await closing
            assert len(cancelled) == 1
            assert [goodbye.error_code for goodbye in client.goodbyes] == [0, 0]


async def test_a_shutdown_waits_for_calls_no_longer_than_its_time():
    async with serving(drain_seconds=0.05) as (server, port), Client.connected(port) as client:
        stream = client.start(WAIT, b"")
        await eventually(lambda: server.connections == 1)
        await eventually(lambda: connection_of(server).is_running)
        await server.close()
        assert (await client.over(stream)).status == GrpcStatus.UNAVAILABLE


async def test_a_shutdown_does_not_wait_for_clients_that_do_not_answer():
    async with serving(drain_seconds=60) as (server, port), RawClient.connected(port) as client:
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        await eventually(lambda: server.connections == 1)
        await server.close()
        assert await client.is_closed()
