"""A worker that is asked to end by SIGTERM ends its calls, writes its offsets and leaves: nothing comes twice."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from consuming import Served, fill, fresh, make_topic, until

from gantry import ConsumeFromWhere, PushConsumer, ReceivedMessage
from gantry.consumer.signals import caught_signals

pytestmark = pytest.mark.anyio
PROGRAM = Path(__file__).with_name("stopped_consumer_program.py")
COUNT = 600


@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["concurrent", "orderly", "batch", "threads", "blocking"])
async def test_nothing_comes_twice_after_sigterm(served: Served, tmp_path: Path, kind: str) -> None:
    topic, group, file = await make_topic(served), fresh("g"), tmp_path / "seen"
    file.touch()
    await fill(served, topic, COUNT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    arguments = (str(PROGRAM), served.nameserver, group, topic, str(file), kind)
    worker = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        await until(lambda: file.read_text().count("\n") >= 60)
        worker.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            said, _ = await worker.communicate()
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    assert (worker.returncode, said) == (0, b"ended in order\n")
    before = [int(line) for line in file.read_text().split()]
    assert len(before) < COUNT, "it was stopped amid its work"
    after: list[int] = []
    rest = PushConsumer(
        group,
        nameservers=served.nameserver,
        start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        orderly=kind == "orderly",
    )
    rest.subscribe(topic)

    @rest.listener
    async def listener(messages: list[ReceivedMessage]) -> None:
        after.extend(int(message.body) for message in messages)

    async with rest:
        await until(lambda: len({*before, *after}) == COUNT)
    assert len(before) + len(after) == COUNT, "doubles"


async def test_a_signal_that_the_program_handles_is_left_to_it() -> None:
    loop, heard = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, heard.set)
    try:
        with caught_signals(lambda: pytest.fail("not ours")) as caught:
            os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(60):
                await heard.wait()
        assert caught == []
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def test_handlers_are_given_back_after_the_first_signal() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stopped = asyncio.Event()
    with caught_signals(stopped.set) as caught:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(60):
            await stopped.wait()
        assert signal.getsignal(signal.SIGTERM) == before
    assert caught == [signal.SIGTERM]
