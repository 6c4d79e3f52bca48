"""A broker whose answers lack required parts: the caller gets an error of the SDK, and background reads are retried."""

import base64
from datetime import UTC, datetime

import pytest
from scripted_cluster import Broker, cluster

from gantrymq import LitePullConsumer, Producer, PullConsumer, Refused

pytestmark = pytest.mark.anyio


async def test_an_unreadable_answer_raises_a_clear_error() -> None:
    async with (
        cluster(Broker("a")) as (_, address),
        PullConsumer("g", nameservers=address) as consumer,
        Producer("p", nameservers=address) as producer,
    ):
        queue = (await consumer.queues("T"))[0]
        handle = base64.urlsafe_b64encode(b"v1 T a 1700000000000 ABCDEF").decode()
        for asked in (
            consumer.pull(queue, 0),
            consumer.min_offset(queue),
            consumer.max_offset(queue),
            consumer.committed(queue),
            consumer.offset_at(queue, datetime.now(UTC)),
            producer.cancel(handle),
        ):
            with pytest.raises(Refused, match="the answer cannot be read"):
                await asked
        lite = LitePullConsumer("lite", nameservers=address)
        await lite.assign([queue])
        async with lite:
            assert lite.assignment == []
            with pytest.raises(Refused, match="the answer cannot be read"):
                await lite.committed(queue)
