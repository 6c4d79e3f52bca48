"""Delayed messages: lateness at a fixed rate, the delivery of very many due at once, the cost of very many pending ones.

Lateness counts from the instant the store promised to the arrival at a consumer that holds a pull. Producer, consumer and store
share a machine and its clock. A message that arrives before its time counts as early. Each measurement is printed with its goal.

    python bench/delayed/delay.py [--only lateness|burst|pending] [--rate 1000] [--seconds 60] [--burst 100000] [--pending 1000000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from datetime import datetime
from pathlib import Path

import uvloop

from delayed.delay_load import (
    STEADY,
    TOPIC,
    Others,
    connected,
    consume,
    header_of,
    others,
    pss_mib,
    ready_scheduler,
    schedule,
    scheduler_pid,
)
from gantry_link.clients.scheduler import SchedulerClient
from gantry_link.clients.store import StoreClient
from gantry_link.connections.connection import Connection
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.private_requests.scheduling import ScheduleOrder
from measuring.pacing import moments
from measuring.system import System, cpu_seconds, no_collections, percentile, provenance, started
from reporting.figures import figure
from system_speed.latency import HttpLine

PARTS = ("lateness", "burst", "pending")
WARM_SECONDS = 2.0
STEADY_RATE, STEADY_SECONDS = 5000, 20
CANCELS = 500
ALONE_SECONDS = 4.0


async def lateness(system: System, rate: float, seconds: float, *, over_http: bool) -> None:
    async with connected(system) as (store, producer):
        total, due, sending = int(rate * seconds), dict[int, int](), set[asyncio.Task[None]]()
        taken: list[tuple[int, float, int]] = []
        lines: asyncio.Queue[HttpLine] = asyncio.Queue()
        for _ in range(32 if over_http else 0):
            lines.put_nowait(line := HttpLine(system.http))
            await line.open()

        async def by_remoting(number: int) -> None:
            instant = f"TIMER_DELIVER_MS\x01{int(time.time() * 1000) + random.randint(1000, 3000)}\x02"
            properties = f"UNIQ_KEY\x01{number:032d}\x02" + (instant if number % 2 else "DELAY\x011\x02")
            answer = await producer.request(
                RequestCode.SEND_MESSAGE_V2, header_of(TOPIC, properties), b"%d" % number, timeout=30
            )
            assert answer.code == 0, answer.remark
            due[number] = answer.read(SendReplyHeader).deliver_ms or 0

        async def by_http(number: int) -> None:
            line = await lines.get()
            at = datetime.fromtimestamp(time.time() + random.uniform(1, 3)).astimezone().isoformat()
            delay = {"deliverAt": at} if number % 2 else {"delayLevel": 1}
            body = json.dumps({"messages": [{"body": str(number), **delay}]}).encode()
            status, answer = await line.call("POST", f"/v1/topics/{TOPIC}/messages", body)
            lines.put_nowait(line)
            assert status == 200, answer
            delivery = datetime.fromisoformat(json.loads(answer)["results"][0]["deliverAt"])
            due[number] = round(delivery.timestamp() * 1000)

        pids = {"store": system.store_pid, "scheduler": scheduler_pid(system)}
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        no_collections()
        first = await store.max_offset(TOPIC, 0)
        consuming = asyncio.ensure_future(consume(system.store, first, total, taken))
        async for number, _ in moments(rate, seconds):
            sending.add(task := asyncio.ensure_future((by_http if over_http else by_remoting)(number)))
            task.add_done_callback(lambda done: (sending.discard(done), done.result()))
        await asyncio.gather(*sending)
        await asyncio.wait_for(consuming, 60)
        cost = [f"{name} {(cpu_seconds(pid) - before[name]) / total * 1e6:.0f}" for name, pid in pids.items()]
        way = "HTTP" if over_http else "remoting"
        print(f"lateness {way}: {total} at {rate:g}/s; CPU µs a message: {', '.join(cost)}")
        tell_lateness(way, due, taken, int(rate * WARM_SECONDS))


def tell_lateness(way: str, due: dict[int, int], taken: list[tuple[int, float, int]], warm: int) -> None:
    ordered = sorted(arrived - due[number] for number, arrived, _ in taken if number > warm)
    early = sum(stored < due[number] for number, _, stored in taken)
    doubles = len(taken) - len({number for number, *_ in taken})
    for share in (0.5, 0.99, 0.999):
        figure(f"delay.{way}.p{share * 100:g}", percentile(ordered, share), "ms")
    figure(f"delay.{way}.early", early, "", words=f"doubled {doubles}")


async def burst(system: System, messages: int) -> None:
    async with connected(system) as (store, connection):
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(ALONE_SECONDS, stop.set)
        alone = await others(system, stop)
        due_ms = int((time.time() + 15 + messages / alone.sends * 4) * 1000)
        rate = await schedule(connection, TOPIC, ((number, due_ms) for number in range(messages)))
        left = due_ms / 1000 - time.time()
        print(f"burst: {messages} scheduled at {rate:,.0f}/s, {left:.1f} s before they are due")
        await asyncio.sleep(max(due_ms / 1000 - time.time(), 0))
        stop.clear()
        beside = asyncio.ensure_future(others(system, stop))
        pid = scheduler_pid(system)
        before = cpu_seconds(pid), cpu_seconds(system.store_pid)
        while await store.max_offset(TOPIC, 0) < messages and time.time() < due_ms / 1000 + 120:
            await asyncio.sleep(0.02)
        took, count = time.time() - due_ms / 1000, await store.max_offset(TOPIC, 0)
        stop.set()
        meanwhile = await beside
        words = (
            f"CPU µs a message: scheduler {(cpu_seconds(pid) - before[0]) / count * 1e6:.0f}, "
            f"store with the others {(cpu_seconds(system.store_pid) - before[1]) / count * 1e6:.0f}"
        )
        figure("delay.burst", took, "s", words=words)
        tell_others(alone, meanwhile)


def tell_others(alone: Others, meanwhile: Others) -> None:
    figure("delay.burst.sends", meanwhile.sends, "/s", floor=alone.sends, beside="before")
    figure("delay.burst.pulls", meanwhile.pulls, "/s", floor=alone.pulls, beside="before")


async def pending(system: System, messages: int) -> None:
    async with connected(system) as (store, connection):
        due_ms = int(time.time() * 1000) + 7_200_000
        instants = ((number, due_ms + number * 7919 % 3_600_000) for number in range(messages))
        rate = await schedule(connection, TOPIC, instants)
        scheduler, pid = await ready_scheduler(store), scheduler_pid(system)
        print(
            f"pending: {messages} scheduled at {rate:,.0f}/s; CPU of the scheduler {cpu_seconds(pid) / messages * 1e6:.0f} µs each"
        )
        figure("delay.pending.memory", pss_mib(pid), "MiB")
        await cancels("cancel", scheduler, messages)
        await steady(store, connection, messages, rate)
        await killed("takeover", system, store)
        for file in Path(system.raw["brokers"][0]["store"]).parent.rglob("*.due.sqlite*"):
            file.unlink()
        scheduler = await killed("rebuild", system, store)
        figure("delay.pending.memory, rebuilt", pss_mib(scheduler_pid(system)), "MiB")
        await cancels("cancel, rebuilt", scheduler, messages)


async def killed(name: str, system: System, store: StoreClient) -> SchedulerClient:
    """Kill the scheduler, and wait until the next one has the complete index."""
    os.kill(scheduler_pid(system), signal.SIGKILL)
    began = time.perf_counter()
    scheduler = await ready_scheduler(store)
    took = time.perf_counter() - began
    figure(f"delay.pending.{name}", took, "s", words=f"CPU {cpu_seconds(scheduler_pid(system)):.1f} s")
    return scheduler


async def cancels(name: str, scheduler: SchedulerClient, messages: int) -> None:
    """Cancel messages that were not cancelled before, one after the other."""
    took: list[float] = []
    while len(took) < min(CANCELS, messages // 4):
        began = time.perf_counter()
        answer = await scheduler.cancel(ScheduleOrder(id=f"{random.randrange(messages):032d}"))
        took.append((time.perf_counter() - began) * 1000)
        assert answer.status == "cancelled", answer
    took.sort()
    for share in (0.5, 0.99):
        figure(f"delay.pending.{name}.p{share * 100:g}", percentile(took, share), "ms")


async def steady(store: StoreClient, connection: Connection, first: int, rate: float) -> None:
    """Measure STEADY_RATE due a second next to the pending ones. `rate`: the possible rate of scheduling."""
    count = STEADY_RATE * STEADY_SECONDS
    begin_ms = int((time.time() + 15 + count / rate * 2) * 1000)
    await schedule(
        connection,
        STEADY,
        ((first + number, begin_ms + number * 1000 // STEADY_RATE) for number in range(count)),
    )
    end = begin_ms / 1000 + STEADY_SECONDS
    await asyncio.sleep(max(end - time.time(), 0))
    delivered = await store.max_offset(STEADY, 0)
    while await store.max_offset(STEADY, 0) < count and time.time() < end + 120:
        await asyncio.sleep(0.005)
    words = f"{delivered / STEADY_SECONDS:,.0f} of {STEADY_RATE:,} a second in their {STEADY_SECONDS} s"
    figure("delay.pending.due", time.time() - end, "s", words=words)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, help="only this part")
    parser.add_argument("--rate", type=float, default=1000.0, help="messages due per second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--burst", type=int, default=100_000, help="messages due in one instant")
    parser.add_argument("--pending", type=int, default=1_000_000, help="messages that wait")
    parser.add_argument("--flush", default="sync", choices=["sync", "async"])
    arguments = parser.parse_args()

    def runs(what: str, flush: str) -> None:
        with (
            started("--flush", flush) as system,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            if what == "lateness":
                for over_http in (False, True):
                    runner.run(lateness(system, arguments.rate, arguments.seconds, over_http=over_http))
            elif what == "burst":
                runner.run(burst(system, arguments.burst))
            else:
                runner.run(pending(system, arguments.pending))

    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] - each figure is shown as it is taken
    print(f"delayed messages; {provenance(arguments.flush)}")
    for what in (arguments.only,) if arguments.only else PARTS:
        runs(what, arguments.flush)


if __name__ == "__main__":
    main()
