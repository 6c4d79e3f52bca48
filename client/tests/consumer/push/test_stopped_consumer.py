"""A worker that receives SIGTERM finishes its calls, writes its offsets and leaves: nothing is delivered twice."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from consuming import Served, fill, fresh, make_topic, until

from gantry_wire.names import dlq_topic
from gantrymq import ConsumeFromWhere, PullConsumer, PushConsumer, ReceivedMessage
from gantrymq.consumer.push.signals import caught_signals

pytestmark = pytest.mark.anyio
PROGRAM = Path(__file__).with_name("stopped_consumer_program.py")
COUNT = 600


@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["concurrent", "orderly", "batch", "threads", "blocking"])
async def test_nothing_is_delivered_twice_after_sigterm(served: Served, tmp_path: Path, kind: str) -> None:
    topic, group, file = await make_topic(served), fresh("g"), tmp_path / "seen"
    await fill(served, topic, COUNT)
    await stop_amid_work(served, group, topic, file, kind)
    before, after = numbers(file), list[int]()
    assert len(before) < COUNT, "it was stopped amid its work"
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


@pytest.mark.cluster
async def test_sigterm_never_makes_two_dead_letters_of_a_message(served: Served, tmp_path: Path) -> None:
    """What failed is sent back before the offset behind it is written: both, or neither."""
    topic, group, files = await make_topic(served), fresh("g"), [tmp_path / "first", tmp_path / "second"]
    await fill(served, topic, COUNT)
    await stop_amid_work(served, group, topic, files[0], "failing")
    assert len(numbers(files[0])) < COUNT, "it was stopped amid its work"
    await stop_amid_work(served, group, topic, files[1], "failing", at=COUNT - len(numbers(files[0])))
    assert sorted([*numbers(files[0]), *numbers(files[1])]) == list(range(COUNT))
    dead: list[int] = []
    async with PullConsumer(fresh("audit"), nameservers=served.nameserver) as letters:
        for queue in await letters.queues(dlq_topic(group)):
            found = await letters.pull(queue, 0, max_messages=COUNT)
            while found.messages:
                dead += [int(message.body) for message in found.messages]
                found = await letters.pull(queue, found.next_offset, max_messages=COUNT)
    assert sorted(dead) == list(range(0, COUNT, 10))


async def stop_amid_work(
    served: Served, group: str, topic: str, file: Path, kind: str, *, at: int = 60
) -> None:
    """Run the program until it has seen so many messages and is ended by SIGTERM."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    arguments = (str(PROGRAM), served.nameserver, group, topic, str(file), kind, str(at))
    worker = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(120):
            said, _ = await worker.communicate()
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    assert (worker.returncode, said) == (0, b"ended in order\n")


def numbers(file: Path) -> list[int]:
    """Whole lines only: the last one may be half written. The program makes the file."""
    if not file.exists():
        return []
    return [int(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


async def test_a_signal_that_the_program_handles_is_left_alone() -> None:
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


async def test_handlers_are_restored_after_the_first_signal() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stopped = asyncio.Event()
    with caught_signals(stopped.set) as caught:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(60):
            await stopped.wait()
        assert signal.getsignal(signal.SIGTERM) == before
    assert caught == [signal.SIGTERM]
