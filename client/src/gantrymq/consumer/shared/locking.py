"""Locks of queues at their brokers (41, 42): only the holder may consume a queue in order. One request per broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from gantry_link.clients.store import StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.bodies import cluster as cluster_bodies
from gantry_wire.bodies.clients import LockBatchRequestBody, LockBatchResponseBody
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.codes import RequestCode
from gantry_wire.errors import MalformedBody
from gantrymq.errors import GantryError
from gantrymq.message import MessageQueue

log: logging.Logger = logging.getLogger("gantrymq")

LOCK_SECONDS = 1.0
"""The timeout of a lock request (RocketMQ's)."""


class Locks:
    """Requests the locks of a member from brokers."""

    def __init__(self, group: str, client_id: str, store_of: Callable[[str], StoreClient]) -> None:
        self._group = group
        self._client_id = client_id
        self._store_of = store_of

    async def lock(self, queues: Collection[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Lock queues, or refresh their locks; return those held now, and those whose broker did not answer."""
        by_broker = _by_broker(queues)
        results = await asyncio.gather(*[self._lock(broker, mine) for broker, mine in by_broker.items()])
        held: set[MessageQueue] = set()
        unknown: set[MessageQueue] = set()
        for mine, granted in zip(by_broker.values(), results, strict=True):
            if granted is None:
                unknown.update(mine)
            else:
                held |= granted
        return held, unknown

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Release locks, so that the next member need not wait for their expiry. An unreachable broker lets them expire."""
        by_broker = _by_broker(queues)
        await asyncio.gather(*[self._unlock(broker, mine) for broker, mine in by_broker.items()])

    async def _lock(self, broker: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        try:
            answer = await self._store_of(broker).ask(
                RequestCode.LOCK_BATCH_MQ, None, self._body(queues), timeout_seconds=LOCK_SECONDS
            )
            locked = decode_body(answer.body, LockBatchResponseBody).lock_ok_mq_set
        except (BrokerRefused, LinkError, GantryError, MalformedBody) as error:
            log.warning("group %s: broker %s did not answer the lock request: %s", self._group, broker, error)
            return None
        return {MessageQueue(each.topic, each.broker_name, each.queue_id) for each in locked}

    async def _unlock(self, broker: str, queues: list[MessageQueue]) -> None:
        try:
            await self._store_of(broker).ask(
                RequestCode.UNLOCK_BATCH_MQ, None, self._body(queues), timeout_seconds=LOCK_SECONDS
            )
        except (BrokerRefused, LinkError, GantryError) as error:
            log.info("group %s: locks at broker %s are left to expire: %s", self._group, broker, error)

    def _body(self, queues: Iterable[MessageQueue]) -> bytes:
        wanted = [
            cluster_bodies.MessageQueue(broker_name=each.broker, queue_id=each.queue_id, topic=each.topic)
            for each in queues
        ]
        body = LockBatchRequestBody(client_id=self._client_id, consumer_group=self._group, mq_set=wanted)
        return encode_body(body)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker, []).append(queue)
    return by_broker
