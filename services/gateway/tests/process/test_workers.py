"""Each of several processes on one port shows the metrics of all, by worker number."""

import asyncio
import socket
from contextlib import AsyncExitStack

import httpx
import pytest
from gateway_guarded import Access

from gantry_access.model.users import UserType
from gantry_access.rights.http_table import OWN_PORTS
from gantry_chassis.metrics import Metrics
from gantry_chassis.peers.budget import Budget
from gateway.process import workers
from gateway.process.worker_health import serve_own_health
from gateway.process.workers import Workers

pytestmark = pytest.mark.anyio


def free_ports(count):
    """Return ports that were free a moment ago."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def process(number, ports, inner=None):
    metrics = Metrics()
    metrics.counters("gateway_calls", "HTTP calls answered", ("route",)).labels("send").add(10 + number)
    metrics.histogram("gateway_call_seconds", "Duration", (0.1, 1.0)).observe(0.5, times=number + 1)
    metrics.gauge("gateway_pulls_held", "Pulls held", lambda: 100 + number)
    metrics.counted("gateway_messages_sent", "Messages", lambda: 1000 + number)
    return Workers(metrics, number, ports, inner)


async def lines_of(one):
    text = (await one.text()).decode()
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families)), "each family is shown once"
    return {line for line in text.splitlines() if not line.startswith("#")}


async def test_every_worker_returns_the_metrics_of_all():
    ports = free_ports(3)
    all_workers = [process(number, ports) for number in range(3)]
    async with AsyncExitStack() as stack:
        for one, port in zip(all_workers, ports, strict=True):
            stack.push_async_callback(await serve_own_health(port, Budget(), one.answer, authorizer=None))
        answers = [await lines_of(one) for one in all_workers]
    assert answers[0] == answers[1] == answers[2]
    for number in range(3):
        assert {
            f'gateway_worker_up{{worker="{number}"}} 1.0',
            f'gateway_calls_total{{route="send",worker="{number}"}} {10 + number}.0',
            f'gateway_call_seconds_count{{worker="{number}"}} {number + 1}.0',
            f'gateway_call_seconds_bucket{{le="0.1",worker="{number}"}} 0.0',
            f'gateway_call_seconds_sum{{worker="{number}"}} {0.5 * (number + 1)}',
            f'gateway_pulls_held{{worker="{number}"}} {100 + number}.0',
            f'gateway_messages_sent_total{{worker="{number}"}} {1000 + number}.0',
        } <= answers[0]


async def test_with_access_control_workers_prove_themselves_to_each_other_and_strangers_get_nothing():
    ports, access = free_ports(2), Access()
    header = access.user("root", "Allow All *", kind=UserType.SUPER)
    both = [process(number, ports, access.guard.inner_http()) for number in range(2)]
    stranger = process(0, ports)
    async with AsyncExitStack() as stack:
        for one, port in zip(both, ports, strict=True):
            door = access.guard.http_door(OWN_PORTS["gateway worker"], "DefaultCluster")
            stack.push_async_callback(await serve_own_health(port, Budget(), one.answer, authorizer=door))
        shown, refused = await lines_of(both[0]), await lines_of(stranger)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports[1]}") as client:
            statuses = [
                (await client.get(path, headers=headers)).status_code
                for path, headers in (
                    ("/figures", {}),
                    ("/figures", {"authorization": header}),
                    ("/health/live", {}),
                )
            ]
    assert 'gateway_worker_up{worker="1"} 1.0' in shown
    assert 'gateway_worker_up{worker="1"} 0.0' in refused
    assert statuses == [401, 403, 200]


async def test_a_worker_that_is_dead_or_hung_or_another_program_is_down_and_the_others_are_shown(
    monkeypatch,
):
    monkeypatch.setattr(workers, "ANSWER_SECONDS_MAX", 0.2)
    ports = free_ports(2)
    hangs = socket.create_server(("127.0.0.1", 0))

    async def other(reader, writer):
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n{no metrics}")
        writer.close()

    server = await asyncio.start_server(other, "127.0.0.1", 0)
    ports += [hangs.getsockname()[1], server.sockets[0].getsockname()[1]]
    shown = await lines_of(process(0, ports))
    ups = {line for line in shown if line.startswith("gateway_worker_up")}
    assert ups == {f'gateway_worker_up{{worker="{n}"}} {float(n == 0)}' for n in range(4)}
    assert {line for line in shown if 'worker="0"' in line} | ups == shown
    server.close()
    hangs.close()


async def test_a_process_that_is_alone_shows_its_metrics_without_the_worker_label():
    shown = await lines_of(process(0, ()))
    assert "gateway_pulls_held 100.0" in shown
    assert not any("worker" in line for line in shown)
