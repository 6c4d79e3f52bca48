"""Brokers and their registrations in one line each, and a registry whose tables tests can read."""

from gantry_wire.bodies.cluster import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from nameserver.routes.registry import BrokerIdentity, Registry
from nameserver.routes.tables import Tables
from nameserver.routes.topic_orders import TopicOrders
from nameserver.routes.views import Views
from nameserver.switches import Switches

CLUSTER = "DefaultCluster"


def broker_identity(name="broker-a", number=0, address="10.0.0.1:10911", cluster=CLUSTER, **more):
    more.setdefault("ha_address", address.replace("10911", "10912"))
    return BrokerIdentity(cluster, name, number, address, **more)


def holds(*topics, version=1, state=0, servers=(), **configs):
    table = {name: TopicConfig(topic_name=name, read_queue_nums=8, write_queue_nums=8) for name in topics}
    table |= {name: TopicConfig(topic_name=name, **config) for name, config in configs.items()}
    wrapper = TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=version, state_version=state, timestamp=version),
        topic_config_table=table,
    )
    return RegisterBrokerBody(filter_server_list=list(servers), topic_config_serialize_wrapper=wrapper)


class Core:
    """A nameserver's core with a manual clock."""

    def __init__(self, **switches):
        self.tables, self.switches = Tables(), Switches(**switches)
        self.registry = Registry(self.tables, self.switches)
        self.orders = TopicOrders(self.tables)
        self.views = Views(self.tables, self.switches)
        self.now_ms = 1_000

    def register(self, identity=None, body=None, channel=1):
        return self.registry.register(
            identity or broker_identity(), body or holds("A", "B"), channel, self.now_ms
        )

    def perms(self, topic):
        return {name: queue.perm for name, queue in self.tables.topics.get(topic, {}).items()}
