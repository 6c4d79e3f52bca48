"""Requests 21 and 351: the topics of this broker, all or one. Never changes anything."""

from dataclasses import dataclass

from broker_store.commit.topics import TopicTable
from broker_store.ports import Commands, Peer
from gantry_wire.bodies.cluster import TopicConfigSerializeWrapper
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import AllTopicConfigHeader, AllTopicConfigReplyHeader
from gantry_wire.headers.typed_header import Header


class TopicHeader(Header, kw_only=True, rename="camel", gc=False):
    """Requests 215 and 351: one topic by name."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicViews:
    """Shows topics."""

    topics: TopicTable

    def commands(self) -> Commands:
        """Return the table entries of this family."""
        return {
            RequestCode.GET_ALL_TOPIC_CONFIG: ("adminBroker", self.all),
            RequestCode.GET_TOPIC_CONFIG: ("adminBroker", self.one),
        }

    def all(self, _peer: Peer, command: Command) -> bytes:
        """Return all topics that clients may see, or a page of them."""
        header = command.read(AllTopicConfigHeader)
        topics = {
            name: topic for name, topic in self.topics.all().items() if not self.topics.is_internal(name)
        }
        total = len(topics)
        if header.topic_seq is not None and header.max_topic_num is not None:
            first = max(header.topic_seq, 0)
            names = sorted(topics)[first : first + max(header.max_topic_num, 0)]
            topics = {name: topics[name] for name in names}
        body = encode_body(
            TopicConfigSerializeWrapper(data_version=self.topics.version.value, topic_config_table=topics)
        )
        return encode_response(
            ResponseCode.SUCCESS, command.opaque, AllTopicConfigReplyHeader(total_topic_num=total), body
        )

    def one(self, _peer: Peer, command: Command) -> bytes:
        """Return one topic."""
        name = command.read(TopicHeader).topic
        config = self.topics.find(name)
        if config is None or self.topics.is_internal(name):
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
        return encode_response(ResponseCode.SUCCESS, command.opaque, None, encode_body(config))
