"""Claim and settle in a real process with the real client: claims end with their connection, decisions survive kill -9."""

import asyncio

import pytest
from test_broker_store_process import Store

from gantry_link.clients.settling import SettleClient
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused
from gantry_wire.headers.admin import CreateTopicHeader
from gantry_wire.headers.messages import SendHeaderV2
from gantry_wire.messages.properties import format_properties
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import FENCED, HELD, SettleItem, SettleOutput

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(300)]
QUEUES = [(SCHEDULE_TOPIC, 0)]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store")
    yield store
    end(store)


async def delayed(address: str, pool: ConnectionPool) -> int:
    """Send a message with level 1. Returns its position."""
    client = StoreClient(pool, address)
    await client.create_topic(
        CreateTopicHeader(topic="orders", read_queue_nums=1, write_queue_nums=1, perm=6)
    )
    header = SendHeaderV2(
        producer_group="pg", topic="orders", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0,
        sys_flag=0, born_timestamp=1, flag=0, properties=format_properties({"DELAY": "1"}).decode(), reconsume_times=0,
    )  # fmt: skip
    sent = await client.ask(310, header, b"later")
    return int(sent.ext["msgId"][-16:], 16)


def end(store: Store) -> None:
    store.kill()
    store.drain.join()
    store.process.stderr.close()


async def test_a_claim_ends_with_its_connection_and_decisions_outlive_a_kill(store, tmp_path):
    address = f"127.0.0.1:{store.port}"
    first, second = ConnectionPool(), ConnectionPool()
    position = await delayed(address, second)
    mine, other = SettleClient(first, address), SettleClient(second, address)
    epoch = (await mine.claim(QUEUES, owner="a", address="h:1", ttl_ms=60_000)).claims[0].epoch
    with pytest.raises(BrokerRefused) as refused:
        await other.claim(QUEUES, owner="b", address="h:2")
    assert refused.value.fields["gantryCode"] == HELD
    item = SettleItem(
        0, position, [SettleOutput("orders", 0, drop=("DELAY", "REAL_TOPIC", "REAL_QID"))], "delivered"
    )
    assert (await mine.settle(SCHEDULE_TOPIC, 0, epoch, [item])).results[0].status == "early"
    item.force = True
    assert (await mine.settle(SCHEDULE_TOPIC, 0, epoch, [item])).results[0].status == "settled"
    assert (await mine.store_time()).store_time_ms > 0
    (event,) = await mine.message_events(SCHEDULE_TOPIC, 0, 0)
    assert (event.outcome, event.outputs[0].topic) == ("delivered", "orders")
    await first.close()
    async with asyncio.timeout(60):
        while (await other.holder(SCHEDULE_TOPIC, 0)).held_by is not None:
            await asyncio.sleep(0.02)
    assert (await other.claim(QUEUES, owner="b", address="h:2")).claims[0].epoch > epoch
    await second.close()
    store.kill()
    again = Store(tmp_path / "store")
    try:
        await look_after_the_kill(f"127.0.0.1:{again.port}", epoch, item)
    finally:
        end(again)


async def look_after_the_kill(address: str, old_epoch: int, item: SettleItem) -> None:
    pool = ConnectionPool()
    client = SettleClient(pool, address)
    with pytest.raises(BrokerRefused) as refused:
        await client.settle(SCHEDULE_TOPIC, 0, old_epoch, [item])
    assert refused.value.fields["gantryCode"] == FENCED
    state = await client.state(SCHEDULE_TOPIC, 0)
    assert (state.cursor, state.max_offset) == (1, 1)
    epoch = (await client.claim(QUEUES, owner="a", address="h:1")).claims[0].epoch
    assert epoch > old_epoch
    assert (await client.settle(SCHEDULE_TOPIC, 0, epoch, [item])).results[0].status == "already"
    await client.release(SCHEDULE_TOPIC, 0, epoch)
    assert (await client.holder(SCHEDULE_TOPIC, 0)).held_by is None
    await pool.close()
