"""Requests 400 and 401: how the members of a group get a topic's messages, and the queues that the broker assigns to them.

A group that pops a topic has it in an attribute. Its members get one assignment for each broker, with queue -1: they share by popping.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from msgspec import structs

from broker_store.groups.clients import ClientTable
from broker_store.groups.groups import GroupTable
from broker_store.ports import Commands, Peer, Saving, TopicTable
from broker_store.reading.read_settings import PERM_READ
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.bodies.admin import SetMessageRequestMode
from gantry_wire.bodies.clients import MessageModel
from gantry_wire.bodies.cluster import MessageQueue, QueueData, SubscriptionGroupConfig, TopicRouteData
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.bodies.pop import Assignment, AssignmentsBody, QueryAssignmentBody
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.names import RETRY_PREFIX, retry_topic

PULL, POP = "PULL", "POP"
MODES = frozenset({PULL, POP})
POP_ATTRIBUTE = "gantry.pop.topics"
"""Attribute of a group: the topics that it pops, joined by commas."""
TOPICS_MAX = 1000
ALL_QUEUES = -1
BY_TURNS = "AVG_BY_CIRCLE"
STRATEGIES = frozenset({"AVG", BY_TURNS})

Route = Callable[[str], Awaitable[TopicRouteData]]
"""Returns a topic's route. Raises LinkError, BrokerRefused."""


@dataclass(frozen=True, slots=True)
class AssignmentHandlers:
    """Answers these requests."""

    topics: TopicTable
    groups: GroupTable
    clients: ClientTable
    saver: Saving
    """The table of groups reports every change to it."""
    deferred: DeferredReplies
    route: Route | None
    """Asks a nameserver. None for a store that has none."""
    broker: str
    """Name of this broker."""

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.QUERY_ASSIGNMENT: ("loadBalance", self.query),
            RequestCode.SET_MESSAGE_REQUEST_MODE: ("adminBroker", self.set),
        }

    def set(self, peer: Peer, command: Command) -> None:
        """Handle 401: PULL or POP. Answers once it is saved. Raises RefusedRequest.

        `popShareQueueNum` has no effect: every member pops all queues.
        """
        wanted = decode_body(command.body, SetMessageRequestMode)
        if wanted.topic.startswith(RETRY_PREFIX):
            raise RefusedRequest(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self.topics.find(wanted.topic) is None or self.topics.is_internal(wanted.topic):
            remark = f"topic[{wanted.topic}] not exist"
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, remark)
        config = self.groups.find(wanted.consumer_group)
        if config is None:
            remark = f"subscription group [{wanted.consumer_group}] does not exist"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if wanted.mode not in MODES:
            remark = f"the mode {wanted.mode[:16]} is unknown: write PULL or POP"
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)
        self._note(config, wanted.topic, is_pop=wanted.mode == POP)

        def answer(refusal: RefusedRequest | None) -> None:
            if refusal is None:
                peer.send(encode_response(ResponseCode.SUCCESS, command.opaque))
            else:
                remark = f"the change holds but could not be saved: {refusal.remark}"
                peer.send(encode_response(ResponseCode.SYSTEM_ERROR, command.opaque, remark=remark))

        self.saver.when_saved(answer)

    def query(self, peer: Peer, command: Command) -> None:
        """Handle 400. Raises RefusedRequest."""
        asked = decode_body(command.body, QueryAssignmentBody)
        self.deferred.answer(peer, command, self._query(command, asked))

    async def _query(self, command: Command, asked: QueryAssignmentBody) -> bytes:
        queues = await self._readable(asked.topic)
        config = self.groups.find(asked.consumer_group)
        if config is not None and asked.topic in popped_topics(config):
            found = [(one.broker_name, ALL_QUEUES) for one in queues]
            mode = POP
        elif config is not None and asked.topic == retry_topic(config.group_name) and self._pops_all(config):
            found, mode = [], PULL  # pops of the topics give what is there
        else:
            every = [(one.broker_name, number) for one in queues for number in range(one.read_queue_nums)]
            found, mode = self._share(asked, every), PULL
        assignments = [
            Assignment(
                message_queue=MessageQueue(broker_name=broker, queue_id=queue_id, topic=asked.topic),
                mode=mode,
            )
            for broker, queue_id in found
        ]
        body = encode_body(AssignmentsBody(message_queue_assignments=assignments))
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=body)

    async def _readable(self, topic: str) -> list[QueueData]:
        """Return the readable queues of a topic at all brokers, at this one where no nameserver answers."""
        if self.route is not None:
            try:
                route = await self.route(topic)
            except (BrokerRefused, LinkError):
                pass
            else:
                found = [one for one in route.queue_datas if one.perm & PERM_READ]
                return sorted(found, key=lambda one: one.broker_name)
        config = self.topics.find(topic)
        if config is None or not config.perm & PERM_READ:
            return []
        return [
            QueueData(
                broker_name=self.broker,
                perm=config.perm,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
            )
        ]

    def _share(self, asked: QueryAssignmentBody, queues: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return the queues that a member pulls, as RocketMQ's clients divide them. Raises RefusedRequest."""
        if asked.message_model is MessageModel.BROADCASTING:
            return queues
        if asked.strategy_name not in STRATEGIES:
            remark = f"AllocateMessageQueueStrategy [{asked.strategy_name[:64]}] not exist"
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark)
        entry = self.clients.consumers.get(asked.consumer_group)
        members = sorted({one.client_id for one in entry.clients.values()}) if entry is not None else []
        if asked.client_id not in members:
            return []
        return share(queues, members.index(asked.client_id), len(members), asked.strategy_name)

    def _pops_all(self, config: SubscriptionGroupConfig) -> bool:
        """Whether a group pops every topic that its members subscribe to."""
        entry = self.clients.consumers.get(config.group_name)
        topics = {} if entry is None else entry.subscriptions
        popped = popped_topics(config)
        return bool(popped) and all(topic in popped or topic.startswith(RETRY_PREFIX) for topic in topics)

    def _note(self, config: SubscriptionGroupConfig, topic: str, *, is_pop: bool) -> None:
        topics = popped_topics(config)
        if (topic in topics) is is_pop:
            return
        topics = {*topics, topic} if is_pop else topics - {topic}
        if len(topics) > TOPICS_MAX:
            remark = f"the group pops {TOPICS_MAX} topics, which is the limit"
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)
        name = POP_ATTRIBUTE if topics else f"-{POP_ATTRIBUTE}"
        self.groups.put(structs.replace(config, attributes={name: ",".join(sorted(topics))}))


def popped_topics(config: SubscriptionGroupConfig) -> frozenset[str]:
    """Return the topics that a group pops."""
    return frozenset(filter(None, config.attributes.get(POP_ATTRIBUTE, "").split(",")))


def share(queues: Sequence[tuple[str, int]], place: int, count: int, strategy: str) -> list[tuple[str, int]]:
    """Return the part of the member at a place, of `count` members: neighbours, or every `count`th queue."""
    if strategy == BY_TURNS:
        return list(queues[place::count])
    size, more = divmod(len(queues), count)
    first = place * size + min(place, more)
    return list(queues[first : first + size + (place < more)])
