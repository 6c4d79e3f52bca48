"""The producers and consumers of a client, by group: the content of the heartbeat, and the receivers of requests about a group."""

from __future__ import annotations

from typing import Protocol

from gantry_wire.bodies.clients import ConsumerData, HeartbeatData, ProducerData
from gantry_wire.errors import IllegalName
from gantry_wire.frames.command import Command
from gantry_wire.names import check_group
from gantrymq.connection.pushes import PushAnswer
from gantrymq.errors import ConfigurationError

RESERVED_GROUPS = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})


class GroupMember(Protocol):
    """A producer, as seen by its client."""

    def handle_push(self, command: Command, address: str) -> PushAnswer:
        """Answer a request of a broker about the group (39)."""
        ...


class ConsumerMember(Protocol):
    """A consumer, as seen by its client."""

    def heartbeat(self) -> ConsumerData:
        """Return its part of the heartbeat."""
        ...

    def rebalance_soon(self) -> None:
        """React to a change of the group or the brokers: 40 arrived, a broker appeared or disappeared."""
        ...

    def connection_lost(self, broker: str) -> None:
        """React to the loss of the connection to a broker."""
        ...

    def handle_push(self, command: Command, address: str) -> PushAnswer:
        """Answer a request of a broker about the group (220, 221, 307, 309)."""
        ...


class Members:
    """The groups of a client. A group has at most one producer and one consumer."""

    def __init__(self) -> None:
        self.producers: dict[str, GroupMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}

    def add_producer(self, group: str, member: GroupMember) -> None:
        """Add a producer; ConfigurationError if the group already has one."""
        if group in self.producers:
            raise ConfigurationError(_taken("producer", group))
        self.producers[group] = member

    def add_consumer(self, group: str, member: ConsumerMember) -> None:
        """Add a consumer; ConfigurationError if the group already has one."""
        if group in self.consumers:
            raise ConfigurationError(_taken("consumer", group))
        self.consumers[group] = member

    def remove(self, group: str, member: object) -> tuple[str | None, str | None]:
        """Remove a member; returns its group as (producer group, consumer group), with None for the other."""
        as_producer = as_consumer = None
        if self.producers.get(group) is member:
            del self.producers[group]
            as_producer = group
        if self.consumers.get(group) is member:
            del self.consumers[group]
            as_consumer = group
        return as_producer, as_consumer

    def heartbeat(self, client_id: str) -> HeartbeatData | None:
        """Return the heartbeat for brokers, None if there are no members."""
        if not self.producers and not self.consumers:
            return None
        return HeartbeatData(
            client_id=client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self.producers],
            consumer_data_set=[member.heartbeat() for member in self.consumers.values()],
        )


def check_group_name(group: object) -> None:
    """Raise ConfigurationError unless this is a valid group name."""
    if not isinstance(group, str):
        raise ConfigurationError(f"group: must be a name, not {group!r}")
    if group in RESERVED_GROUPS:
        raise ConfigurationError(f"group: {group} is reserved; use another name")
    try:
        check_group(group)
    except IllegalName as error:
        raise ConfigurationError(f"group: {error}") from error


def _taken(kind: str, group: str) -> str:
    return (
        f"group {group} already has a {kind} in this process: use that one, take another group, "
        "or give one of them an instance_name of its own"
    )
