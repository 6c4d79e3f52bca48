"""Requests 34, 35 and 38: heartbeats, unregistration, members of a group. Sends 40 when a group changes."""

import asyncio
from collections.abc import Callable, Iterable

from broker_store.filters.table import FilterTable
from broker_store.groups.clients import Client, ClientTable, Consumption
from broker_store.groups.groups import GroupTable
from broker_store.ports import ACTING_USER, Commands, Peer, TopicTable
from gantry_wire.bodies.clients import ConsumerData, ConsumerIdList, HeartbeatData, SubscriptionData
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import MalformedExpression, MissingField, RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.headers.messages import ConsumerGroupHeader, UnregisterClientHeader
from gantry_wire.names import retry_topic
from gantry_wire.subscription import TAG, TagFilter

PERM_RW = 6


class ClientHandlers:
    """Keeps the client registries up to date."""

    def __init__(
        self,
        clients: ClientTable,
        groups: GroupTable,
        topics: TopicTable,
        filters: FilterTable,
        now_ms: Callable[[], int],
        steady_ms: Callable[[], int],
        on_unregister: Callable[[str, str], None],
    ) -> None:
        """`on_unregister` takes group and client id of a client that leaves a consumer group by itself."""
        self._clients = clients
        self._groups = groups
        self._topics = topics
        self._filters = filters
        self._now_ms, self._steady_ms = now_ms, steady_ms
        self._changed: dict[str, None] = {}
        self._on_unregister = on_unregister

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            34: ("heartbeat", self.heartbeat),
            35: ("clientManager", self.unregister),
            38: ("consumerManager", self.members),
        }

    def heartbeat(self, peer: Peer, command: Command) -> bytes:
        """Handle 34: record everything the client reports."""
        data = decode_body(command.body, HeartbeatData)
        if not data.client_id:
            raise MissingField("clientID")
        times = self._now_ms(), self._steady_ms()
        user = peer.attributes.get(ACTING_USER, "")
        client = Client(peer, data.client_id, command.language, command.version, *times, user)
        for producer in data.producer_data_set:
            if producer.group_name:
                self._clients.register_producer(producer.group_name, client)
        for consumer in data.consumer_data_set:
            self._register_consumer(consumer, client, without_subscriptions=data.without_sub)
        return encode_response(ResponseCode.SUCCESS, command.opaque)

    def unregister(self, peer: Peer, command: Command) -> bytes:
        """Handle 35: the client leaves the named groups."""
        header = command.read(UnregisterClientHeader)
        group = header.consumer_group or ""
        if self._clients.unregister(peer.id, header.producer_group or "", group):
            self._notify([group])
        if group:
            self._on_unregister(group, header.client_id)
        return encode_response(ResponseCode.SUCCESS, command.opaque)

    def members(self, _peer: Peer, command: Command) -> bytes:
        """Handle 38: ids of a group's clients, which divide the queues among themselves."""
        group = command.read(ConsumerGroupHeader).consumer_group
        entry = self._clients.consumers.get(group)
        if entry is None:
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        body = ConsumerIdList(consumer_id_list=entry.client_ids())
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    def close_peer(self, peer_id: int) -> None:
        """Forget a closed connection, and notify its groups."""
        self._notify(self._clients.close(peer_id))

    def expire(self) -> None:
        """Forget silent clients, close their connections and notify their groups."""
        gone = self._clients.expire(self._steady_ms())
        for peer in gone.peers:
            peer.close()
        self._notify(gone.changed_groups)

    def _register_consumer(
        self, consumer: ConsumerData, client: Client, *, without_subscriptions: bool
    ) -> None:
        name = consumer.group_name
        group = self._groups.find_or_create(name)
        if group is None:  # RocketMQ skips groups it may not create
            return
        if group.retry_queue_nums > 0:
            self._topics.ensure(retry_topic(name), group.retry_queue_nums, PERM_RW)
        subscriptions = (
            None if without_subscriptions else list(map(_readable, consumer.subscription_data_set))
        )
        if subscriptions is not None:
            self._filters.register(name, subscriptions, client.updated_ms)
        consumption = Consumption(consumer.consume_type, consumer.message_model, consumer.consume_from_where)
        if self._clients.register_consumer(name, client, consumption, subscriptions):
            self._notify([name])

    def _notify(self, groups: Iterable[str]) -> None:
        """Notify the members of changed groups, once per turn: a thousand clients may arrive at once."""
        for group in groups:
            if not self._changed:
                asyncio.get_running_loop().call_soon(self._push_changes)
            self._changed[group] = None

    def _push_changes(self) -> None:
        changed, self._changed = self._changed, {}
        for name in changed:
            if name not in self._clients.consumers:
                self._filters.leave(name, self._now_ms())
            group = self._groups.find(name)
            if group is not None and not group.notify_consumer_ids_changed_enable:
                continue
            code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
            frame = encode_request(code, 0, {"consumerGroup": name}, oneway=True)
            for peer in self._clients.listeners(name):
                peer.send(frame)


def _readable(subscription: SubscriptionData) -> SubscriptionData:
    """Return a subscription with the hashes of its own expression: those of old C++ clients are wrong."""
    subscription.expression_type = subscription.expression_type or TAG
    if subscription.expression_type == TAG:
        try:
            wanted = TagFilter.parse(subscription.sub_string)
        except MalformedExpression:
            return subscription  # the pull is refused, with the reason
        subscription.code_set = sorted(wanted.codes or ())
        subscription.tags_set = sorted(wanted.names)
    return subscription
