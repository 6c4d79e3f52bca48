"""The watch of ports that speak TLS alone: a plain connection that ends is an answer, and questions go over TLS once that is known."""

from __future__ import annotations

import selectors
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher.planning.health import Check, ask
from gantry_launcher.processes.watch import ASK_SECONDS, Watch

ASKED = 10


@pytest.mark.parametrize("linger", [struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)], ids=["reset", "end"])
def test_a_port_that_ends_the_connection_is_not_silent(linger: bytes) -> None:
    """A port that speaks TLS alone resets a plain connection."""
    with selectors.DefaultSelector() as selector, socket.create_server(("127.0.0.1", 0)) as listening:
        watch = Watch(Check("http", *listening.getsockname()), selector)
        for number in range(ASKED):
            assert watch.silent_seconds(number * ASK_SECONDS) <= ASK_SECONDS
            _turn(selector)
            taken, _ = listening.accept()
            assert taken.recv(64)
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            taken.close()
            _turn(selector)
        watch.forget()


@pytest.fixture
def tls_port(tmp_path: Path, authority: Any) -> Iterator[tuple[int, list[str]]]:
    """Serve health over TLS alone. Yields the port, and what became of each connection."""
    server = authority.issue(["localhost"])
    (tmp_path / "server.pem").write_bytes(server.certificate + server.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    outcomes: list[str] = []

    def serve(listening: socket.socket) -> None:
        while True:
            taken, _ = listening.accept()
            with taken:
                if is_over.is_set():
                    return
                try:
                    with context.wrap_socket(taken, server_side=True) as secure:
                        outcomes.append(secure.recv(4096).partition(b" HTTP")[0].decode())
                        secure.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
                except ssl.SSLError:
                    outcomes.append("no handshake")

    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        yield listening.getsockname()[1], outcomes
        is_over.set()
        socket.create_connection(listening.getsockname()).close()
        thread.join()


def test_a_port_that_speaks_tls_alone_is_asked_over_tls(tls_port: tuple[int, list[str]]) -> None:
    """Each broken-off handshake would be a warning in its log."""
    port, outcomes = tls_port
    check = Check("http", "127.0.0.1", port)
    assert ask(check, 30).ready
    assert outcomes == ["no handshake", "GET /health/ready"]
    with selectors.DefaultSelector() as selector:
        watch = Watch(check, selector)
        for number in range(1, ASKED):
            assert watch.silent_seconds(number * ASK_SECONDS) <= ASK_SECONDS
            begun = time.monotonic()
            while len(outcomes) < number + 2 or selector.get_map():
                assert time.monotonic() - begun < 60
                _turn(selector)
        watch.forget()
    assert outcomes[2:] == ["GET /health/live"] * (ASKED - 1)


def _turn(selector: selectors.BaseSelector) -> None:
    for key, _ in selector.select(0.05):
        key.data()
