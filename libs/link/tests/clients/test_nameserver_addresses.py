import asyncio
import http.server
import socket
import threading

import pytest

from gantry_link.clients import nameserver_addresses as addresses_module
from gantry_link.clients.nameserver_addresses import Addresses, split_list
from gantry_link.errors import NotConnected

pytestmark = pytest.mark.anyio


@pytest.fixture
def address_server():
    """Run an HTTP address server. `answer` is (status, text) and may be changed."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, text = self.server.answer
            self.server.requests += 1
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.answer, server.requests = (200, "127.0.0.1:1;127.0.0.1:2\n"), 0
        server.url = f"http://127.0.0.1:{server.server_address[1]}/nsaddr"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "source",
    ["10.0.0.1:9876;10.0.0.2:9876", "10.0.0.1:9876, 10.0.0.2:9876;", ["10.0.0.1:9876", "10.0.0.2:9876"]],
)
async def test_a_list_of_addresses_is_used_unchanged(source):
    assert await Addresses(source).current() == ["10.0.0.1:9876", "10.0.0.2:9876"]


async def test_a_name_resolves_to_all_its_addresses(monkeypatch):
    async def getaddrinfo(host, port, **_):
        assert host == "nameservers"
        v4 = [(2, 1, 6, "", (f"10.0.0.{n}", port)) for n in (1, 2)]
        return [(10, 1, 6, "", ("fd00::1", port, 0, 0)), *v4]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    assert await Addresses("nameservers:9876;10.0.0.2:9876").current() == ["10.0.0.1:9876", "10.0.0.2:9876"]


async def test_localhost_is_one_address():
    assert await Addresses("localhost:9876").current() == ["127.0.0.1:9876"]


async def test_a_name_that_does_not_resolve_does_not_hide_others(monkeypatch):
    async def getaddrinfo(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    assert await Addresses("no-such-host:9876;10.0.0.2:9876").current() == ["10.0.0.2:9876"]
    with pytest.raises(NotConnected, match="no-such-host:9876: "):
        await Addresses("no-such-host:9876").current()


async def test_an_address_server_is_read_again_and_its_failure_keeps_the_addresses(
    address_server, monkeypatch
):
    addresses = Addresses(address_server.url)
    assert await addresses.current() == ["127.0.0.1:1", "127.0.0.1:2"]
    await addresses.current()
    assert address_server.requests == 1
    monkeypatch.setattr(addresses_module, "REREAD_SECONDS", 0.0)
    address_server.answer = (200, "127.0.0.1:3")
    assert await addresses.current() == ["127.0.0.1:3"]
    for answer in ((500, "down"), (200, ""), (200, "<html>")):
        address_server.answer = answer
        assert await addresses.current() == ["127.0.0.1:3"]
    assert addresses.failed_reads == 3


async def test_an_address_server_that_never_answered_is_an_error_each_time(address_server):
    address_server.answer = (404, "")
    addresses = Addresses(address_server.url)
    for _ in range(2):
        with pytest.raises(NotConnected, match="404"):
            await addresses.current()
    address_server.answer = (200, "127.0.0.1:1")
    assert await addresses.current() == ["127.0.0.1:1"]


@pytest.mark.parametrize("text", ["nowhere", "a:b", ":9876 ;x"])
def test_an_invalid_address_is_refused_at_once(text):
    with pytest.raises(NotConnected, match="write host:port"):
        split_list(text)


async def test_an_empty_list_is_an_error():
    with pytest.raises(NotConnected, match="the list is empty"):
        await Addresses("").current()


async def test_an_address_server_without_http_is_a_failed_read():
    async def answer(_reader, writer):
        writer.write(b"what do you want?\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        addresses = Addresses(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/nsaddr")
        with pytest.raises(NotConnected, match="no nameserver address is known"):
            await addresses.current()
    assert addresses.failed_reads == 1


async def test_an_invalid_host_name_does_not_hide_the_others():
    assert await Addresses("a..b:9876;127.0.0.1:9877").current() == ["127.0.0.1:9877"]
