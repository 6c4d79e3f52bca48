"""The nameserver's commands: parse, call the core, reply. One function per code, in table order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gantry_wire.bodies.cluster import DataVersion, KVTable, TopicList, TopicRouteData
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.bodies.register_broker import body_crc, decode_register_body
from gantry_wire.codes import MQVersion, RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.headers.nameserver import (
    AddWritePermReplyHeader,
    BrokerHeartbeatHeader,
    BrokerIdentityHeader,
    BrokerMemberGroupHeader,
    BrokerNameHeader,
    ClusterHeader,
    DeleteTopicInNamesrvHeader,
    KvKeyHeader,
    KvValueReplyHeader,
    NamespaceHeader,
    PutKvConfigHeader,
    QueryDataVersionReplyHeader,
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
    RouteHeader,
    TopicHeader,
    WipeWritePermReplyHeader,
)
from gantry_wire.headers.typed_header import Header
from nameserver.kv_config import ORDER_TOPIC_CONFIG, KvConfig, KvConfigFull
from nameserver.ports import Clock, Effects, Keeper
from nameserver.routes.registry import BrokerIdentity, RegisterRefused, Registry
from nameserver.routes.tables import Place
from nameserver.routes.topic_orders import TopicOrders
from nameserver.routes.views import Views
from nameserver.run_config import RunConfig

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
ZONE_NAME = "__ZONE_NAME"


class Reply(NamedTuple):
    """A success. With `after`, it is sent once that completes."""

    header: Header | None = None
    body: bytes = b""
    after: asyncio.Future[None] | None = None


@dataclass(slots=True, eq=False)
class Commands:
    """Answers requests. `channel` names the connection of a request."""

    registry: Registry
    orders: TopicOrders
    views: Views
    kv: KvConfig
    kv_keeper: Keeper
    config: RunConfig
    config_keeper: Keeper
    now_ms: Clock
    act: Effects
    started_ms: int
    _route_was_found: bool = field(default=False, init=False)

    def get_route(self, command: Command, _channel: int) -> Reply:
        """105: return where a topic's queues are."""
        header = command.read(RouteHeader)
        self._check_ready()
        route = self.views.route(header.topic)
        if route is None:
            message = f"No topic route info in name server for the topic: {header.topic}{FAQ}"
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, message)
        self._route_was_found = True
        if self.config.switches.order_message_enable:
            route.order_topic_conf = self.kv.get(ORDER_TOPIC_CONFIG, header.topic)
        is_standard = command.version >= MQVersion.V4_9_4 or bool(header.accept_standard_json_only)
        return Reply(body=encode_body(route, standard=is_standard))

    def register_broker(self, command: Command, channel: int) -> Reply:
        """103: register a broker and its topics."""
        header = command.read(RegisterBrokerHeader)
        if header.body_crc32 and header.body_crc32 != body_crc(command.body):
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        identity = BrokerIdentity(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_addr,
            ha_address=header.ha_server_addr or "",
            zone_name=command.ext.get(ZONE_NAME),
            expiry_ms=header.heartbeat_timeout_millis,
            acting_master=header.enable_acting_master,
        )
        body = decode_register_body(command.body, compressed=header.compressed)
        try:
            answer = self.registry.register(identity, body, channel, self.now_ms())
        except RegisterRefused as refused:
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, str(refused)) from refused
        self.act(answer.change)
        reply = RegisterBrokerReplyHeader(ha_server_addr=answer.ha_address, master_addr=answer.master_address)
        return Reply(reply, self._order_config_for_brokers())

    def unregister_broker(self, command: Command, channel: int) -> Reply:
        """104: unregister a broker."""
        header = command.read(BrokerIdentityHeader)
        identity = BrokerIdentity(
            header.cluster_name, header.broker_name, header.broker_id, header.broker_addr
        )
        try:
            self.act(self.registry.leave(identity, channel))
        except RegisterRefused as refused:
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, str(refused)) from refused
        return Reply()

    def query_data_version(self, command: Command, _channel: int) -> Reply:
        """322: compare a broker's data version with ours. An equal one counts as a heartbeat."""
        header = command.read(BrokerIdentityHeader)
        place = Place(header.cluster_name, header.broker_addr)
        requested = decode_body(command.body, DataVersion) if command.body else None
        held = self.registry.version_of(place)
        is_changed = held is None or held != requested
        if not is_changed:
            self.registry.heartbeat(place, self.now_ms())
        return Reply(
            QueryDataVersionReplyHeader(changed=is_changed), b"" if held is None else encode_body(held)
        )

    def heartbeat(self, command: Command, _channel: int) -> Reply:
        """904: heartbeat of a broker."""
        header = command.read(BrokerHeartbeatHeader)
        self.registry.heartbeat(Place(header.cluster_name, header.broker_addr), self.now_ms())
        return Reply()

    def get_member_group(self, command: Command, _channel: int) -> Reply:
        """901: return the addresses of all brokers of a name."""
        header = command.read(BrokerMemberGroupHeader)
        return Reply(body=encode_body(self.views.member_group(header.cluster_name, header.broker_name)))

    def get_cluster_info(self, _command: Command, _channel: int) -> Reply:
        """106: return all brokers and clusters."""
        return Reply(body=encode_body(self.views.cluster_info()))

    def wipe_write_perm(self, command: Command, _channel: int) -> Reply:
        """205: remove write permission from a broker's topics."""
        count, change = self.orders.wipe_write_perm(command.read(BrokerNameHeader).broker_name)
        self.act(change)
        return Reply(WipeWritePermReplyHeader(wipe_topic_count=count))

    def add_write_perm(self, command: Command, _channel: int) -> Reply:
        """327: restore write permission."""
        count, change = self.orders.add_write_perm(command.read(BrokerNameHeader).broker_name)
        self.act(change)
        return Reply(AddWritePermReplyHeader(add_topic_count=count))

    def get_all_topics(self, _command: Command, _channel: int) -> Reply:
        """206: return all topics."""
        return _listed(self.config.switches.enable_all_topic_list, self.views.all_topics)

    def delete_topic(self, command: Command, _channel: int) -> Reply:
        """216: delete a topic."""
        header = command.read(DeleteTopicInNamesrvHeader)
        self.act(self.orders.delete(header.topic, header.cluster_name))
        return Reply()

    def register_topic(self, command: Command, _channel: int) -> Reply:
        """217: register a topic's queues on behalf of its brokers."""
        header = command.read(TopicHeader)
        route = decode_body(command.body, TopicRouteData) if command.body else TopicRouteData()
        self.act(self.orders.register(header.topic, route.queue_datas))
        return Reply()

    def get_topics_by_cluster(self, command: Command, _channel: int) -> Reply:
        """224: return the topics of a cluster."""
        cluster = command.read(ClusterHeader).cluster
        return self._list(lambda: self.views.topics_of_cluster(cluster))

    def get_system_topics(self, _command: Command, _channel: int) -> Reply:
        """304: return the names of clusters and brokers, and a broker that knows the other system topics."""
        return self._list(self.views.system_topics)

    def get_unit_topics(self, _command: Command, _channel: int) -> Reply:
        """311: return the topics of units."""
        return self._list(self.views.unit_topics)

    def get_unit_subscription_topics(self, _command: Command, _channel: int) -> Reply:
        """312: return the topics that consumers of units read."""
        return self._list(self.views.unit_subscription_topics)

    def get_unit_subscription_non_unit_topics(self, _command: Command, _channel: int) -> Reply:
        """313: return those of 312 that belong to no unit."""
        return self._list(self.views.unit_subscription_non_unit_topics)

    def put_kv(self, command: Command, _channel: int) -> Reply:
        """100: set a value; answered once it is on disk."""
        header = command.read(PutKvConfigHeader)
        if not header.namespace or not header.key:
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
        try:
            self.kv.put(header.namespace, header.key, header.value)
        except KvConfigFull as full:
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, str(full)) from full
        return self._saved()

    def get_kv(self, command: Command, _channel: int) -> Reply:
        """101: return a value."""
        header = command.read(KvKeyHeader)
        value = self.kv.get(header.namespace, header.key)
        if value is None:
            message = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, message)
        return Reply(KvValueReplyHeader(value=value))

    def delete_kv(self, command: Command, _channel: int) -> Reply:
        """102: delete a value; answered once that is on disk."""
        header = command.read(KvKeyHeader)
        self.kv.delete(header.namespace, header.key)
        return self._saved()

    def list_kv(self, command: Command, _channel: int) -> Reply:
        """219: return all values of a namespace."""
        namespace = command.read(NamespaceHeader).namespace
        table = self.kv.namespace(namespace)
        if table is None:
            raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
        return Reply(body=encode_body(KVTable(table=table)))

    def update_config(self, command: Command, _channel: int) -> Reply:
        """318: change settings; answered once they are on disk."""
        if not command.body:
            return Reply()
        self.config.update(command.body)
        return Reply(after=self.config_keeper.write(self.config.content))

    def get_config(self, _command: Command, _channel: int) -> Reply:
        """319: return all settings."""
        return Reply(body=self.config.text())

    def _check_ready(self) -> None:
        switches = self.config.switches
        if not switches.need_wait_for_service or self._route_was_found:
            return
        waited_ms = self.now_ms() - self.started_ms
        if waited_ms < switches.wait_seconds_for_service * 1000:
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, "name server not ready")

    def _order_config_for_brokers(self) -> bytes:
        if not self.config.switches.return_order_topic_config_to_broker:
            return b""
        table = self.kv.order_config()
        return b"" if table is None else encode_body(KVTable(table=table))

    def _saved(self) -> Reply:
        return Reply(after=self.kv_keeper.write(self.kv.content))

    def _list(self, read: Callable[[], TopicList]) -> Reply:
        return _listed(self.config.switches.enable_topic_list, read)


def _listed(is_enabled: bool, read: Callable[[], TopicList]) -> Reply:
    if not is_enabled:
        raise RefusedRequest(ResponseCode.SYSTEM_ERROR, "disable")
    return Reply(body=encode_body(read()))


Handler = Callable[[Commands, Command, int], Reply]

COMMANDS: dict[int, Handler] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Commands.get_route,
    RequestCode.REGISTER_BROKER: Commands.register_broker,
    RequestCode.UNREGISTER_BROKER: Commands.unregister_broker,
    RequestCode.QUERY_DATA_VERSION: Commands.query_data_version,
    RequestCode.BROKER_HEARTBEAT: Commands.heartbeat,
    RequestCode.GET_BROKER_MEMBER_GROUP: Commands.get_member_group,
    RequestCode.GET_BROKER_CLUSTER_INFO: Commands.get_cluster_info,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Commands.wipe_write_perm,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Commands.add_write_perm,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Commands.get_all_topics,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Commands.delete_topic,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: Commands.register_topic,
    RequestCode.GET_TOPICS_BY_CLUSTER: Commands.get_topics_by_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: Commands.get_system_topics,
    RequestCode.GET_UNIT_TOPIC_LIST: Commands.get_unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: Commands.get_unit_subscription_topics,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Commands.get_unit_subscription_non_unit_topics,
    RequestCode.PUT_KV_CONFIG: Commands.put_kv,
    RequestCode.GET_KV_CONFIG: Commands.get_kv,
    RequestCode.DELETE_KV_CONFIG: Commands.delete_kv,
    RequestCode.GET_KVLIST_BY_NAMESPACE: Commands.list_kv,
    RequestCode.UPDATE_NAMESRV_CONFIG: Commands.update_config,
    RequestCode.GET_NAMESRV_CONFIG: Commands.get_config,
}
