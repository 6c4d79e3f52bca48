"""Reads the tables: routes, cluster info, topic lists. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gantry_wire.bodies.cluster import (
    BrokerData,
    BrokerMemberGroup,
    BrokerMemberGroupBody,
    ClusterInfo,
    QueueData,
    TopicList,
    TopicRouteData,
)
from nameserver.routes.tables import MASTER_ID, PERM_WRITE, Place, Tables
from nameserver.switches import Switches

UNIT, UNIT_SUBSCRIPTION = 1, 2
"""Bits of a topic's system flag: belongs to a unit; has consumers in units."""
SYNC_MEMBERS_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


class Views:
    """Answers queries."""

    def __init__(self, tables: Tables, switches: Switches) -> None:
        self._tables = tables
        self._switches = switches

    def route(self, topic: str) -> TopicRouteData | None:
        """Return where a topic's queues are; None when no living broker has any."""
        tables = self._tables
        queues = tables.topics.get(topic, {})
        brokers = [_copy(tables.brokers[name]) for name in queues if name in tables.brokers]
        if not brokers:
            return None
        route = TopicRouteData(
            broker_datas=brokers,
            queue_datas=list(queues.values()),
            filter_server_table=self._filter_servers(brokers),
        )
        if self._switches.support_acting_master and not topic.startswith(SYNC_MEMBERS_PREFIX):
            for broker in brokers:
                _show_acting_master(broker, queues[broker.broker_name])
        return route

    def cluster_info(self) -> ClusterInfo:
        """Return every broker by name and every name by cluster."""
        return ClusterInfo(
            broker_addr_table=dict(self._tables.brokers),
            cluster_addr_table={cluster: list(names) for cluster, names in self._tables.clusters.items()},
        )

    def member_group(self, cluster: str, broker_name: str) -> BrokerMemberGroupBody:
        """Return the addresses of all brokers of a name; none for an unknown name."""
        data = self._tables.brokers.get(broker_name)
        addresses = dict(data.broker_addrs) if data is not None else {}
        group = BrokerMemberGroup(broker_addrs=addresses, broker_name=broker_name, cluster=cluster)
        return BrokerMemberGroupBody(broker_member_group=group)

    def all_topics(self) -> TopicList:
        """Return every topic."""
        return TopicList(topic_list=list(self._tables.topics))

    def topics_of_cluster(self, cluster: str) -> TopicList:
        """Return the topics with queues on a broker of the cluster."""
        names = self._tables.clusters.get(cluster, {})
        return TopicList(
            topic_list=[
                topic for topic, queues in self._tables.topics.items() if not names.keys().isdisjoint(queues)
            ]
        )

    def system_topics(self) -> TopicList:
        """Return the names of clusters and brokers, which are topics too, and a broker that knows the rest."""
        topics: dict[str, None] = {}
        for cluster, names in self._tables.clusters.items():
            topics[cluster] = None
            topics.update(names)
        addresses = (
            address for data in self._tables.brokers.values() for address in data.broker_addrs.values()
        )
        return TopicList(topic_list=list(topics), broker_addr=next(addresses, None))

    def unit_topics(self) -> TopicList:
        """Return the topics that belong to a unit."""
        return self._by_flag(lambda flag: bool(flag & UNIT))

    def unit_subscription_topics(self) -> TopicList:
        """Return the topics consumers of units read."""
        return self._by_flag(lambda flag: bool(flag & UNIT_SUBSCRIPTION))

    def unit_subscription_non_unit_topics(self) -> TopicList:
        """Return those of them that belong to no unit."""
        return self._by_flag(lambda flag: bool(flag & UNIT_SUBSCRIPTION) and not flag & UNIT)

    def _by_flag(self, wanted: Callable[[int], bool]) -> TopicList:
        flags = ((topic, _first(queues.values())) for topic, queues in self._tables.topics.items())
        return TopicList(topic_list=[topic for topic, queue in flags if wanted(queue.topic_sys_flag)])

    def _filter_servers(self, brokers: list[BrokerData]) -> dict[str, list[str]]:
        found = self._tables.filter_servers
        if not found:
            return {}
        places = (Place(data.cluster, address) for data in brokers for address in data.broker_addrs.values())
        return {place.address: found[place] for place in places if place in found}


def _first(queues: Iterable[QueueData]) -> QueueData:
    return next(iter(queues))


def _copy(data: BrokerData) -> BrokerData:
    return BrokerData(
        broker_addrs=dict(data.broker_addrs),
        broker_name=data.broker_name,
        cluster=data.cluster,
        enable_acting_master=data.enable_acting_master,
        zone_name=data.zone_name,
    )


def _show_acting_master(data: BrokerData, queues: QueueData) -> None:
    """Show the lowest slave of a broker without master under the master's id, read-only."""
    addresses = data.broker_addrs
    if not addresses or MASTER_ID in addresses or not data.enable_acting_master or queues.perm & PERM_WRITE:
        return
    addresses[MASTER_ID] = addresses.pop(min(addresses))
