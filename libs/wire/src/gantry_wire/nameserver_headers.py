"""Typed headers of the requests a nameserver answers."""

from __future__ import annotations

import msgspec

from gantry_wire.header import Header, Int32, Int64


class RouteHeader(Header, kw_only=True, rename="camel", gc=False):
    """105: asks where the queues of a topic are."""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBrokerHeader(Header, kw_only=True, rename="camel", gc=False):
    """103: a broker says that it lives and what it holds."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str | None = None
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = msgspec.field(default=0, name="bodyCrc32")
    """CRC32 & 0x7FFFFFFF of the body as sent; 0 is not checked."""


class RegisterBrokerReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Addresses a slave replicates from; empty for a master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerIdentityHeader(Header, kw_only=True, rename="camel", gc=False):
    """104 (a broker leaves) and 322 (does the nameserver hold this version of its topics?)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 322."""

    changed: bool


class BrokerHeartbeatHeader(Header, kw_only=True, rename="camel", gc=False):
    """904: a broker lives, nothing else has changed."""

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
    """901: addresses of all brokers of one name."""

    cluster_name: str
    broker_name: str


class BrokerNameHeader(Header, kw_only=True, rename="camel", gc=False):
    """205 and 327: take or give write permission to all topics of a broker."""

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
