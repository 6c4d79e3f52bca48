"""Topic commands of administrators: delete, register, remove or restore write permission. Pure."""

from __future__ import annotations

from collections.abc import Callable

from gantry_wire.bodies.cluster import QueueData
from nameserver.routes.tables import PERM_READ, PERM_WRITE, Change, Tables


class TopicOrders:
    """Changes of the topic table that do not come from a broker."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def delete(self, topic: str, cluster: str | None) -> Change:
        """Delete a topic, or only its queues on the brokers of one cluster."""
        tables = self._tables
        names = list(tables.clusters.get(cluster, ())) if cluster else list(tables.topics.get(topic, ()))
        dropped = [name for name in names if tables.drop_queues(topic, name)]
        return Change(topics={topic} if dropped else set())

    def register(self, topic: str, queues: list[QueueData]) -> Change:
        """Register a topic's queues. Stops at an unknown broker, as RocketMQ does."""
        change = Change()
        for found in queues:
            if found.broker_name not in self._tables.brokers:
                break
            self._tables.put_queues(topic, found)
            change.topics.add(topic)
        return change

    def wipe_write_perm(self, broker_name: str) -> tuple[int, Change]:
        """Remove write permission from all topics of a broker until it registers another version."""
        return self._set_perm(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> tuple[int, Change]:
        """Restore it: all topics of the broker become readable and writable."""
        return self._set_perm(broker_name, lambda _perm: PERM_READ | PERM_WRITE)

    def _set_perm(self, broker_name: str, changed: Callable[[int], int]) -> tuple[int, Change]:
        topics = self._tables.topics_of(broker_name)
        for topic in topics:
            queues = self._tables.topics[topic][broker_name]
            queues.perm = changed(queues.perm)
        return len(topics), Change(topics=set(topics))
