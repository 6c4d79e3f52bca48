"""Requests 203, 204, 300, 328, 343 and 345: connected clients and their subscriptions. Never changes anything."""

from dataclasses import dataclass

from broker_store.admin.topics_handler import TopicHeader
from broker_store.groups.clients import Client, ClientTable
from broker_store.groups.offsets import OffsetTable
from broker_store.ports import Commands, Peer
from gantry_wire.bodies.admin import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    QuerySubscriptionResponseBody,
)
from gantry_wire.bodies.cluster import GroupList, TopicList
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import LanguageCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import GroupHeader, GroupTopicHeader, ProducerGroupHeader
from gantry_wire.headers.messages import ConsumerGroupHeader

_LANGUAGES = frozenset(language.name for language in LanguageCode)


@dataclass(frozen=True, slots=True)
class ConnectionHandlers:
    """Handles queries about clients."""

    clients: ClientTable
    offsets: OffsetTable

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            203: ("adminBroker", self.consumers),
            204: ("adminBroker", self.producers),
            300: ("adminBroker", self.groups_of_topic),
            328: ("adminBroker", self.all_producers),
            343: ("adminBroker", self.topics_of_group),
            345: ("adminBroker", self.subscription),
        }

    def consumers(self, _peer: Peer, command: Command) -> bytes:
        """Handle 203: the clients of a consumer group, and its subscriptions."""
        group = command.read(ConsumerGroupHeader).consumer_group
        entry = self.clients.consumers.get(group)
        if entry is None:
            remark = f"the consumer group[{group}] not online"
            raise RefusedRequest(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        body = ConsumerConnection(
            connection_set=[_connection(client) for client in entry.clients.values()],
            consume_from_where=entry.consumption.start,
            consume_type=entry.consumption.kind,
            message_model=entry.consumption.model,
            subscription_table=entry.subscriptions,
        )
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    def producers(self, _peer: Peer, command: Command) -> bytes:
        """Handle 204: the clients of a producer group."""
        group = command.read(ProducerGroupHeader).producer_group
        clients = self.clients.producers.get(group)
        if not clients:
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
        body = ProducerConnection(connection_set=[_connection(client) for client in clients.values()])
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    def all_producers(self, _peer: Peer, command: Command) -> bytes:
        """Handle 328: every producer."""
        body = ProducerTableInfo(
            data={
                group: [
                    ProducerInfo(
                        client_id=client.client_id,
                        language=_language(client),
                        last_update_timestamp=client.updated_ms,
                        remote_ip=f"/{_address(client)}",  # Java's form of an address
                        version=client.version,
                    )
                    for client in clients.values()
                ]
                for group, clients in self.clients.producers.items()
            }
        )
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    def groups_of_topic(self, _peer: Peer, command: Command) -> bytes:
        """Handle 300: the groups that subscribe to a topic, or have committed in it."""
        topic = command.read(TopicHeader).topic
        names = dict.fromkeys([*self.clients.groups_on(topic), *self.offsets.groups_of(topic)])
        return encode_response(
            ResponseCode.SUCCESS, command.opaque, body=encode_body(GroupList(group_list=list(names)))
        )

    def topics_of_group(self, _peer: Peer, command: Command) -> bytes:
        """Handle 343: the topics in which a group has committed."""
        topics = self.offsets.topics_of(command.read(GroupHeader).group)
        return encode_response(
            ResponseCode.SUCCESS, command.opaque, body=encode_body(TopicList(topic_list=topics))
        )

    def subscription(self, _peer: Peer, command: Command) -> bytes:
        """Handle 345: a connected group's subscription to a topic, nothing when it is not connected."""
        header = command.read(GroupTopicHeader)
        entry = self.clients.consumers.get(header.group)
        found = None if entry is None or header.topic is None else entry.subscriptions.get(header.topic)
        body = QuerySubscriptionResponseBody(group=header.group, subscription_data=found, topic=header.topic)
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))


def _connection(client: Client) -> Connection:
    return Connection(
        client_addr=_address(client),
        client_id=client.client_id,
        language=_language(client),
        version=client.version,
    )


def _language(client: Client) -> str:
    """Return a name that Java's tools know: they fail on any other."""
    return client.language if client.language in _LANGUAGES else LanguageCode.OTHER.name


def _address(client: Client) -> str:
    host, port = client.peer.remote
    return f"{host}:{port}"
