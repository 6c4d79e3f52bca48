"""Requirements that the decoded body of a remoting request states."""

from __future__ import annotations

from collections.abc import Iterable

from gantry_access.model.needs import Requirement
from gantry_access.rights.asked import Asked
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.requirements import (
    CREATE,
    SUB,
    SUB_OR_GET,
    UPDATE,
    group_need,
    topic_need,
)
from gantry_access.texts import OTHER_RETRY_TOPIC
from gantry_wire.bodies.admin import SetMessageRequestMode
from gantry_wire.bodies.clients import (
    CheckClientRequestBody,
    HeartbeatData,
    LockBatchRequestBody,
    SubscriptionData,
)
from gantry_wire.bodies.cluster import (
    MessageQueue,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    TopicConfigList,
)
from gantry_wire.bodies.json_body import Body, decode_body
from gantry_wire.bodies.pop import BatchAckBody
from gantry_wire.headers.messages import PullHeader
from gantry_wire.headers.typed_header import header_from_fields
from gantry_wire.names import RETRY_PREFIX


class _Assignment(Body, kw_only=True, rename="camel"):
    consumer_group: str | None = None
    topic: str | None = None


def heartbeat(asked: Asked) -> Iterable[Requirement]:
    """34: each consumer's group, and each topic it subscribes to. Producers need nothing: their sends are checked."""
    for consumer in decode_body(asked.body, HeartbeatData).consumer_data_set:
        yield group_need(consumer.group_name, SUB)
        yield from _subscriptions(consumer.subscription_data_set)


def locks(asked: Asked) -> Iterable[Requirement]:
    """41 and 42: the group, and the topic of each queue."""
    body = decode_body(asked.body, LockBatchRequestBody)
    yield group_need(body.consumer_group, SUB)
    yield from _subscriptions(body.mq_set)


def client_check(asked: Asked) -> Iterable[Requirement]:
    """46: the group and the topic whose filter is checked."""
    body = decode_body(asked.body, CheckClientRequestBody)
    return topic_need(body.subscription_data.topic, SUB), group_need(body.group, SUB)


def assignment(asked: Asked) -> Iterable[Requirement]:
    """400: the topic whose queues a member asks for, and its group."""
    body = decode_body(asked.body, _Assignment)
    return topic_need(body.topic, SUB), group_need(body.consumer_group, SUB)


def request_mode(asked: Asked) -> Iterable[Requirement]:
    """401: how a group gets the messages of a topic."""
    body = decode_body(asked.body, SetMessageRequestMode)
    return topic_need(body.topic, SUB), group_need(body.consumer_group, UPDATE)


def topics_created(asked: Asked) -> Iterable[Requirement]:
    """18: each topic."""
    topics = decode_body(asked.body, TopicConfigList).topic_config_list
    return (topic_need(topic.topic_name, CREATE) for topic in topics)


def group_created(asked: Asked) -> Iterable[Requirement]:
    """200: the group."""
    return (group_need(decode_body(asked.body, SubscriptionGroupConfig).group_name, CREATE),)


def groups_created(asked: Asked) -> Iterable[Requirement]:
    """225: each group."""
    groups = decode_body(asked.body, SubscriptionGroupList).group_config_list
    return (group_need(group.group_name, CREATE) for group in groups)


def pull(asked: Asked) -> Iterable[Requirement]:
    """11 and 361: topic and group. A retry topic belongs to the group that pulls it. A read without a group needs the topic only."""
    topic = asked.fields.get("topic", "")
    if "gantryBrowse" in asked.fields and header_from_fields(dict(asked.fields), PullHeader).browse:
        return (topic_need(topic, SUB_OR_GET),)
    if not topic.startswith(RETRY_PREFIX):
        return topic_need(topic, SUB), group_need(asked.fields.get("consumerGroup"), SUB)
    group = group_need(asked.fields.get("consumerGroup"), SUB)
    if topic != RETRY_PREFIX + asked.fields["consumerGroup"].removeprefix(RETRY_PREFIX):
        raise RightsRefused(OTHER_RETRY_TOPIC)
    return (group,)


def pop(asked: Asked) -> Iterable[Requirement]:
    """200050 to 200055: topic and group."""
    return _popped(asked.fields.get("topic"), asked.fields.get("consumerGroup"))


def batch_ack(asked: Asked) -> Iterable[Requirement]:
    """200151: topic and group of each entry."""
    body = decode_body(asked.body, BatchAckBody)
    return [need for one in body.acks for need in _popped(one.topic, one.consumer_group)]


def _popped(topic: str | None, group: str | None) -> Iterable[Requirement]:
    """Return the needs of a pop or its acknowledgement. The retry topic of a topic is named with it, and must be the group's."""
    needs = [group_need(group, SUB)]
    if topic is None or not topic.startswith(RETRY_PREFIX):
        return [topic_need(topic, SUB), *needs]
    own = RETRY_PREFIX + (group or "").removeprefix(RETRY_PREFIX)
    if topic == own:
        return needs
    if topic.startswith((f"{own}_", f"{own}+")):
        return [topic_need(topic[len(own) + 1 :], SUB), *needs]
    raise RightsRefused(OTHER_RETRY_TOPIC)


def _subscriptions(named: Iterable[SubscriptionData | MessageQueue]) -> Iterable[Requirement]:
    """Return the need for each topic. A retry topic is checked as its group, which need not be the consumer's own."""
    return (topic_need(one.topic, SUB) for one in named)
