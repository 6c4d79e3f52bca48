"""Speed as the store grows in groups and in connections: sends and pulls compared with those without them.

    python bench/growing/growth_clients.py [--seconds 6] [--only groups|connections] [--groups 10000] [--connections 5000]

Each group has a consumer, 100 of them per connection, and an offset that moves. Connections are idle after one request.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Awaitable, Callable

import uvloop

from gantry_link.connections.connection import Connection, connect
from gantry_wire.bodies.clients import ConsumerData, HeartbeatData, SubscriptionData
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import UpdateConsumerOffsetHeader
from growing.rates import BODY, Rates, create, pull_rate
from measuring.system import System, provenance, pss_bytes, started
from reporting.figures import figure
from store_speed.flood import Sends, flood

PARTS = ("groups", "connections")
TOPIC = "narrow"
FEW_QUEUES = 10
GROUPS_A_CONNECTION = 100
Grow = Callable[[System, int], Awaitable[list[Connection]]]


async def rates_of(system: System, seconds: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Measure sends and pulls, each as messages per second and the store's CPU us per message."""
    rates, sends = Rates(system, seconds), Sends(TOPIC, range(FEW_QUEUES), BODY)
    queues = [(TOPIC, number) for number in range(FEW_QUEUES)]
    await flood(system.store, sends, seconds=1)
    sent = await rates.of(lambda some: flood(system.store, sends, seconds=some))
    return sent, await rates.of(lambda some: pull_rate(system.store, queues, some))


async def beside(system: System, name: str, count: int, grow: Grow, seconds: float) -> None:
    """Measure, grow, and measure again."""
    few, before = await rates_of(system, seconds), pss_bytes(system.store_pid)
    connections = await grow(system, count)
    many, after = await rates_of(system, seconds), pss_bytes(system.store_pid)
    for connection in connections:
        connection.close()
    for what, found, floor in zip(("sends", "pulls"), many, few, strict=True):
        words = f"CPU us of the store each {found[1]:.1f}, before {floor[1]:.1f}"
        key = f"growth_clients.{what}, {count:,} {name}"
        figure(key, found[0], "msg/s", floor=floor[0], beside="without", words=words)
    figure(f"growth_clients.memory, {count:,} {name}", (after - before) / 1e6, "MB", words="more than before")


async def groups(system: System, count: int) -> list[Connection]:
    """Add consumer groups, each with a subscription and an offset; return the connections that keep them alive."""
    connections: list[Connection] = []
    for first in range(0, count, GROUPS_A_CONNECTION):
        connections.append(connection := await connect(system.store))
        names = [f"group-{number}" for number in range(first, min(first + GROUPS_A_CONNECTION, count))]
        topic = SubscriptionData(topic=TOPIC)
        consumers = [ConsumerData(group_name=name, subscription_data_set=[topic]) for name in names]
        data = HeartbeatData(client_id=f"client-{first}", consumer_data_set=consumers)
        answer = await connection.request(RequestCode.HEART_BEAT, None, encode_body(data), timeout=60)
        assert answer.code == 0, answer.remark
        for name in names:
            header = UpdateConsumerOffsetHeader(consumer_group=name, topic=TOPIC, queue_id=0, commit_offset=1)
            answer = await connection.request(RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout=60)
            assert answer.code == 0, answer.remark
    return connections


async def idle(system: System, count: int) -> list[Connection]:
    """Add connections that made one request and are idle."""
    connections: list[Connection] = []
    for _ in range(count):
        connections.append(connection := await connect(system.store))
        await connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout=60)
    return connections


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--only", choices=PARTS, help="only this part")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=5_000)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # connections of this process
    print(f"growth; {provenance('sync')}")
    parts: list[tuple[str, int, Grow]] = [
        ("groups", options.groups, groups),
        ("connections", options.connections, idle),
    ]
    for name, count, grow in parts:
        if options.only in {None, name}:
            with started() as system:
                uvloop.run(_grown(system, name, count, grow, options.seconds))


async def _grown(system: System, name: str, count: int, grow: Grow, seconds: float) -> None:
    await create(system, {TOPIC: FEW_QUEUES})
    await beside(system, name, count, grow, seconds)


if __name__ == "__main__":
    main()
