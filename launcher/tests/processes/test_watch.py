"""What counts as an answer of a process: also the end of the connection, however it ends."""

from __future__ import annotations

import selectors
import socket
import struct

import pytest

from gantry_launcher.planning.health import Check
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


def test_a_port_that_accepts_and_says_nothing_is_silent() -> None:
    with selectors.DefaultSelector() as selector, socket.create_server(("127.0.0.1", 0)) as listening:
        watch = Watch(Check("http", *listening.getsockname()), selector)
        for number in range(ASKED):
            seconds = watch.silent_seconds(number * ASK_SECONDS)
            _turn(selector)
        assert seconds == (ASKED - 1) * ASK_SECONDS
        watch.forget()


def _turn(selector: selectors.BaseSelector) -> None:
    for key, _ in selector.select(0.05):
        key.data()
