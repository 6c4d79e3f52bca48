"""The queues of a LitePullConsumer while its broker fails, or has moved its offsets."""

import asyncio

import pytest
from scripted_cluster import cluster
from scripted_group import FIRST, MESSAGES, GroupBroker

from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantrymq import LitePullConsumer, MessageQueue
from gantrymq.consumer.lite import reading

pytestmark = pytest.mark.anyio
QUEUE = MessageQueue("T", "broker-a", 0)


class Faulty(GroupBroker):
    """Refuses so many queries of an offset (14), answers no commit (15) if it is silent, and answers 21 beyond its end."""

    def __init__(self, refused: int = 0):
        super().__init__()
        self.refused, self.is_silent = refused, False

    def __call__(self, peer, frame):
        command = decode_command(frame)
        if not command.is_response:
            if command.code == RequestCode.QUERY_CONSUMER_OFFSET and self.refused:
                self.refused -= 1
                peer.send(encode_response(1, command.opaque, None, b"", "not now"))
                return
            if command.code == RequestCode.UPDATE_CONSUMER_OFFSET and self.is_silent:
                return
            if command.code == RequestCode.PULL_MESSAGE and int(command.ext["queueOffset"]) > MESSAGES:
                fields = {
                    "nextBeginOffset": "2", "minOffset": "2", "maxOffset": str(MESSAGES), "suggestWhichBrokerId": "0",
                }  # fmt: skip
                peer.send(encode_response(21, command.opaque, fields))
                return
        super().__call__(peer, frame)


async def poll_all(consumer: LitePullConsumer, count: int) -> list[int]:
    seen: list[int] = []
    while len(seen) < count:
        found = await consumer.poll(30)
        assert found, "nothing comes"
        seen += [message.queue_offset for message in found]
    return seen


async def test_an_assigned_queue_is_read_once_its_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ASSIGN_AGAIN_SECONDS", 0.01)
    async with cluster(Faulty(refused=2)) as (_, address):
        consumer = LitePullConsumer("g", nameservers=address, start=FIRST)
        await consumer.assign([QUEUE])
        async with consumer:
            assert await poll_all(consumer, MESSAGES) == list(range(MESSAGES))
            assert consumer.assignment == [QUEUE]


async def test_an_offset_that_moved_back_is_committed() -> None:
    """As after a topic was deleted and created again: the next start would skip its messages."""
    broker = Faulty()
    broker.offsets["T", 0] = 1000
    async with cluster(broker) as (_, address):
        consumer = LitePullConsumer("g", nameservers=address, start=FIRST)
        await consumer.assign([QUEUE])
        async with consumer:
            assert await poll_all(consumer, MESSAGES - 2) == list(range(2, MESSAGES))
        assert broker.offsets["T", 0] == MESSAGES


async def test_a_close_that_is_cancelled_leaves_no_pull_behind() -> None:
    broker = Faulty()
    async with cluster(broker) as (_, address):
        consumer = LitePullConsumer("g", nameservers=address, start=FIRST)
        await consumer.assign([QUEUE])
        await consumer.start()
        await poll_all(consumer, MESSAGES)
        broker.is_silent = True
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.close(), 0.1)
        assert not [task for task in asyncio.all_tasks() if "gantry" in task.get_name()]
