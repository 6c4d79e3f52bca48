"""A member that is killed during its work loses nothing: the others continue at its commit, in order if required."""

import asyncio
import os
import signal
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from consuming import Served, fill, fresh, make_topic, until

from gantrymq import ConsumeFromWhere, PushConsumer, ReceivedMessage

pytestmark = [pytest.mark.anyio, pytest.mark.crash]
PROGRAM = Path(__file__).with_name("killed_consumer_program.py")
COUNT = 400


def lines_of(file: Path) -> list[tuple[str, int]]:
    whole = [line.split() for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(queue, int(number)) for queue, number, _ in whole]


@pytest.mark.parametrize("order", ["concurrent", "orderly"])
async def test_nothing_is_lost_when_a_member_is_killed(served: Served, tmp_path: Path, order: str) -> None:
    topic, group = await make_topic(served), fresh("g")
    count = 2 * len(served.brokers)
    file = tmp_path / "seen"
    file.touch()
    await fill(served, topic, COUNT)
    arguments = (served.nameserver, group, topic, str(file), order)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    victim = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), *arguments, env=environment)
    seen: dict[str, list[int]] = defaultdict(list)
    survivor = PushConsumer(
        group,
        nameservers=served.nameserver,
        start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        orderly=order == "orderly",
    )
    survivor.subscribe(topic)

    @survivor.listener
    async def listener(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            seen[f"{message.queue.broker}:{message.queue_id}"].append(int(message.body))
        await asyncio.sleep(0.001)

    try:
        await until(lambda: len(lines_of(file)) >= 20)
        async with survivor:
            await until(
                lambda: len([queue for queue in survivor.queues if queue.topic == topic]) == count // 2
            )
            victim.send_signal(signal.SIGKILL)
            await victim.wait()
            await until(lambda: len([queue for queue in survivor.queues if queue.topic == topic]) == count)
            of_victim = lines_of(file)
            everything = {number for _, number in of_victim}
            await until(lambda: len(everything.union(*seen.values())) == COUNT)
    finally:
        if victim.returncode is None:
            victim.kill()
            await victim.wait()
    for queue, numbers in seen.items():
        if order == "orderly":
            assert numbers == sorted(set(numbers)), "each member sees a queue in order, and nothing twice"
            before = [number for name, number in of_victim if name == queue]
            assert before == sorted(set(before))
