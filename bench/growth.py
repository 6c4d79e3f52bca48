"""Does it stay fast when it grows? Sends and pulls with 10 queues and 10,000, with 10 held pulls and 10,000.

python bench/growth.py [--seconds 8] [--flush sync]
"""

from __future__ import annotations

import argparse
import asyncio
import time

import uvloop
from flood import Sends, flood
from store_send import figure
from system import System, provenance, started

from gantry_link.connection import Connection, connect
from gantry_wire.codes import RequestCode
from gantry_wire.headers import PullHeader, PullReplyHeader

BODY = bytes(128)
TOPIC_QUEUES = 1000
WIDE_TOPICS = 10
HELD_CONNECTIONS = 100
HELD_PER_CONNECTION = 100
GOAL = 0.8
SETTLE_SECONDS_MAX = 240.0


def _create(topic: str, queues: int) -> dict[str, str]:
    return {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip


def _pull(topic: str, queue_id: int, offset: int, hold_ms: int) -> PullHeader:
    return PullHeader(
        consumer_group="growth", topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=32,
        sys_flag=4 | (2 if hold_ms else 0), commit_offset=0, suspend_timeout_millis=hold_ms, subscription="*", sub_version=0,
    )  # fmt: skip


async def pull_rate(
    connection: Connection, topic: str, queues: int, seconds: float, window: int = 8
) -> float:
    """Messages per second pulled of what lies in the first queues, over and over, `window` pulls under way."""
    until, count = time.monotonic() + seconds, 0

    async def puller(queue_id: int) -> None:
        nonlocal count
        offset = 0
        while time.monotonic() < until:
            answer = await connection.request(
                RequestCode.PULL_MESSAGE, _pull(topic, queue_id % queues, offset, 0), timeout=20
            )
            reply = answer.read(PullReplyHeader)
            count += reply.next_begin_offset - offset if answer.code == 0 else 0
            offset = reply.next_begin_offset if reply.next_begin_offset < reply.max_offset else 0

    await asyncio.gather(*(puller(n) for n in range(window)))
    return count / seconds


async def _flood_all(system: System, wides: list[Sends], seconds: float) -> float:
    """Messages per second over all wide topics at once."""
    rates = await asyncio.gather(
        *(flood(system.store, wide, connections=1, window=26, seconds=seconds) for wide in wides)
    )
    return sum(rates)


async def _settle(system: System, wides: list[Sends]) -> None:
    """Send to the wide topics until a checkpoint covers them: a queue's first one makes its files, which is not what is asked here."""
    port = int(system.raw["brokers"][0]["http"].rpartition(":")[2])
    end = time.monotonic() + SETTLE_SECONDS_MAX
    await _flood_all(system, wides, 4.0)
    before = await asyncio.to_thread(figure, port, "checkpoints")
    while (
        await asyncio.to_thread(figure, port, "checkpoints") < before + 2
    ):  # the first may have begun earlier
        if time.monotonic() > end:
            print("no checkpoint covers the new queues yet: what follows makes their files too")
            return
        await _flood_all(system, wides, 2.0)


async def hold(system: System, admin: Connection) -> list[Connection]:
    """Ten thousand pulls, held on a hundred connections, each on a queue of its own."""
    connections: list[Connection] = []
    for number in range(HELD_CONNECTIONS):
        connection = await connect(system.store)
        connections.append(connection)
        for place in range(HELD_PER_CONNECTION):
            queue = number * HELD_PER_CONNECTION + place
            topic = f"held{queue // TOPIC_QUEUES}"
            connection.request(
                RequestCode.PULL_MESSAGE, _pull(topic, queue % TOPIC_QUEUES, 0, 300_000), timeout=300
            ).add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.sleep(0)
    await admin.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout=30)
    await asyncio.sleep(2)
    return connections


async def measure(system: System, seconds: float) -> None:
    admin = await connect(system.store)
    for topic, queues in [
        ("narrow", 10),
        *((f"wide{n}", TOPIC_QUEUES) for n in range(WIDE_TOPICS)),
        *((f"held{n}", TOPIC_QUEUES) for n in range(10)),
    ]:
        answer = await admin.request(RequestCode.UPDATE_AND_CREATE_TOPIC, _create(topic, queues), timeout=30)
        assert answer.code == 0, answer.remark
    narrow = Sends("narrow", range(10), BODY)
    await flood(system.store, narrow, seconds=2)
    few_sends = await flood(system.store, narrow, seconds=seconds)
    few_pulls = await pull_rate(admin, "narrow", 10, seconds / 2)
    wides = [Sends(f"wide{n}", range(TOPIC_QUEUES), BODY) for n in range(WIDE_TOPICS)]
    await _settle(system, wides)
    many = await _flood_all(system, wides, seconds)
    many_pulls = await pull_rate(admin, "narrow", 10, seconds / 2)
    _print("sends, 10,000 queues against 10", many, few_sends)
    _print("pulls beside 10,000 queues", many_pulls, few_pulls)
    before = await flood(system.store, narrow, seconds=seconds)
    connections = await hold(system, admin)
    held_sends = await flood(system.store, narrow, seconds=seconds)
    held_pulls = await pull_rate(admin, "narrow", 10, seconds / 2)
    _print("sends with 10,000 held pulls", held_sends, before)
    _print("pulls with 10,000 held pulls", held_pulls, few_pulls)
    for connection in [*connections, admin]:
        connection.close()


def _print(name: str, figure: float, beside: float) -> None:
    verdict = "" if figure >= GOAL * beside else "   MISSED"
    print(
        f"{name:<34} {figure:>10,.0f} msg/s   beside {beside:>10,.0f}   ratio {figure / beside:.2f} (goal ≥ {GOAL}){verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--flush", default="sync", choices=["sync", "async"])
    arguments = parser.parse_args()
    with started("--flush", arguments.flush) as system:
        print(f"growth; {provenance(arguments.flush)}")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(measure(system, arguments.seconds))


if __name__ == "__main__":
    main()
