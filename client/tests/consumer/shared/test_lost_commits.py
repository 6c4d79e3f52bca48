"""Commits that a consumer did not wait for may be lost with a connection or the broker's process, or overtaken: they are written again."""

import pytest
from scripted_cluster import cluster, eventually
from scripted_group import FIRST, MESSAGES, GroupBroker, consumer_at

from gantrymq import LitePullConsumer, PushConsumer

pytestmark = pytest.mark.anyio


def consumer_of(kind: str, address: str) -> PushConsumer | LitePullConsumer:
    if kind == "lite":
        lite = LitePullConsumer("g", nameservers=address, start=FIRST, commit_interval=0.05)
        lite.subscribe("T")
        return lite
    push = consumer_at(address, commit_interval=0.05)
    push.on_messages(lambda messages: None, quick=True)
    return push


def has_all(broker: GroupBroker) -> bool:
    return broker.offsets.get(("T", 0)) == broker.offsets.get(("T", 1)) == MESSAGES


async def consume(consumer: PushConsumer | LitePullConsumer) -> None:
    seen = 0
    while isinstance(consumer, LitePullConsumer) and seen < 2 * MESSAGES:
        seen += len(await consumer.poll(30))


@pytest.mark.parametrize("kind", ["push", "lite"])
async def test_offsets_are_written_again_after_a_lost_connection_although_nothing_more_was_consumed(
    kind: str,
):
    broker = GroupBroker()

    async with cluster(broker) as (_, address), consumer_of(kind, address) as consumer:
        await consume(consumer)
        await eventually(lambda: has_all(broker))
        broker.offsets.clear()
        for peer in set(broker.peers):
            peer.close()
        await eventually(lambda: has_all(broker))


@pytest.mark.parametrize("kind", ["push", "lite"])
async def test_a_hand_over_writes_offsets_that_a_late_pull_has_set_back(kind: str):
    broker = GroupBroker()
    async with cluster(broker) as (_, address), consumer_of(kind, address) as consumer:
        await consume(consumer)
        await eventually(lambda: has_all(broker))
        broker.offsets[("T", 1)] = MESSAGES - 1
    assert has_all(broker)
