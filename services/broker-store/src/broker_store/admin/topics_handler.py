"""Topic requests: 17 and 18 create or change, 215 deletes; `TopicViews` reads.

A change is answered when it is saved and nameservers know it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from broker_store.admin.topic_removal import TopicRemoval
from broker_store.admin.topic_views import TopicHeader, TopicViews
from broker_store.commit.topics import (
    QUEUES_MAX,
    IllegalAttributes,
    TopicTable,
    change_attributes,
    merge_attributes,
)
from broker_store.ports import Commands, Peer, Saving
from gantry_wire.bodies.cluster import TopicConfig, TopicConfigList
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import FLAG_ONEWAY, Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import CreateTopicHeader
from gantry_wire.names import check_topic

PERM_MAX = 7
FILTER_TYPES = frozenset({"SINGLE_TAG", "MULTI_TAG"})


WhenKnown = Callable[[Callable[[], None]], None]
"""Calls back once nameservers have the topic, or soon when they cannot be reached."""


@dataclass(frozen=True, slots=True, eq=False)
class TopicHandler:
    """Handles topic requests."""

    topics: TopicTable
    saver: Saving
    removal: TopicRemoval
    before_change: Callable[[], None]
    """Writes what was sent before: a change of a topic never overtakes its messages."""
    when_known: WhenKnown

    def commands(self) -> Commands:
        """Return the table entries of this family."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: ("adminBroker", self.update),
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: ("adminBroker", self.update_list),
            RequestCode.DELETE_TOPIC_IN_BROKER: ("adminBroker", self.delete),
            **TopicViews(self.topics).commands(),
        }

    def update(self, peer: Peer, command: Command) -> None:
        """Create or change one topic."""
        header = command.read(CreateTopicHeader)
        present = self.topics.find(header.topic)
        try:
            attributes = change_attributes(present.attributes if present else {}, header.attributes or "")
        except IllegalAttributes as error:
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, str(error)) from error
        topic = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type or "SINGLE_TAG",
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=attributes,
        )
        self._put([topic])
        self._answer_when_saved(peer, command)

    def update_list(self, peer: Peer, command: Command) -> None:
        """Create or change several topics, all or none."""
        topics = decode_body(command.body, TopicConfigList).topic_config_list
        for topic in topics:
            present = self.topics.find(topic.topic_name)
            try:
                topic.attributes = merge_attributes(present.attributes if present else {}, topic.attributes)
            except IllegalAttributes as error:
                remark = f"topic {topic.topic_name}: {error}"
                raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark) from error
        self._put(topics)
        self._answer_when_saved(peer, command)

    def delete(self, peer: Peer, command: Command) -> bytes | None:
        """Delete a topic with its queues. If it is created again, its offsets continue."""
        name = command.read(TopicHeader).topic
        check_topic(name)
        self._refuse_system(name)
        config = self.topics.find(name)
        if config is None:
            return encode_response(ResponseCode.SUCCESS, command.opaque)
        self.before_change()

        def answer(refusal: RefusedRequest | None) -> None:
            if not command.flag & FLAG_ONEWAY:
                code = ResponseCode.SUCCESS if refusal is None else refusal.code
                peer.send(
                    encode_response(code, command.opaque, remark=None if refusal is None else refusal.remark)
                )

        def removed(refusal: RefusedRequest | None) -> None:
            # A file that would count at the next start may still have the topic.
            if refusal is None:
                self.saver.when_saved(answer)
            else:
                answer(refusal)

        self.removal.remove(config, removed)
        return None

    def _put(self, topics: list[TopicConfig]) -> None:
        for topic in topics:
            self._check(topic)
        self.before_change()
        for topic in topics:
            if topic != self.topics.find(topic.topic_name):
                self.topics.put(topic)

    def _check(self, topic: TopicConfig) -> None:
        check_topic(topic.topic_name)
        self._refuse_system(topic.topic_name)
        if topic.topic_name in self.topics.removing:
            raise RefusedRequest(
                ResponseCode.SYSTEM_BUSY, f"topic[{topic.topic_name}] is being deleted, try again"
            )
        for name, count in (
            ("readQueueNums", topic.read_queue_nums),
            ("writeQueueNums", topic.write_queue_nums),
        ):
            if not 0 <= count <= QUEUES_MAX:
                raise RefusedRequest(
                    ResponseCode.INVALID_PARAMETER, f"{name} {count} is outside 0..{QUEUES_MAX}"
                )
        if not 0 <= topic.perm <= PERM_MAX:
            raise RefusedRequest(
                ResponseCode.INVALID_PARAMETER, f"perm {topic.perm} is outside 0..{PERM_MAX}"
            )
        if topic.topic_filter_type not in FILTER_TYPES:
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, "topicFilterType is SINGLE_TAG or MULTI_TAG")

    def _refuse_system(self, name: str) -> None:
        if self.topics.is_system(name):
            raise RefusedRequest(
                ResponseCode.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic."
            )

    def _answer_when_saved(self, peer: Peer, command: Command) -> None:
        def answer(refusal: RefusedRequest | None) -> None:
            if command.flag & FLAG_ONEWAY:
                return
            if refusal is None:
                self.when_known(lambda: peer.send(encode_response(ResponseCode.SUCCESS, command.opaque)))
            else:
                remark = f"the topic is active but could not be saved ({refusal.remark}); the save is retried"
                peer.send(encode_response(ResponseCode.SYSTEM_ERROR, command.opaque, remark=remark))

        self.saver.when_saved(answer)
