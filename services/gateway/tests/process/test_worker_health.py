"""One process of several on a shared port has its own port."""

import json
import socket
import urllib.request

import anyio
import pytest

from gantry_chassis.http.server import Request, Response, json_response
from gantry_chassis.peers.budget import Budget
from gantry_chassis.start_refusal import StartRefused
from gateway.process.worker_health import serve_own_health

pytestmark = pytest.mark.anyio


def worker_metrics(_request: Request) -> Response:
    return json_response([])


async def test_a_process_answers_at_its_own_port_until_closed():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def ask() -> object:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/live", timeout=60) as answer:
            return json.load(answer)

    close = await serve_own_health(port, Budget(), worker_metrics, authorizer=None)
    assert await anyio.to_thread.run_sync(ask) == {"status": "live"}
    await close()
    with pytest.raises(OSError, match="refused"):
        await anyio.to_thread.run_sync(ask)


async def test_a_taken_port_stops_the_start_with_a_message():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartRefused, match=f"127.0.0.1:{port}: .*; set another health_port"):
            await serve_own_health(port, Budget(), worker_metrics, authorizer=None)


async def test_without_a_port_there_is_nothing_to_close():
    close = await serve_own_health(0, Budget(), worker_metrics, authorizer=None)
    await close()
