"""One process of several on a shared port answers for itself at a port of its own."""

import json
import socket
import urllib.request

import anyio
import pytest

from gantry_chassis.budget import Budget
from gantry_chassis.http import Request, Response, json_response
from gantry_chassis.process import StartRefused
from gateway.process.worker_health import serve_own_health

pytestmark = pytest.mark.anyio


def told(_request: Request) -> Response:
    return json_response([])


async def test_it_answers_at_its_own_port_until_it_is_closed():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def ask() -> object:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/live", timeout=60) as answer:
            return json.load(answer)

    close = await serve_own_health(port, Budget(), told)
    assert await anyio.to_thread.run_sync(ask) == {"status": "live"}
    await close()
    with pytest.raises(OSError, match="refused"):
        await anyio.to_thread.run_sync(ask)


async def test_a_taken_port_refuses_the_start_in_words():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartRefused, match=f"127.0.0.1:{port}: .*; set another health_port"):
            await serve_own_health(port, Budget(), told)


async def test_without_a_port_there_is_nothing_to_close():
    close = await serve_own_health(0, Budget(), told)
    await close()
