"""Speed as the store grows: sends and pulls with 10 queues and 10,000, with 10 held pulls and 10,000.

Each rate is the median of three slices, with the same connections, window and client on both sides of a ratio.

    python bench/growing/growth.py [--seconds 8] [--flush sync]
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from gantry_link.connections.connection import Connection, connect
from gantry_wire.codes import RequestCode
from growing.rates import BODY, Rates, create, pull_header, pull_rate
from measuring.system import System, provenance, started
from reporting.figures import figure
from store_speed.flood import Sends, flood
from store_speed.store_send import counted

TOPIC_QUEUES = 1000
WIDE_TOPICS = 10
HELD_CONNECTIONS = 100
HELD_PULLS = 10_000
SETTLE_SECONDS_MAX = 240.0
SETTLE_CHECKPOINTS = 10
"""The store writes out every file once in eight checkpoints."""


async def _settle(system: System, wide: Sends) -> None:
    """Send to the wide topics until all their files exist: the first write of ten thousand files is not part of the measurement."""
    end = time.monotonic() + SETTLE_SECONDS_MAX
    before, refused = await _figure(system, "checkpoints"), 0
    while await _figure(system, "checkpoints") < before + SETTLE_CHECKPOINTS:
        if time.monotonic() > end:
            print("not all files of the new queues exist yet: the following measurements create some of them")
            break
        try:
            await flood(system.store, wide, seconds=2.0)
        except RuntimeError:
            refused += 1
    if refused:
        print(f"while the queues were created, sends were refused as busy in {refused} stretches of 2 s")


async def _figure(system: System, name: str) -> float:
    port = int(system.raw["brokers"][0]["http"].rpartition(":")[2])
    return await asyncio.to_thread(counted, port, name)


async def hold(system: System, pulls: int) -> list[Connection]:
    """Hold this number of pulls on at most a hundred connections, each on its own queue."""
    connections = [await connect(system.store) for _ in range(min(HELD_CONNECTIONS, pulls))]
    for queue in range(pulls):
        connections[queue % len(connections)].request(
            RequestCode.PULL_MESSAGE,
            pull_header(f"held{queue // TOPIC_QUEUES}", queue % TOPIC_QUEUES, 0, 300_000),
            timeout=300,
        ).add_done_callback(lambda done: done.cancelled() or done.exception())
        if queue % 100 == 0:
            await asyncio.sleep(0)
    await connections[0].request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout=60)
    await asyncio.sleep(2)
    return connections


async def measure(system: System, seconds: float) -> None:
    wide_topics = [f"wide{n}" for n in range(WIDE_TOPICS)]
    narrow, narrow_queues = Sends("narrow", range(10), BODY), [("narrow", n) for n in range(10)]
    wide_queues = [(topic, n) for n in range(TOPIC_QUEUES) for topic in wide_topics]
    rates = Rates(system, seconds)

    def sends(what: Sends) -> Callable[[float], Awaitable[float]]:
        return lambda some: flood(system.store, what, seconds=some)

    def pulls(queues: list[tuple[str, int]]) -> Callable[[float], Awaitable[float]]:
        return lambda some: pull_rate(system.store, queues, some)

    await create(system, {"narrow": 10})
    await flood(system.store, narrow, seconds=2)
    few_pulls = await rates.of(pulls(narrow_queues))
    await create(system, dict.fromkeys(wide_topics, TOPIC_QUEUES))
    wide, *more = (Sends(topic, range(TOPIC_QUEUES), BODY) for topic in wide_topics)
    wide.go_on_with(more)
    await _settle(system, wide)
    few_sends = await rates.of(
        sends(narrow)
    )  # again, alternating: the log has grown meanwhile, which must not affect the ratio
    _report("sends, 10,000 queues", await rates.of(sends(wide)), few_sends)
    _report("pulls, 10 of 10,000 queues", await rates.of(pulls(narrow_queues)), few_pulls)
    _report("pulls, 10,000 queues", await rates.of(pulls(wide_queues)), few_pulls)
    turn_ms = await _figure(system, "checkpoint_longest_turn_seconds") * 1000
    figure("growth.turn", turn_ms, "ms")
    proc = Path(f"/proc/{system.store_pid}")
    resident = int(re.findall(r"VmRSS:\s+(\d+)", (proc / "status").read_text())[0]) / 1024
    figure(
        "growth.memory, 10,000 queues",
        resident,
        "MiB",
        words=f"{len(list((proc / 'fd').iterdir()))} descriptors",
    )
    await create(system, {f"held{n}": TOPIC_QUEUES for n in range(HELD_PULLS // TOPIC_QUEUES)})
    figures: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for held in (10, HELD_PULLS):
        connections = await hold(system, held)
        figures.append((await rates.of(sends(narrow)), await rates.of(pulls(narrow_queues))))
        for connection in connections:
            connection.close()
    (ten_sends, ten_pulls), (held_sends, held_pulls) = figures
    _report("sends, 10,000 held", held_sends, ten_sends)
    _report("pulls, 10,000 held", held_pulls, ten_pulls)


def _report(name: str, found: tuple[float, float], few: tuple[float, float]) -> None:
    words = f"CPU us of the store each {found[1]:.1f}, with 10 {few[1]:.1f}"
    figure(f"growth.{name}", found[0], "msg/s", floor=few[0], beside="with 10", words=words)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=9.0, help="of each measurement")
    parser.add_argument("--flush", default="sync", choices=["sync", "async"])
    arguments = parser.parse_args()
    with started("--flush", arguments.flush) as system:
        print(f"growth; {provenance(arguments.flush)}")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(measure(system, arguments.seconds))


if __name__ == "__main__":
    main()
