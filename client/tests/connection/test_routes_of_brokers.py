"""The addresses of brokers, as the routes of topics name them."""

import pytest
from scripted_cluster import Broker, cluster

from gantrymq.connection.instance import ClientInstance
from gantrymq.settings import ClientSettings

pytestmark = pytest.mark.anyio


async def test_the_route_of_a_deleted_topic_does_not_bring_an_old_address_back() -> None:
    broker = Broker("broker-a")
    async with cluster(broker, topics=("kept", "deleted")) as (nameserver, address):
        client = await ClientInstance.acquire(ClientSettings(nameservers=address))
        try:
            await client.route("kept")
            await client.route("deleted")
            del nameserver.topics["deleted"]
            broker.address = "127.0.0.9:10911"  # as a container that is started again
            await client.routing.poll()
            assert client.broker_address("broker-a") == "127.0.0.9:10911"
        finally:
            await client.release()
