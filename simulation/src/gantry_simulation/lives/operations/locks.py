"""Queue locks, asked of every replica of a broker: only one of them may grant."""

from __future__ import annotations

import asyncio

from gantry_link.clients.store import StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.lives.operations.doing import GROUP, Doing, Operation, topic_of
from gantry_simulation.lives.plan import Act
from gantry_wire.bodies.clients import LockBatchRequestBody
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode

LOCK = "lock everywhere"


async def lock_everywhere(doing: Doing, act: Act) -> None:
    """Ask all replicas for the lock of a queue, at once."""
    queue = MessageQueue(topic=topic_of(act), broker_name=act.on, queue_id=act.queue)
    body = LockBatchRequestBody(client_id=doing.name, consumer_group=GROUP, mq_set=[queue])

    async def ask(replica: StoreClient) -> str:
        try:
            await replica.ask(RequestCode.LOCK_BATCH_MQ, None, encode_body(body))
        except (BrokerRefused, LinkError):
            return "no"
        return "yes"

    answers = await asyncio.gather(*map(ask, doing.replicas(act.on)))
    doing.history.add(doing.name, f"asks for a lock everywhere: {', '.join(answers)}")


OPERATIONS: dict[str, Operation] = {LOCK: lock_everywhere}
