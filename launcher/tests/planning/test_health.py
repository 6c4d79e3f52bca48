"""Each kind of process is probed in its own protocol; silence and garbage mean "not ready", never an exception."""

import contextlib
import socket
import ssl
import threading

import pytest

from gantry_launcher.planning.health import Check, ask


@pytest.fixture
def answering():
    """A server on a free port that answers one connection with the given bytes."""
    servers: list[tuple[socket.socket, threading.Thread]] = []

    def start(answer: bytes, *, speaks_first: bool = False) -> int:
        server = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            connection, _ = server.accept()
            server.close()  # refuses another attempt, by TLS, which would wait for a greeting until its time is over
            with connection:
                if not speaks_first:
                    connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        servers.append((server, thread))
        return server.getsockname()[1]

    yield start
    for server, thread in servers:
        thread.join(60)
        server.close()


def http(status: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("answer", "ready", "words"),
    [
        (http("200 OK", '{"ready":true,"reason":null}'), True, "ready"),
        (http("503 No", '{"ready":false,"reason":"recovering: 40 %"}'), False, "recovering: 40 %"),
        (
            http("503 No", '{"status":"starting","stores":{"broker-a":"ok","broker-b":"away"}}'),
            False,
            "broker-b away",
        ),
        (http("503 No", '{"status":"draining","stores":{}}'), False, "draining"),
        (http("500 Oh", "boom"), False, "HTTP status 500"),
    ],
)
def test_a_service_is_ready_when_it_says_so(answering, answer: bytes, ready: bool, words: str) -> None:
    health = ask(Check("http", "127.0.0.1", answering(answer)), 60)
    assert (health.ready, health.message) == (ready, words)


def test_nats_greets_and_redis_answers_a_ping(answering) -> None:
    assert ask(Check("nats", "127.0.0.1", answering(b"INFO {}\r\n", speaks_first=True)), 60).ready
    assert ask(Check("redis", "127.0.0.1", answering(b"+PONG\r\n")), 60).ready
    assert ask(Check("redis", "127.0.0.1", answering(b"-NOAUTH Authentication required.\r\n")), 60).ready
    loading = ask(Check("redis", "127.0.0.1", answering(b"-LOADING wait\r\n")), 60)
    assert (loading.ready, loading.message) == (False, "-LOADING wait")


@pytest.mark.parametrize("answer", [b"", b"nonsense", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_nonsense_is_not_ready(answering, answer: bytes) -> None:
    assert not ask(Check("http", "127.0.0.1", answering(answer)), 60).ready


def test_silence_and_absence_are_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ask(Check("http", "127.0.0.1", port), 0.05).message.startswith("no answer")
    assert ask(Check("http", "127.0.0.1", port), 0.05).message == "not listening"


@pytest.fixture
def demanding(tmp_path, authority):
    """A port that closes plain connections and demands a client certificate, and the file of one."""
    ours = authority.issue(["launcher"], is_client=True)
    server = authority.issue(["localhost"])
    for name, pair in (("client", ours), ("server", server)):
        (tmp_path / f"{name}.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    context.load_verify_locations(cadata=authority.certificate.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(60)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(60)
                if connection.recv(1, socket.MSG_PEEK) != b"\x16":
                    continue
                with context.wrap_socket(connection, server_side=True) as secure:
                    secure.recv(4096)
                    secure.sendall(http("200 OK", '{"ready":true}'))

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1], str(tmp_path / "client.pem")
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(60)


def test_a_port_that_demands_a_certificate_is_shown_the_one_of_the_settings(demanding, tmp_path) -> None:
    port, certificate = demanding
    assert ask(Check("http", "127.0.0.1", port, certificate), 60).ready
    assert not ask(Check("http", "127.0.0.1", port), 60).ready
    missing = ask(Check("http", "127.0.0.1", port, str(tmp_path / "missing.pem")), 60)
    assert (missing.ready, "missing.pem" in missing.message) == (False, True)
