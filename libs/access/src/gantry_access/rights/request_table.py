"""Request code → requirements, for every code that stores, nameservers, schedulers and transaction checkers answer.

RocketMQ 5.3.3 leaves many codes unchecked; this table follows its development branch, which checks them, and is stricter where noted.
A code without a row is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from gantry_access.model.needs import Requirement
from gantry_access.model.resources import ResourceType
from gantry_access.rights import bodies
from gantry_access.rights.asked import Asked
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.requirements import (
    CREATE,
    DELETE,
    GET,
    LIST,
    PUB,
    PUB_SUB_OR_GET,
    SUB,
    SUB_OR_GET,
    SUB_OR_UPDATE,
    UPDATE,
)
from gantry_access.rights.rules import (
    INNER,
    OPEN,
    Cancelled,
    Cluster,
    Every,
    Group,
    Names,
    Read,
    Row,
    Topic,
    TopicAndRecord,
    of_record,
    row,
)
from gantry_access.texts import CONTEXT_EMPTY
from gantry_wire.codes import GantryCode, RequestCode
from gantry_wire.names import AUTO_CREATE_TOPIC

_READS_CLUSTER, _CHANGES_CLUSTER = row(Cluster(GET)), row(Cluster(UPDATE))
_ALL_TOPICS, _ALL_GROUPS = Every(ResourceType.TOPIC, LIST), Every(ResourceType.GROUP, LIST)
_TOPIC_GET = row(Topic("topic", GET))
_TOPIC_SUB_OR_GET = row(Topic("topic", SUB_OR_GET))
"""Of the offsets by which a consumer without one starts. RocketMQ needs Get, so there a consumer with Sub alone cannot start at the end."""
_LOCKS = row(Read("Group Sub (the body's `consumerGroup`); Topic Sub of each queue", bodies.locks))
_PULL = row(
    Read(
        "Topic Sub (`topic`); Group Sub (`consumerGroup`). A retry topic must be the group's. With `gantryBrowse` only Topic Sub/Get",
        bodies.pull,
    )
)
_POP = row(
    Read(
        "Topic Sub (`topic`); Group Sub (`consumerGroup`). A retry topic must be the group's, also as `%RETRY%group_topic`, which needs its topic too",
        bodies.pop,
    )
)

_MESSAGES: Mapping[int, Row] = {
    RequestCode.SEND_MESSAGE: row(Topic("topic", PUB, on_retry=SUB), Cancelled("properties", PUB)),
    RequestCode.SEND_MESSAGE_V2: row(Topic("b", PUB, on_retry=SUB), Cancelled("i", PUB)),
    RequestCode.SEND_BATCH_MESSAGE: row(Topic("b", PUB, on_retry=SUB), Cancelled("i", PUB)),
    RequestCode.SEND_REPLY_MESSAGE: row(Topic("topic", PUB, on_retry=SUB)),
    RequestCode.SEND_REPLY_MESSAGE_V2: row(Topic("b", PUB, on_retry=SUB)),
    RequestCode.RECALL_MESSAGE: row(Topic("topic", PUB)),
    RequestCode.END_TRANSACTION: row(TopicAndRecord("topic", PUB)),
    RequestCode.PULL_MESSAGE: _PULL,
    RequestCode.LITE_PULL_MESSAGE: _PULL,
    RequestCode.QUERY_MESSAGE: row(Topic("topic", SUB_OR_GET)),
    RequestCode.VIEW_MESSAGE_BY_ID: row(TopicAndRecord("topic", GET)),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _TOPIC_SUB_OR_GET,
    RequestCode.GET_MAX_OFFSET: _TOPIC_SUB_OR_GET,
    RequestCode.GET_MIN_OFFSET: _TOPIC_SUB_OR_GET,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _TOPIC_GET,
}

_CONSUMERS: Mapping[int, Row] = {
    RequestCode.QUERY_CONSUMER_OFFSET: row(Topic("topic", SUB_OR_GET), Group("consumerGroup", SUB_OR_GET)),
    RequestCode.UPDATE_CONSUMER_OFFSET: row(
        Topic("topic", SUB_OR_UPDATE), Group("consumerGroup", SUB_OR_UPDATE)
    ),
    RequestCode.HEART_BEAT: row(
        Read(
            "Group Sub of each consumer in the body; Topic Sub of each subscription; producers: any user",
            bodies.heartbeat,
        )
    ),
    RequestCode.UNREGISTER_CLIENT: row(Group("consumerGroup", SUB, is_optional=True)),
    RequestCode.CONSUMER_SEND_MSG_BACK: row(
        Group("group", SUB),
        of_record(SUB),  # otherwise a group gets any message by its offset
    ),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: row(Group("consumerGroup", SUB_OR_GET)),
    RequestCode.LOCK_BATCH_MQ: _LOCKS,
    RequestCode.UNLOCK_BATCH_MQ: _LOCKS,
    RequestCode.CHECK_CLIENT_CONFIG: row(
        Read("Topic Sub (the body's subscription); Group Sub (the body's `group`)", bodies.client_check)
    ),
    RequestCode.POP_MESSAGE: _POP,
    RequestCode.PEEK_MESSAGE: _POP,
    RequestCode.NOTIFICATION: _POP,
    RequestCode.POLLING_INFO: _POP,
    RequestCode.ACK_MESSAGE: _POP,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: _POP,
    RequestCode.BATCH_ACK_MESSAGE: row(
        Read("Topic Sub; Group Sub (both of each entry of the body)", bodies.batch_ack)
    ),
    RequestCode.QUERY_ASSIGNMENT: row(Read("Topic Sub; Group Sub (both of the body)", bodies.assignment)),
    RequestCode.SET_MESSAGE_REQUEST_MODE: row(
        Read("Topic Sub; Group Update (both of the body)", bodies.request_mode)
    ),
}

_TOPICS_AND_GROUPS: Mapping[int, Row] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: row(Topic("topic", CREATE)),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: row(
        Read("Topic Create of each in the body", bodies.topics_created)
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER: row(Topic("topic", DELETE)),
    RequestCode.GET_ALL_TOPIC_CONFIG: row(_ALL_TOPICS),
    RequestCode.GET_TOPIC_CONFIG: _TOPIC_GET,
    RequestCode.GET_TOPIC_STATS_INFO: _TOPIC_GET,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _TOPIC_GET,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: row(_ALL_TOPICS),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: row(
        Read("Group Create (the body's)", bodies.group_created)
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: row(
        Read("Group Create of each in the body", bodies.groups_created)
    ),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: row(Group("groupName", DELETE)),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: row(_ALL_GROUPS),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: row(Group("group", GET)),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: row(Group("consumerGroup", GET)),
    RequestCode.GET_CONSUMER_RUNNING_INFO: row(Group("consumerGroup", GET)),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: row(Group("group", GET)),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: row(
        Group("group", GET), Topic("topic", GET, is_optional=True)
    ),
    RequestCode.GET_CONSUME_STATS: row(
        Group("consumerGroup", GET),
        Topic("topic", GET, is_optional=True),
        Names("topicList", ";", GET, ResourceType.TOPIC),
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: row(Group("group", UPDATE), Topic("topic", UPDATE)),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: row(Group("group", GET), Topic("topic", GET)),
    RequestCode.QUERY_CONSUME_TIME_SPAN: row(Group("group", GET), Topic("topic", GET)),
    RequestCode.QUERY_CORRECTION_OFFSET: row(
        Group("compareGroup", GET), Topic("topic", GET), Names("filterGroups", ",", GET, ResourceType.GROUP)
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: row(Group("consumerGroup", SUB), TopicAndRecord("topic", SUB)),
    RequestCode.CLONE_GROUP_OFFSET: row(
        Group("srcGroup", GET), Group("destGroup", UPDATE), Topic("topic", UPDATE, is_optional=True)
    ),
    RequestCode.QUERY_CONSUME_QUEUE: row(Topic("topic", GET), Group("consumerGroup", GET, is_optional=True)),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: row(TopicAndRecord("topic", UPDATE)),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: row(Group("group", UPDATE), Topic("topic", UPDATE)),
}

_BROKERS: Mapping[int, Row] = {
    RequestCode.UPDATE_BROKER_CONFIG: _CHANGES_CLUSTER,
    RequestCode.GET_BROKER_CONFIG: _READS_CLUSTER,
    RequestCode.GET_BROKER_RUNTIME_INFO: _READS_CLUSTER,
    RequestCode.GET_ALL_CONSUMER_OFFSET: _READS_CLUSTER,
    RequestCode.GET_ALL_DELAY_OFFSET: _READS_CLUSTER,
    RequestCode.GET_TIMER_CHECK_POINT: _READS_CLUSTER,
    RequestCode.GET_TIMER_METRICS: _READS_CLUSTER,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: _READS_CLUSTER,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _READS_CLUSTER,
    RequestCode.GET_ALL_PRODUCER_INFO: _READS_CLUSTER,
    RequestCode.VIEW_BROKER_STATS_DATA: _READS_CLUSTER,
    RequestCode.GET_BROKER_CONSUME_STATS: _READS_CLUSTER,
    RequestCode.GET_BROKER_HA_STATUS: _READS_CLUSTER,
    RequestCode.GET_BROKER_EPOCH_CACHE: _READS_CLUSTER,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: _CHANGES_CLUSTER,
    RequestCode.CLEAN_UNUSED_TOPIC: _CHANGES_CLUSTER,
    RequestCode.DELETE_EXPIRED_COMMITLOG: _CHANGES_CLUSTER,
}

_USERS_AND_POLICIES: Mapping[int, Row] = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: _CHANGES_CLUSTER,
    RequestCode.DELETE_ACL_CONFIG: _CHANGES_CLUSTER,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: _READS_CLUSTER,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: _CHANGES_CLUSTER,
    RequestCode.AUTH_CREATE_USER: _CHANGES_CLUSTER,
    RequestCode.AUTH_UPDATE_USER: _CHANGES_CLUSTER,
    RequestCode.AUTH_DELETE_USER: _CHANGES_CLUSTER,
    RequestCode.AUTH_GET_USER: _READS_CLUSTER,
    RequestCode.AUTH_LIST_USER: _READS_CLUSTER,
    RequestCode.AUTH_CREATE_ACL: _CHANGES_CLUSTER,
    RequestCode.AUTH_UPDATE_ACL: _CHANGES_CLUSTER,
    RequestCode.AUTH_DELETE_ACL: _CHANGES_CLUSTER,
    RequestCode.AUTH_GET_ACL: _READS_CLUSTER,
    RequestCode.AUTH_LIST_ACL: _READS_CLUSTER,
}
"""What changes users needs more than the right on the cluster where it is about a Super user: the store checks that."""
ABOUT_ACCESS = frozenset(_USERS_AND_POLICIES) | {GantryCode.ACCESS_CHANGES, GantryCode.ACCESS_CHANGE}
"""Requests that read or change users, policies and tokens. They are decided as long as there are any, whatever else is."""

_NAMESERVERS: Mapping[int, Row] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: row(
        Topic("topic", PUB_SUB_OR_GET, on_retry=SUB_OR_GET, any_user_of=AUTO_CREATE_TOPIC)
    ),
    RequestCode.REGISTER_BROKER: row(Cluster(UPDATE, "clusterName")),
    RequestCode.UNREGISTER_BROKER: row(Cluster(UPDATE, "clusterName")),
    RequestCode.QUERY_DATA_VERSION: row(
        Cluster(UPDATE, "clusterName")
    ),  # an equal version counts as a heartbeat
    RequestCode.BROKER_HEARTBEAT: row(Cluster(UPDATE, "clusterName")),
    RequestCode.GET_BROKER_MEMBER_GROUP: row(Cluster(GET, "clusterName")),
    RequestCode.GET_BROKER_CLUSTER_INFO: _READS_CLUSTER,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: _CHANGES_CLUSTER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: _CHANGES_CLUSTER,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _READS_CLUSTER,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: row(Topic("topic", DELETE)),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: _CHANGES_CLUSTER,
    RequestCode.GET_TOPICS_BY_CLUSTER: row(Cluster(GET, "cluster")),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _READS_CLUSTER,
    RequestCode.GET_UNIT_TOPIC_LIST: _READS_CLUSTER,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _READS_CLUSTER,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _READS_CLUSTER,
    RequestCode.PUT_KV_CONFIG: _CHANGES_CLUSTER,
    RequestCode.GET_KV_CONFIG: _READS_CLUSTER,
    RequestCode.DELETE_KV_CONFIG: _CHANGES_CLUSTER,
    RequestCode.GET_KVLIST_BY_NAMESPACE: _READS_CLUSTER,
    RequestCode.UPDATE_NAMESRV_CONFIG: _CHANGES_CLUSTER,
    RequestCode.GET_NAMESRV_CONFIG: _READS_CLUSTER,
}

REQUESTS: Mapping[int, Row] = {
    **_MESSAGES,
    **_CONSUMERS,
    **_TOPICS_AND_GROUPS,
    **_BROKERS,
    **_USERS_AND_POLICIES,
    **_NAMESERVERS,
    **dict.fromkeys(GantryCode, INNER),
    **dict.fromkeys(
        (GantryCode.INTRODUCE, GantryCode.PROVE), OPEN
    ),  # with them a service becomes an inner one
}
"""Every row. Gantry's own codes run between its services; the gateway checks the rights of the user before it sends one."""


def requirements_of_request(code: int, asked: Asked) -> tuple[Requirement, ...]:
    """Return what a remoting request requires. Raises RightsRefused, or MalformedBody or MissingField for what cannot be read."""
    found = REQUESTS.get(code)
    if found is None:
        raise RightsRefused(CONTEXT_EMPTY)
    return found.requirements(asked)
