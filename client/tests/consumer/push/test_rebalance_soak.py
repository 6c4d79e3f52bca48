"""Members of a group join, leave and are killed while messages flow: nothing is lost, duplicates are counted, orderly ones keep the order.

SOAK_SECONDS=300 SOAK_RATE=2000 .venv/bin/python -m pytest -q -s -m soak client/tests/consumer/push/test_rebalance_soak.py
"""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
from asyncio.subprocess import Process
from collections import defaultdict, deque
from pathlib import Path

import pytest
from consuming import Served, client_of, fresh, make_topic

from gantrymq import Message, MessageQueue, Producer, SendResult

pytestmark = [pytest.mark.anyio, pytest.mark.soak, pytest.mark.timeout(3600)]
PROGRAM = Path(__file__).with_name("killed_consumer_program.py")
SECONDS = float(os.environ.get("SOAK_SECONDS", "300"))
RATE = int(os.environ.get("SOAK_RATE", "2000"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
QUEUES, MEMBERS = 16, 4
IN_FLIGHT = 16
"""Of one queue."""
CHANGE_SECONDS = 5.0
DRAIN_SECONDS = 180.0


class Members:
    """Processes that consume, and the files they write."""

    def __init__(self, arguments: tuple[str, str, str], order: str, folder: Path) -> None:
        self.arguments, self.order, self.folder = arguments, order, folder
        self.processes: list[Process] = []
        self.started = self.killed = self.left = 0

    async def join(self) -> None:
        file = self.folder / f"{self.started}"
        file.touch()
        self.started += 1
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = (sys.executable, str(PROGRAM), *self.arguments, str(file), self.order)
        self.processes.append(await asyncio.create_subprocess_exec(*command, env=environment))

    async def end_one(self, rng: random.Random, *, kill: bool) -> None:
        process = self.processes.pop(rng.randrange(len(self.processes)))
        self.killed += kill
        self.left += not kill
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        await process.wait()

    def lines(self) -> list[list[tuple[str, int, int]]]:
        """Return for each member what it consumed: queue, number, time."""
        return [
            [
                (queue, int(number), int(at))
                for queue, number, at in (
                    line.split() for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")
                )
            ]
            for file in sorted(self.folder.iterdir(), key=lambda file: int(file.name))
        ]


async def send_in_order(producer: Producer, topic: str, queue: MessageQueue, first: int, until: float) -> int:
    """Send ascending numbers to one queue at its share of the rate; returns how many.

    Several are on their way: on a busy machine the rate would else be that of answers. One connection keeps their order.
    """
    loop, sent = asyncio.get_running_loop(), 1
    await producer.send(Message(topic, b"%d" % first), queue=queue)  # the connection is there from now on
    on_their_way: deque[asyncio.Future[SendResult]] = deque()
    began = loop.time()
    while loop.time() < until:
        number = first + sent * QUEUES
        on_their_way.append(producer.send_soon(Message(topic, b"%d" % number), queue=queue))
        sent += 1
        if len(on_their_way) >= IN_FLIGHT:
            await on_their_way.popleft()
        await asyncio.sleep(max(began + sent * QUEUES / RATE - loop.time(), 0))
    await asyncio.gather(*on_their_way)
    return sent


@pytest.mark.parametrize("order", ["concurrent", "orderly"])
async def test_joining_and_leaving_members_lose_nothing(served: Served, tmp_path: Path, order: str) -> None:
    topic, group = await make_topic(served, queues=QUEUES // len(served.brokers)), fresh("g")
    async with client_of(served) as client:
        queues = await client.subscribe_queues(topic)
    rng = random.Random(SEED)
    members = Members((served.nameserver, group, topic), order, tmp_path)
    until = asyncio.get_running_loop().time() + SECONDS
    async with (
        Producer(fresh("p"), nameservers=served.nameserver, send_timeout=60.0) as producer,
        asyncio.TaskGroup() as tasks,
    ):
        senders = [
            tasks.create_task(send_in_order(producer, topic, queue, number, until))
            for number, queue in enumerate(queues)
        ]
        tasks.create_task(change_members(members, rng, until))
    wanted = {first + n * QUEUES for first, sender in enumerate(senders) for n in range(sender.result())}
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while wanted - {number for lines in members.lines() for _, number, _ in lines}:
                await asyncio.sleep(1.0)
    finally:
        for process in members.processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
    seen = [line for lines in members.lines() for line in lines]
    print(  # noqa: T201 - the counts are the result
        f"\n{order}: {len(wanted)} sent, 0 lost, {len(seen) - len(wanted)} doubles; "
        f"{members.started} members, {members.killed} killed, {members.left} left"
    )
    if order == "orderly":
        assert out_of_order(members.lines()) == []


async def change_members(members: Members, rng: random.Random, until: float) -> None:
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        if len(members.processes) >= MEMBERS:
            await members.end_one(rng, kill=rng.random() < 0.5)
        while len(members.processes) < MEMBERS:
            await members.join()
        await asyncio.sleep(CHANGE_SECONDS * rng.uniform(0.5, 1.5))


def out_of_order(of_members: list[list[tuple[str, int, int]]]) -> list[tuple[str, int, int]]:
    """Return pairs of one queue of which the later was consumed first, before the earlier was consumed at all."""
    first_at: dict[str, dict[int, int]] = defaultdict(dict)
    for lines in of_members:
        for queue, number, at in lines:
            first_at[queue][number] = min(at, first_at[queue].get(number, at))
    wrong: list[tuple[str, int, int]] = []
    for queue, times in first_at.items():
        numbers = sorted(times)
        wrong += [(queue, a, b) for a, b in itertools.pairwise(numbers) if times[a] > times[b]]
    return wrong
