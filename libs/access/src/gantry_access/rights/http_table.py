"""HTTP route (method, path template) → requirements: of the gateway's port, and of the other services' own ports.

A call that names no topic needs the right on all topics, or on the topic of the record that its id identifies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from gantry_access.model.needs import AnyUser, Need, Requirement
from gantry_access.model.resources import Resource, ResourceType
from gantry_access.rights.asked import Asked
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.requirements import (
    CREATE,
    DELETE,
    GET,
    LIST,
    PUB,
    PUB_OR_GET,
    SUB,
    SUB_OR_GET,
    UPDATE,
    group_need,
    topic_need,
)
from gantry_access.rights.rules import (
    ANY_USER,
    INNER,
    OPEN,
    Cluster,
    Every,
    Fixed,
    Group,
    Read,
    Row,
    Topic,
    TopicAndRecord,
    TopicOrEvery,
    of_record,
    row,
)
from gantry_access.texts import CONTEXT_EMPTY
from gantry_wire.private_requests.settling import decode_json

HttpRoute = tuple[str, str]
_EVERY_PUB = Need(Resource.every(ResourceType.TOPIC), PUB)
ORIGINAL = "original"
"""The target of a redrive to the topic of each dead letter."""


class _NamedTopic(Struct):
    topic: str


class _NamedGroup(Struct):
    group: str


class _MayNameTopic(Struct):
    topic: str | None = None


class _Offsets(Struct):
    offsets: list[_NamedTopic]


class _Definitions(Struct):
    topics: list[_NamedTopic] = field(default_factory=list[_NamedTopic])
    groups: list[_NamedGroup] = field(default_factory=list[_NamedGroup])


class _Redrive(Struct):
    to_topic: str | None = field(default=None, name="toTopic")


def _offsets(asked: Asked) -> Iterable[Requirement]:
    return [topic_need(one.topic, UPDATE) for one in decode_json(asked.body, _Offsets).offsets]


def _reset(asked: Asked) -> Iterable[Requirement]:
    return (topic_need(decode_json(asked.body, _NamedTopic).topic, UPDATE),)


def _bulk(asked: Asked) -> Iterable[Requirement]:
    topic = decode_json(asked.body, _MayNameTopic).topic
    return (_EVERY_PUB if topic is None else topic_need(topic, PUB),)


def _definitions(asked: Asked) -> Iterable[Requirement]:
    body = decode_json(asked.body, _Definitions)
    needs: list[Requirement] = [topic_need(one.topic, CREATE) for one in body.topics]
    return needs + [group_need(one.group, CREATE) for one in body.groups]


def _redrive(asked: Asked) -> Iterable[Requirement]:
    """Need all topics for a redrive to the original ones, which the request does not name.

    A redrive to another topic shows the letters to its readers, so it needs the right to read those of the group.
    """
    has_body = asked.body.strip() not in (b"", b"null")
    target = decode_json(asked.body, _Redrive).to_topic if has_body else None
    if target is None:
        return ()
    if target == ORIGINAL:
        return (_EVERY_PUB,)
    return group_need(asked.fields.get("group"), SUB_OR_GET), topic_need(target, PUB, SUB)


_CONSUMES = row(Topic("topic", SUB), Group("group", SUB))
_READS_CLUSTER, _CHANGES_CLUSTER = row(Cluster(GET)), row(Cluster(UPDATE))
_ASKS_ABOUT_ITSELF = row(Fixed(AnyUser(), "any user about itself, Cluster Get about others"))
"""Here and below, what reads the request asks for the second right: the table does not know the user of a request, nor that of a token."""
_LISTS_OWN_TOKENS = row(Fixed(AnyUser(), "any user its own, Cluster Get others"))
_CHANGES_OWN_TOKENS = row(Fixed(AnyUser(), "any user its own, Cluster Update those of others"))
_CHANGES_SCHEDULE, _DECIDES = row(TopicAndRecord("topic", PUB)), row(of_record(PUB))
_BULK = row(Read("Topic Pub (the body's `topic`; without it all topics)", _bulk))

_MESSAGES: Mapping[HttpRoute, Row] = {
    ("POST", "/v1/topics/{topic}/messages"): row(Topic("topic", PUB, on_retry=SUB)),
    ("GET", "/v1/topics/{topic}/queues/{broker}/{queueId}/messages"): row(Topic("topic", SUB_OR_GET)),
    ("POST", "/v1/topics/{topic}/groups/{group}/messages:receive"): _CONSUMES,
    ("POST", "/v1/topics/{topic}/groups/{group}/messages:ack"): _CONSUMES,
    ("POST", "/v1/topics/{topic}/groups/{group}/messages:extend"): _CONSUMES,
    ("GET", "/v1/messages"): row(Topic("topic", SUB_OR_GET)),
    ("GET", "/v1/messages/{id}"): row(TopicAndRecord("topic", SUB_OR_GET)),
    ("GET", "/v1/messages/{id}/timeline"): row(TopicAndRecord("topic", SUB_OR_GET)),
}

_TOPICS_AND_GROUPS: Mapping[HttpRoute, Row] = {
    ("GET", "/v1/topics"): row(Every(ResourceType.TOPIC, LIST)),
    ("GET", "/v1/topics/{topic}"): row(Topic("topic", GET)),
    ("PUT", "/v1/topics/{topic}"): row(Topic("topic", CREATE)),
    ("DELETE", "/v1/topics/{topic}"): row(Topic("topic", DELETE)),
    ("GET", "/v1/groups"): row(Every(ResourceType.GROUP, LIST)),
    ("GET", "/v1/groups/{group}"): row(Group("group", GET)),
    ("PUT", "/v1/groups/{group}"): row(Group("group", CREATE)),
    ("DELETE", "/v1/groups/{group}"): row(Group("group", DELETE)),
    ("POST", "/v1/groups/{group}:pause"): row(Group("group", UPDATE)),
    ("POST", "/v1/groups/{group}:resume"): row(Group("group", UPDATE)),
    ("PUT", "/v1/groups/{group}/offsets"): row(
        Group("group", UPDATE), Read("Topic Update of each in the body", _offsets)
    ),
    ("POST", "/v1/groups/{group}/offsets:reset"): row(
        Group("group", UPDATE), Read("Topic Update (the body's `topic`)", _reset)
    ),
    ("GET", "/v1/groups/{group}/lag"): row(Group("group", GET), Topic("topic", GET, is_optional=True)),
    ("GET", "/v1/groups/{group}/deadLetters"): row(Group("group", SUB_OR_GET)),
    ("POST", "/v1/groups/{group}/deadLetters:redrive"): row(
        Group("group", UPDATE),
        Read(
            "Topic Pub and Group Sub/Get (the body's `toTopic`, if given; `original`: Topic Pub of all)",
            _redrive,
        ),
    ),
}

_CLUSTER: Mapping[HttpRoute, Row] = {
    ("GET", "/v1/brokers"): _READS_CLUSTER,
    ("GET", "/v1/brokers/{broker}/settings"): _READS_CLUSTER,
    ("PATCH", "/v1/brokers/{broker}/settings"): _CHANGES_CLUSTER,
    ("POST", "/v1/brokers/{broker}:moveLeader"): _CHANGES_CLUSTER,
    ("GET", "/v1/cluster"): _READS_CLUSTER,
    ("GET", "/v1/definitions"): row(Every(ResourceType.TOPIC, LIST), Every(ResourceType.GROUP, LIST)),
    ("PUT", "/v1/definitions"): row(Read("Topic Create and Group Create of each in the body", _definitions)),
    ("GET", "/v1/reports"): _READS_CLUSTER,
    ("GET", "/v1/reports/index.html"): _READS_CLUSTER,
    ("GET", "/v1/reports/{name}/{path}"): _READS_CLUSTER,
}

_SCHEDULES: Mapping[HttpRoute, Row] = {
    ("GET", "/v1/schedules"): row(TopicOrEvery("topic", GET)),
    ("DELETE", "/v1/schedules/{id}"): _CHANGES_SCHEDULE,
    ("PATCH", "/v1/schedules/{id}"): _CHANGES_SCHEDULE,
    ("POST", "/v1/schedules/{id}:deliverNow"): _CHANGES_SCHEDULE,
    ("POST", "/v1/schedules:bulkCancel"): _BULK,
    ("POST", "/v1/schedules:bulkMove"): _BULK,
    ("GET", "/v1/parked"): row(TopicOrEvery("topic", GET)),
    ("POST", "/v1/parked/{id}:resend"): _CHANGES_SCHEDULE,
    ("GET", "/v1/tasks"): _READS_CLUSTER,
    ("GET", "/v1/tasks/{id}"): _READS_CLUSTER,
    ("POST", "/v1/tasks/{id}:cancel"): _CHANGES_CLUSTER,
}

_TRANSACTIONS: Mapping[HttpRoute, Row] = {
    ("POST", "/v1/topics/{topic}/transactions"): row(Topic("topic", PUB)),
    ("POST", "/v1/transactions/{id}:commit"): _DECIDES,
    ("POST", "/v1/transactions/{id}:rollback"): _DECIDES,
    ("GET", "/v1/transactions"): row(TopicOrEvery("topic", PUB_OR_GET)),
    ("GET", "/v1/transactions/{id}"): row(of_record(PUB_OR_GET)),
    ("POST", "/v1/producerGroups/{group}/checks:receive"): _DECIDES,
}

_USERS: Mapping[HttpRoute, Row] = {
    ("GET", "/v1/users"): _READS_CLUSTER,
    ("POST", "/v1/users"): _CHANGES_CLUSTER,
    ("GET", "/v1/users/{name}"): _READS_CLUSTER,
    ("PATCH", "/v1/users/{name}"): _CHANGES_CLUSTER,
    ("DELETE", "/v1/users/{name}"): _CHANGES_CLUSTER,
    ("POST", "/v1/users/{name}:rotate"): _CHANGES_CLUSTER,
    ("GET", "/v1/policies"): _READS_CLUSTER,
    ("GET", "/v1/policies/{subject}"): _READS_CLUSTER,
    ("PUT", "/v1/policies/{subject}"): _CHANGES_CLUSTER,
    ("DELETE", "/v1/policies/{subject}"): _CHANGES_CLUSTER,
    ("GET", "/v1/tokens"): _LISTS_OWN_TOKENS,
    ("POST", "/v1/tokens"): _CHANGES_OWN_TOKENS,
    ("DELETE", "/v1/tokens/{id}"): _CHANGES_OWN_TOKENS,
    ("POST", "/v1/access:explain"): _ASKS_ABOUT_ITSELF,
    ("POST", "/v1/access:reseal"): _CHANGES_CLUSTER,
    ("GET", "/v1/access:whoami"): ANY_USER,
}
ABOUT_ACCESS = frozenset(_USERS)
"""Routes that read or change users, policies and tokens."""

GATEWAY: Mapping[HttpRoute, Row] = {
    **_MESSAGES,
    **_TOPICS_AND_GROUPS,
    **_CLUSTER,
    **_SCHEDULES,
    **_TRANSACTIONS,
    **_USERS,
    ("GET", "/"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("HEAD", "/openapi.json"): OPEN,
    ("GET", "/health/live"): OPEN,
    ("HEAD", "/health/live"): OPEN,
    ("GET", "/health/ready"): OPEN,
    ("HEAD", "/health/ready"): OPEN,
    ("GET", "/metrics"): _READS_CLUSTER,
}
"""The gateway's port."""

_OWN_HEALTH: Mapping[HttpRoute, Row] = {
    ("GET", "/health/live"): OPEN,
    ("GET", "/health/ready"): OPEN,
    ("GET", "/metrics"): _READS_CLUSTER,
}

OWN_PORTS: Mapping[str, Mapping[HttpRoute, Row]] = {
    "nameserver": _OWN_HEALTH,
    "broker-store": {
        **_OWN_HEALTH,
        ("GET", "/v1/replication"): OPEN,
        ("POST", "/v1/replication/move-leader"): _CHANGES_CLUSTER,
        ("POST", "/snapshots"): _CHANGES_CLUSTER,
        ("DELETE", "/snapshots/{id}"): _CHANGES_CLUSTER,
    },
    "scheduler": _OWN_HEALTH,
    "txn-checker": _OWN_HEALTH,
    "gateway worker": {("GET", "/health/live"): OPEN, ("GET", "/figures"): INNER},
}
"""The HTTP ports of the other services, and the one that each worker of a gateway has."""


def requirements_of_route(
    table: Mapping[HttpRoute, Row], method: str, path_template: str, asked: Asked
) -> tuple[Requirement, ...]:
    """Return what a call of a route requires. Raises RightsRefused, or MalformedBody for a body that cannot be read."""
    found = table.get((method, path_template))
    if found is None:
        raise RightsRefused(CONTEXT_EMPTY)
    return found.requirements(asked)
