"""The producers and consumers of one client, by group: who is in the heartbeat, and who answers what brokers ask of a group."""

from __future__ import annotations

from typing import Protocol

from gantry.connection.pushes import PushAnswer
from gantry.errors import ConfigurationError
from gantry_wire.bodies import ConsumerData, HeartbeatData, ProducerData
from gantry_wire.errors import IllegalName
from gantry_wire.frame import Command
from gantry_wire.names import check_group

RESERVED_GROUPS = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})


class GroupMember(Protocol):
    """A producer as its client knows it."""

    def handle_push(self, command: Command, address: str) -> PushAnswer:
        """Answer what a broker asks of the group (39)."""
        ...


class ConsumerMember(Protocol):
    """A consumer as its client knows it."""

    def heartbeat(self) -> ConsumerData:
        """Return what goes into the heartbeat."""
        ...

    def rebalance_soon(self) -> None:
        """Hear that the group or the brokers changed: 40 arrived, a broker came or went."""
        ...

    def handle_push(self, command: Command, address: str) -> PushAnswer:
        """Answer what a broker asks of the group (220, 221, 307, 309)."""
        ...


class Members:
    """Groups of one client. A group has one producer and one consumer at most."""

    def __init__(self) -> None:
        self.producers: dict[str, GroupMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}

    def add_producer(self, group: str, member: GroupMember) -> None:
        """Take a producer in; ConfigurationError when the group has one already."""
        if group in self.producers:
            raise ConfigurationError(_taken("producer", group))
        self.producers[group] = member

    def add_consumer(self, group: str, member: ConsumerMember) -> None:
        """Take a consumer in; ConfigurationError when the group has one already."""
        if group in self.consumers:
            raise ConfigurationError(_taken("consumer", group))
        self.consumers[group] = member

    def remove(self, group: str, member: object) -> tuple[str | None, str | None]:
        """Forget a member; returns its group as (producer group, consumer group), None for what it is not."""
        as_producer = as_consumer = None
        if self.producers.get(group) is member:
            del self.producers[group]
            as_producer = group
        if self.consumers.get(group) is member:
            del self.consumers[group]
            as_consumer = group
        return as_producer, as_consumer

    def heartbeat(self, client_id: str) -> HeartbeatData | None:
        """Return what brokers are told, None when there is nothing to tell."""
        if not self.producers and not self.consumers:
            return None
        return HeartbeatData(
            client_id=client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self.producers],
            consumer_data_set=[member.heartbeat() for member in self.consumers.values()],
        )


def check_group_name(group: object) -> None:
    """Raise ConfigurationError unless this may be the name of a group."""
    if not isinstance(group, str):
        raise ConfigurationError(f"group: a name, not {group!r}")
    if group in RESERVED_GROUPS:
        raise ConfigurationError(f"group: {group} is reserved; give the group a name of its own")
    try:
        check_group(group)
    except IllegalName as error:
        raise ConfigurationError(f"group: {error}") from error


def _taken(kind: str, group: str) -> str:
    return (
        f"group {group} has a {kind} in this process already: use that one, take another group, "
        "or give one of them an instance_name of its own"
    )
