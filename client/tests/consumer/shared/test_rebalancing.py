"""Queues follow the members of a group, and stay while no broker answers."""

import asyncio
from collections.abc import Sequence

import pytest
from received import QUEUES, until

from gantry_link.errors import NotConnected
from gantrymq.consumer.shared.rebalancing import Rebalancer
from gantrymq.consumer.shared.strategies import Averagely
from gantrymq.consumer.subscriptions.subscription import Subscription
from gantrymq.errors import NoRoute
from gantrymq.message import MessageQueue

pytestmark = pytest.mark.anyio


class Group:
    """A cluster of two brokers, and who is in the group."""

    client_id = "me"

    def __init__(self) -> None:
        self.ids: list[str] | None = ["me"]
        self.topics = {"orders": QUEUES}
        self.heartbeats = 0
        self.hands: set[MessageQueue] = set()

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        if topic not in self.topics:
            raise NoRoute("unknown")
        return self.topics[topic]

    def store(self, broker: str):
        return self

    async def consumer_ids(self, group: str) -> list[str]:
        if self.ids is None:
            raise NotConnected("away")
        return self.ids

    def heartbeat_soon(self) -> None:
        self.heartbeats += 1

    def topics_held(self) -> set[str]:
        return {queue.topic for queue in self.hands}

    def held(self, topic: str) -> list[MessageQueue]:
        return [queue for queue in self.hands if queue.topic == topic]

    async def take(self, queues: Sequence[MessageQueue]) -> bool:
        self.hands.update(queues)
        return True

    async def drop(self, queues) -> bool:
        self.hands.difference_update(queues)
        return True

    async def finish_drops(self) -> bool:
        return True


class Hands:
    """The same, as the rebalancer's holder."""

    def __init__(self, group: Group) -> None:
        self.topics, self.held, self.take = group.topics_held, group.held, group.take
        self.drop, self.finish_drops = group.drop, group.finish_drops


async def test_queues_follow_the_members_and_stay_while_no_broker_answers() -> None:
    group = Group()
    subscriptions = {"orders": Subscription("orders")}
    rebalancer = Rebalancer(group, Hands(group), "g", subscriptions, Averagely(), 20.0)
    assert await rebalancer.balance()
    assert group.hands == set(QUEUES)
    group.ids = ["me", "other"]
    assert await rebalancer.balance()
    assert group.hands == set(QUEUES[:2])
    group.ids = None
    assert not await rebalancer.balance(), "the broker is away: to be tried again soon"
    assert group.hands == set(QUEUES[:2])
    group.ids = ["other"]
    assert not await rebalancer.balance(), "the broker does not know us: a heartbeat, and again"
    assert (group.heartbeats, group.hands) == (1, set(QUEUES[:2]))
    subscriptions["new"] = Subscription("new")
    group.ids = ["me"]
    assert not await rebalancer.balance(), "a topic that does not exist yet holds nothing up"
    assert group.hands == set(QUEUES)
    del subscriptions["orders"], subscriptions["new"]
    assert await rebalancer.balance()
    assert group.hands == set()


async def test_a_requested_rebalance_runs_at_once() -> None:
    group = Group()
    rebalancer = Rebalancer(group, Hands(group), "g", {"orders": Subscription("orders")}, None, 3600.0)
    running = asyncio.ensure_future(rebalancer.run())
    await until(lambda: len(group.hands) == 4)
    group.topics["orders"] = QUEUES[:1]
    rebalancer.soon()
    await until(lambda: len(group.hands) == 1)
    rebalancer.close()
    async with asyncio.timeout(30):
        await running
