"""Method of apache.rocketmq.v2.MessagingService → requirements.

The gRPC server decodes a request and passes the names on: this module knows no protobuf. RocketMQ 5.3.3 checks nothing for UpdateOffset,
GetOffset, QueryOffset and PullMessage; here they need what their remoting counterparts need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gantry_access.model.actions import Action
from gantry_access.model.needs import AnyUser, Requirement
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.requirements import (
    PUB,
    PUB_SUB_OR_GET,
    SUB,
    SUB_OR_GET,
    SUB_OR_UPDATE,
    group_need,
    is_missing,
    topic_need,
)
from gantry_access.rights.rules import actions_text
from gantry_access.texts import CONTEXT_EMPTY, MESSAGE_MISSING, QUEUE_MISSING, SETTINGS_EMPTY

CONSUMER_TYPES = frozenset({2, 3, 4, 5, 6})
"""PUSH_CONSUMER, SIMPLE_CONSUMER, PULL_CONSUMER, LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER."""


@dataclass(frozen=True, slots=True)
class GrpcAsked:
    """The names of a decoded request, with the namespace before them as over remoting (`namespace%name`)."""

    topics: tuple[str, ...] = ()
    """The topic; SendMessage: of each message; settings: of each publishing or subscription entry. Empty: the field is absent."""
    group: str = ""
    client_type: int = 0
    """Of a Heartbeat."""
    command: Literal["publishing", "subscription", "empty settings", "other"] = "other"
    """Of a TelemetryCommand."""


class GrpcRow(NamedTuple):
    """The requirements of one method, and their words."""

    text: str
    read: Callable[[GrpcAsked], Iterable[Requirement]]


def _topic(asked: GrpcAsked, actions: Action, missing: str = "") -> list[Requirement]:
    """Return the needs for all topics of a request. `missing`: the text if there is none."""
    if not asked.topics and missing:
        raise RightsRefused(missing)
    on_retry = SUB if actions == PUB else actions
    return [topic_need(one, actions, on_retry) for one in asked.topics or ("",)]


def _topics_only(actions: Action, missing: str = "") -> GrpcRow:
    def read(asked: GrpcAsked) -> Iterable[Requirement]:
        return _topic(asked, actions, missing)

    return GrpcRow(f"Topic {actions_text(actions)}", read)


def _consumer(actions: Action = SUB, missing: str = "") -> GrpcRow:
    def read(asked: GrpcAsked) -> Iterable[Requirement]:
        return [group_need(asked.group, actions), *_topic(asked, actions, missing)]

    words = actions_text(actions)
    return GrpcRow(f"Group {words}; Topic {words}", read)


def _heartbeat(asked: GrpcAsked) -> Iterable[Requirement]:
    """Return the need for a consumer's group. Old clients send none."""
    if asked.client_type not in CONSUMER_TYPES or is_missing(asked.group):
        return ()
    return (group_need(asked.group, SUB),)


def _termination(asked: GrpcAsked) -> Iterable[Requirement]:
    return () if is_missing(asked.group) else (group_need(asked.group, SUB),)


def _telemetry(asked: GrpcAsked) -> Iterable[Requirement]:
    match asked.command:
        case "publishing":
            return _topic(asked, PUB) if asked.topics else ()
        case "subscription":
            topics = _topic(asked, SUB) if asked.topics else []
            return [group_need(asked.group, SUB), *topics]
        case "empty settings":
            raise RightsRefused(SETTINGS_EMPTY)
        case "other":
            return ()


METHODS: Mapping[str, GrpcRow] = {
    "QueryRoute": _topics_only(PUB_SUB_OR_GET),
    "Heartbeat": GrpcRow("Group Sub of consumers, if given; producers: any user", _heartbeat),
    "SendMessage": _topics_only(PUB, MESSAGE_MISSING),
    "QueryAssignment": _consumer(),
    "ReceiveMessage": _consumer(missing=QUEUE_MISSING),
    "AckMessage": _consumer(),
    "ForwardMessageToDeadLetterQueue": _consumer(),
    "EndTransaction": _topics_only(PUB),
    "Telemetry": GrpcRow(
        "settings: Topic Pub of each, or Group Sub and Topic Sub of each; other commands: any user",
        _telemetry,
    ),
    "NotifyClientTermination": GrpcRow("Group Sub, if given", _termination),
    "ChangeInvisibleDuration": _consumer(),
    "RecallMessage": _topics_only(PUB),
    "SyncLiteSubscription": _consumer(),
    "PullMessage": _consumer(missing=QUEUE_MISSING),
    "UpdateOffset": _consumer(SUB_OR_UPDATE, QUEUE_MISSING),
    "GetOffset": _consumer(SUB_OR_GET, QUEUE_MISSING),
    "QueryOffset": _topics_only(SUB_OR_GET, QUEUE_MISSING),
}


def requirements_of_method(method: str, asked: GrpcAsked) -> tuple[Requirement, ...]:
    """Return what a call requires; any user if nothing more. Raises RightsRefused."""
    found = METHODS.get(method)
    if found is None:
        raise RightsRefused(CONTEXT_EMPTY)
    return tuple(dict.fromkeys(found.read(asked))) or (AnyUser(),)
