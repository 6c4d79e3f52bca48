"""A commit of a LitePullConsumer returns when the brokers have saved it, and raises if they did not."""

import pytest
from scripted_cluster import cluster
from scripted_group import FIRST, MESSAGES, GroupBroker

from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantrymq import (
    ConfigurationError,
    ConnectionFailed,
    GantryError,
    LitePullConsumer,
    MessageQueue,
    Refused,
    TimedOut,
)

pytestmark = pytest.mark.anyio


class Forgetful(GroupBroker):
    """Answers commits as a test says: not at all, with a refusal, by hanging up, or as it should."""

    how = "kept"

    def __call__(self, peer, frame):
        command = decode_command(frame)
        if command.is_response or command.code != RequestCode.UPDATE_CONSUMER_OFFSET or self.how == "kept":
            super().__call__(peer, frame)
        elif self.how == "refused":
            peer.send(encode_response(14, command.opaque, None, b"", "not now"))
        elif self.how == "cut":
            peer.close()


@pytest.mark.parametrize(
    ("how", "kind"), [("silent", TimedOut), ("refused", Refused), ("cut", ConnectionFailed)]
)
async def test_a_commit_that_no_broker_saves_raises_and_the_next_one_succeeds(
    how: str, kind: type[GantryError]
) -> None:
    broker = Forgetful()
    async with cluster(broker) as (_, address):
        consumer = LitePullConsumer(
            "g", nameservers=address, start=FIRST, auto_commit=False, request_timeout=0.3
        )
        consumer.subscribe("T")
        async with consumer:
            seen = []
            while len(seen) < 2 * MESSAGES:
                seen += await consumer.poll(30)
            broker.how = how
            with pytest.raises(kind, match="committing 2 queues failed for 2"):
                await consumer.commit()
            broker.how = "kept"
            await consumer.commit()
            assert broker.offsets["T", 0] == broker.offsets["T", 1] == MESSAGES


async def test_a_commit_of_an_unassigned_queue_raises() -> None:
    async with cluster(GroupBroker()) as (_, address):
        consumer = LitePullConsumer("g", nameservers=address, start=FIRST, auto_commit=False)
        consumer.subscribe("T")
        async with consumer:
            await consumer.poll(30)
            with pytest.raises(ConfigurationError, match="not read by this consumer now"):
                await consumer.commit([MessageQueue("T", "broker-a", 9)])
