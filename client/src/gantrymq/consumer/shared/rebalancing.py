"""Shares queues: asks for the members of the group, lets the strategy decide, and has queues taken and handed over.

Runs every 20 s, at once after a change, and soon again until everything is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gantry_link.clients.store import StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.errors import MalformedBody
from gantrymq.consumer.shared.strategies import Strategy
from gantrymq.consumer.subscriptions.subscription import Subscription
from gantrymq.errors import GantryError
from gantrymq.message import MessageQueue

log: logging.Logger = logging.getLogger("gantrymq")

AGAIN_SECONDS_MIN, AGAIN_SECONDS_MAX = 0.1, 5.0


@dataclass(slots=True, frozen=True)
class Change:
    """The changes that give this member its share."""

    take: Sequence[MessageQueue]
    drop: Sequence[MessageQueue]


def change(held: Iterable[MessageQueue], allotted: Iterable[MessageQueue]) -> Change:
    """Return the difference between the queues held and those allotted. Pure."""
    now, then = set(held), set(allotted)
    return Change(sorted(then - now), sorted(now - then))


class Cluster(Protocol):
    """The client, as seen from here."""

    client_id: str

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic."""
        ...

    def store(self, broker: str) -> StoreClient:
        """Return calls to a broker's master."""
        ...

    def heartbeat_soon(self) -> None:
        """Send a heartbeat to the brokers soon."""
        ...


class Holder(Protocol):
    """Takes queues and hands them over."""

    def topics(self) -> set[str]:
        """Return the topics of all assigned queues."""
        ...

    def held(self, topic: str) -> list[MessageQueue]:
        """Return the assigned queues of a topic."""
        ...

    async def take(self, queues: Sequence[MessageQueue]) -> bool:
        """Start to consume queues; False if not all could start."""
        ...

    async def drop(self, queues: Collection[MessageQueue]) -> bool:
        """Stop consuming queues, and write their offsets; False if some could not be handed over yet."""
        ...

    async def finish_drops(self) -> bool:
        """Hand over remaining queues; False if some still cannot be."""
        ...


class Rebalancer:
    """Keeps the assigned queues of a consumer up to date."""

    def __init__(
        self,
        cluster: Cluster,
        holder: Holder,
        group: str,
        subscriptions: Mapping[str, Subscription],
        strategy: Strategy | None,
        interval_seconds: float,
    ) -> None:
        """With `strategy` None this member gets all queues (broadcasting)."""
        self._cluster = cluster
        self._holder = holder
        self._group = group
        self._subscriptions = subscriptions
        self._strategy = strategy
        self._interval = interval_seconds
        self._wanted = asyncio.Event()
        self._closed = False
        self._missing: set[str] = set()

    def soon(self) -> None:
        """Rebalance at once."""
        self._wanted.set()

    def close(self) -> None:
        """Make the current round the last: no queue is left half handed over."""
        self._closed = True
        self._wanted.set()

    async def run(self) -> None:
        """Rebalance repeatedly, until closed or cancelled."""
        again = AGAIN_SECONDS_MIN
        while not self._closed:
            self._wanted.clear()
            try:
                complete = await self.balance()
            except Exception:
                log.exception("a fault of the SDK: group %s could not rebalance", self._group)
                complete = False
            if self._closed:
                return
            again = AGAIN_SECONDS_MIN if complete else min(again * 2, AGAIN_SECONDS_MAX)
            try:
                async with asyncio.timeout(self._interval if complete else min(again, self._interval)):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def balance(self) -> bool:
        """Rebalance every topic once; False if something could not be done yet."""
        complete = await self._holder.finish_drops()
        members: dict[str, list[str]] = {}
        for topic in sorted(self._holder.topics() - self._subscriptions.keys()):
            complete &= await self._holder.drop(self._holder.held(topic))
        for topic in list(self._subscriptions):
            complete &= await self._balance_topic(topic, members)
        return complete

    async def _balance_topic(self, topic: str, members: dict[str, list[str]]) -> bool:
        try:
            queues = sorted(await self._cluster.subscribe_queues(topic))
        except GantryError as error:
            if topic not in self._missing:
                self._missing.add(topic)
                log.warning("group %s: topic %s cannot be consumed yet: %s", self._group, topic, error)
            return False
        self._missing.discard(topic)
        if self._strategy is None:
            allotted = queues
        else:
            ids = await self._ask_members(queues, members)
            if ids is None:
                return False
            try:
                allotted = self._strategy.allocate(self._cluster.client_id, queues, ids)
            except Exception:
                log.exception(
                    "group %s: strategy %s failed; the shares of queues do not change",
                    self._group,
                    self._strategy.name,
                )
                return False
        wanted = change(self._holder.held(topic), allotted)
        complete = True
        if wanted.drop:
            log.info("group %s hands over %d queues of %s", self._group, len(wanted.drop), topic)
            complete = await self._holder.drop(wanted.drop)
        if wanted.take:
            log.info("group %s takes %d queues of %s", self._group, len(wanted.take), topic)
            complete &= await self._holder.take(wanted.take)
        return complete

    async def _ask_members(
        self, queues: Sequence[MessageQueue], known: dict[str, list[str]]
    ) -> list[str] | None:
        """Return the group's members from the first broker of the topic that answers; None if none lists this member.

        All members ask the brokers in the same order, so that they get the same answer.
        """
        for broker in sorted({queue.broker for queue in queues}):
            ids = known.get(broker)
            if ids is None:
                try:
                    ids = sorted(await self._cluster.store(broker).consumer_ids(self._group))
                except (BrokerRefused, LinkError, GantryError, MalformedBody) as error:
                    log.info("group %s: broker %s did not return the members: %s", self._group, broker, error)
                    continue
                known[broker] = ids
            if self._cluster.client_id in ids:
                return ids
            log.info("group %s: broker %s does not know this member yet", self._group, broker)
            self._cluster.heartbeat_soon()
            return None
        return None
