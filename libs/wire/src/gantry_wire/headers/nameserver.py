"""Typed headers of the requests a nameserver answers."""

from __future__ import annotations

import msgspec

from gantry_wire.headers.typed_header import Header, Int32, Int64


class RouteHeader(Header, kw_only=True, rename="camel", gc=False):
    """105: query the route of a topic."""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBrokerHeader(Header, kw_only=True, rename="camel", gc=False):
    """103: a broker registers itself and its topics."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str | None = None
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = msgspec.field(default=0, name="bodyCrc32")
    """CRC32 & 0x7FFFFFFF of the body as sent; 0 disables the check."""


class RegisterBrokerReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """The addresses that a slave replicates from; empty for a master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerIdentityHeader(Header, kw_only=True, rename="camel", gc=False):
    """104 (a broker unregisters) and 322 (does the nameserver have this version of its topics?)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 322."""

    changed: bool


class BrokerHeartbeatHeader(Header, kw_only=True, rename="camel", gc=False):
    """904: heartbeat of a broker whose topics are unchanged."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class BrokerMemberGroupHeader(Header, kw_only=True, rename="camel", gc=False):
    """901: the addresses of all brokers with one name."""

    cluster_name: str
    broker_name: str


class BrokerNameHeader(Header, kw_only=True, rename="camel", gc=False):
    """205 and 327: remove or add write permission for all topics of a broker."""

    broker_name: str


class WipeWritePermReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 205."""

    wipe_topic_count: Int32


class AddWritePermReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 327."""

    add_topic_count: Int32


class DeleteTopicInNamesrvHeader(Header, kw_only=True, rename="camel", gc=False):
    """216."""

    topic: str
    cluster_name: str | None = None


class TopicHeader(Header, kw_only=True, rename="camel", gc=False):
    """217 at a nameserver; 202, 215, 300 and 351 at a broker: one topic by name."""

    topic: str


class NamespaceHeader(Header, kw_only=True, rename="camel", gc=False):
    """219: all keys of a namespace."""

    namespace: str


class KvKeyHeader(Header, kw_only=True, rename="camel", gc=False):
    """101 and 102: one key of a namespace."""

    namespace: str
    key: str


class PutKvConfigHeader(Header, kw_only=True, rename="camel", gc=False):
    """100."""

    namespace: str
    key: str
    value: str


class KvValueReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 101."""

    value: str | None = None


class ClusterHeader(Header, kw_only=True, rename="camel", gc=False):
    """224: topics of a cluster."""

    cluster: str
