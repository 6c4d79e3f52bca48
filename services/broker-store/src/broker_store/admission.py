"""Whether a pull is allowed, and which messages it wants: RocketMQ 5.3.3's checks, in their order, with their codes.

Nothing here depends on the offset; a held pull is checked again when it is answered. Pure.
"""

from functools import lru_cache

from broker_store.clients import ClientTable
from broker_store.groups import GroupTable
from broker_store.ports import Peer, TopicTable
from broker_store.read_settings import PERM_READ, ReadSettings
from gantry_wire.bodies import MessageModel, SubscriptionData
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedExpression, RefusedRequest
from gantry_wire.headers import PullHeader
from gantry_wire.names import GATEWAY_GROUP
from gantry_wire.subscription import EVERYTHING, SQL92, TAG, TagFilter

FLAG_SUBSCRIPTION = 4
"""The pull brings its own subscription; without it the group's heartbeats say what it wants."""
FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


class PullRequest:
    """One pull on its way; what is needed to answer it now or later."""

    __slots__ = ("group", "header", "opaque", "peer", "topic", "wanted")

    def __init__(self, peer: Peer, opaque: int, header: PullHeader) -> None:
        self.peer = peer
        self.opaque = opaque
        self.header = header
        self.group = header.consumer_group
        self.topic = header.topic
        self.wanted: TagFilter = EVERYTHING


class Admission:
    """Checks pulls."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        settings: ReadSettings,
        broker_ip: str,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._settings = settings
        self._broker_ip = broker_ip
        self._find_group = groups.find_or_create
        self._find_topic = topics.find

    def admit(self, request: PullRequest) -> None:
        """Check everything that does not depend on the offset, and set the filter. Raises WireError."""
        header, group, topic = request.header, request.group, request.topic
        if not self._settings.broker_permission & PERM_READ:
            raise _forbidden(f"the broker[{self._broker_ip}] pulling message is forbidden")
        group_config = self._find_group(group)
        if group_config is None:
            words = f"subscription group [{group}] does not exist, {FAQ}"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, words)
        if not group_config.consume_enable:
            raise _forbidden(f"subscription group no permission, {group}")
        topic_config = self._find_topic(topic)
        if topic_config is None:
            words = f"topic[{topic}] not exist, apply first please! {FAQ}"
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, words)
        is_internal = self._topics.is_internal(topic) and group != GATEWAY_GROUP
        if not topic_config.perm & PERM_READ or is_internal:
            raise _forbidden(f"the topic[{topic}] pulling message is forbidden")
        if not 0 <= header.queue_id < topic_config.read_queue_nums:
            words = (
                f"queueId[{header.queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:"
                f"[{topic_config.read_queue_nums}] consumer:[{request.peer.remote[0]}]"
            )
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, words)
        if header.sys_flag & FLAG_SUBSCRIPTION:
            request.wanted = filter_of(header.expression_type or TAG, header.subscription or "")
        else:
            subscription = self._stored_subscription(request, group_config.consume_broadcast_enable)
            request.wanted = filter_of(subscription.expression_type, subscription.sub_string)

    def _stored_subscription(self, request: PullRequest, may_broadcast: bool) -> SubscriptionData:
        """Return what the group's heartbeats said about the topic."""
        group, topic = request.group, request.topic
        consumers = self._clients.consumers.get(group)
        if consumers is None:
            words = f"the consumer's group info not exist, {FAQ}"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_NOT_EXIST, words)
        if not may_broadcast and consumers.consumption.model is MessageModel.BROADCASTING:
            raise _forbidden(f"the consumer group[{group}] can not consume by broadcast way")
        if self._groups.forbidden.get(group, {}).get(topic, 0) & PERM_READ:
            raise _forbidden(f"the consumer group[{group}] is forbidden for topic[{topic}]")
        subscription = consumers.subscriptions.get(topic)
        if subscription is None:
            words = f"the consumer's subscription not exist, {FAQ}"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_NOT_EXIST, words)
        if subscription.sub_version < request.header.sub_version:
            words = "the consumer's subscription not latest"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_NOT_LATEST, words)
        return subscription


@lru_cache(maxsize=4096)
def filter_of(expression_type: str, expression: str) -> TagFilter:
    """Return the filter of an expression. Raises RefusedRequest for one that cannot be read or evaluated here."""
    if expression_type != TAG:
        kind = SQL92 if expression_type == SQL92 else expression_type[:64]
        words = f"The broker does not support consumer to filter message by {kind}"
        raise RefusedRequest(ResponseCode.SYSTEM_ERROR, words)
    try:
        return TagFilter.parse(expression)
    except MalformedExpression as error:
        words = "parse the consumer's subscription failed"
        raise RefusedRequest(ResponseCode.SUBSCRIPTION_PARSE_FAILED, words) from error


def _forbidden(words: str) -> RefusedRequest:
    return RefusedRequest(ResponseCode.NO_PERMISSION, words)
