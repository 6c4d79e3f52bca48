"""Whether a pull is allowed, and which messages it wants: RocketMQ 5.3.3's checks, in their order, with their codes.

No check depends on the offset. A held pull is checked again when it is answered. Pure.
"""

from functools import lru_cache

from broker_store.filters.compiled import compile_or_refuse, refuse_class_filter
from broker_store.filters.table import FilterTable
from broker_store.groups.clients import ClientTable
from broker_store.groups.groups import GroupTable
from broker_store.ports import Admitted, Peer, TopicTable
from broker_store.reading.read_settings import PERM_READ, ReadSettings
from gantry_wire.bodies.clients import MessageModel, SubscriptionData
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedExpression, RefusedRequest
from gantry_wire.headers.messages import PullHeader
from gantry_wire.sql92.compiling import SqlFilter
from gantry_wire.subscription import EVERYTHING, TAG, TagFilter

FLAG_SUBSCRIPTION = 4
"""The pull carries its own subscription. Without it the group's heartbeats say what it wants."""
FLAG_CLASS_FILTER = 8
FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


class PullRequest:
    """A pull in flight, with everything needed to answer it now or later."""

    __slots__ = ("admitted", "deadline_ms", "group", "header", "opaque", "peer", "sql", "topic", "wanted")

    def __init__(self, peer: Peer, opaque: int, header: PullHeader) -> None:
        self.peer = peer
        self.opaque = opaque
        self.header = header
        self.group = header.consumer_group
        self.topic = header.topic
        self.wanted: TagFilter = EVERYTHING
        self.sql: SqlFilter | None = None
        """The filter by properties, instead of one by tag."""
        self.admitted: Admitted | None = None
        """What access control decides again before a held pull is answered."""
        self.deadline_ms = 0
        """Loop time (ms) until which it may be held, 0 until it is first held."""


class Admission:
    """Checks pulls."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        settings: ReadSettings,
        broker_ip: str,
        filters: FilterTable,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._settings = settings
        self._broker_ip = broker_ip
        self._filters = filters
        self._find_group = groups.find_or_create
        self._find_topic = topics.find

    def group_of(self, request: PullRequest) -> SubscriptionGroupConfig | None:
        """Return the group of a pull. None for a reader without one."""
        return self._groups.find(request.group)

    def admit(self, request: PullRequest) -> None:
        """Run every check that does not depend on the offset, and set the filter. Raises WireError."""
        header, group, topic = request.header, request.group, request.topic
        if not self._settings.broker_permission & PERM_READ:
            raise _forbidden(f"the broker[{self._broker_ip}] pulling message is forbidden")
        may_broadcast = True if header.browse else self._check_group(group).consume_broadcast_enable
        topic_config = self._find_topic(topic)
        if topic_config is None:
            remark = f"topic[{topic}] not exist, apply first please! {FAQ}"
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, remark)
        is_internal = self._topics.is_internal(topic) and not header.browse
        if not topic_config.perm & PERM_READ or is_internal:
            raise _forbidden(f"the topic[{topic}] pulling message is forbidden")
        if not 0 <= header.queue_id < topic_config.read_queue_nums:
            remark = (
                f"queueId[{header.queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:"
                f"[{topic_config.read_queue_nums}] consumer:[{request.peer.remote[0]}]"
            )
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)
        self._set_filter(request, may_broadcast=may_broadcast)

    def _check_group(self, group: str) -> SubscriptionGroupConfig:
        config = self._find_group(group)
        if config is None:
            remark = f"subscription group [{group}] does not exist, {FAQ}"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not config.consume_enable:
            raise _forbidden(f"subscription group no permission, {group}")
        return config

    def _set_filter(self, request: PullRequest, *, may_broadcast: bool) -> None:
        """Set the filter: from the pull itself, or from the group's heartbeats unless it reads for no group."""
        header = request.header
        if header.sys_flag & FLAG_CLASS_FILTER:
            raise refuse_class_filter()
        if header.sys_flag & FLAG_SUBSCRIPTION:
            if header.expression_type and header.expression_type != TAG:
                self._set_sql(request, header.expression_type, compiling=header.subscription or "")
            else:
                request.wanted = tag_filter_of(header.subscription or "")
            return
        if header.browse:  # no right on the group that it names was checked
            request.wanted, request.sql = EVERYTHING, None
            return
        subscription = self._stored_subscription(request, may_broadcast)
        if subscription.class_filter_mode:
            raise refuse_class_filter()
        if subscription.expression_type != TAG:
            self._set_sql(request, subscription.expression_type)
        else:
            request.wanted, request.sql = tag_filter_of(subscription.sub_string), None

    def _set_sql(self, request: PullRequest, kind: str, *, compiling: str | None = None) -> None:
        """Set a filter by properties: the given one, or the one the group's heartbeats registered."""
        if not self._settings.property_filter_enable:
            remark = f"The broker does not support consumer to filter message by {kind[:64]}"
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark)
        request.wanted = EVERYTHING
        if compiling is not None:
            request.sql = compile_or_refuse(kind, compiling)
            return
        known = self._filters.find(request.topic, request.group)
        if known is None:
            remark = "The broker's consumer filter data is not exist! Your expression may be wrong!"
            raise RefusedRequest(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
        if known.client_version < request.header.sub_version:
            remark = "the consumer's consumer filter data not latest"
            raise RefusedRequest(ResponseCode.FILTER_DATA_NOT_LATEST, remark)
        request.sql = known.compiled

    def _stored_subscription(self, request: PullRequest, may_broadcast: bool) -> SubscriptionData:
        """Return the group's subscription to the topic, from its heartbeats."""
        group, topic = request.group, request.topic
        consumers = self._clients.consumers.get(group)
        if consumers is None:
            remark = f"the consumer's group info not exist, {FAQ}"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if not may_broadcast and consumers.consumption.model is MessageModel.BROADCASTING:
            raise _forbidden(f"the consumer group[{group}] can not consume by broadcast way")
        if not self._groups.may_read(group, topic):
            raise _forbidden(f"the consumer group[{group}] is forbidden for topic[{topic}]")
        subscription = consumers.subscriptions.get(topic)
        if subscription is None:
            remark = f"the consumer's subscription not exist, {FAQ}"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if subscription.sub_version < request.header.sub_version:
            remark = "the consumer's subscription not latest"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
        return subscription


@lru_cache(maxsize=4096)
def tag_filter_of(expression: str) -> TagFilter:
    """Return the filter of a tag expression. Raises RefusedRequest when it cannot be parsed."""
    try:
        return TagFilter.parse(expression)
    except MalformedExpression as error:
        remark = "parse the consumer's subscription failed"
        raise RefusedRequest(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from error


def _forbidden(remark: str) -> RefusedRequest:
    return RefusedRequest(ResponseCode.NO_PERMISSION, remark)
