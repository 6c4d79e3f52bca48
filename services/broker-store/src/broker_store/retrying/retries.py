"""How often a message may come again, and where it goes when its tries are used up: one rule for sends to %RETRY% and for send-backs."""

from collections.abc import Callable

from broker_store.commit.targets import FAQ, Target, Targets
from broker_store.commit.topics import PERM_RW, TopicTable
from gantry_wire.bodies import SubscriptionGroupConfig
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.headers import SendHeader
from gantry_wire.names import RETRY_PREFIX, dlq_topic
from gantry_wire.properties import (
    DELAY,
    GANTRY_DLQ_ATTEMPTS,
    GANTRY_DLQ_CONSUMER,
    GANTRY_DLQ_REASON,
    format_properties,
)

OWN_LIMIT_VERSION = 121
"""V3_4_9: clients from this version on say themselves how often they want a message again."""
REASON_CHARS_MAX = 512

Routed = tuple[Target, int, str, dict[str, str]]
"""Target, queue id, properties as text and parsed."""


class Retries:
    """Decides where a message goes that failed."""

    def __init__(self, topics: TopicTable, targets: Targets) -> None:
        self._topics = topics
        self._targets = targets
        self.find_group: Callable[[str], SubscriptionGroupConfig | None] = _no_groups
        """Looks a consumer group up; given by the reading side once it is there."""
        self.is_orderly: Callable[[str], bool] = _never
        """Whether some member of a group holds a queue's lock; given by the locks."""

    def group(self, name: str) -> SubscriptionGroupConfig:
        """Return a group. Raises SUBSCRIPTION_GROUP_NOT_EXIST."""
        group = self.find_group(name)
        if group is None:
            remark = f"subscription group not exist, {name} {FAQ.strip()}"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return group

    def route(
        self, header: SendHeader, version: int, target: Target, text: str, properties: dict[str, str]
    ) -> Routed:
        """Return the target of a send to %RETRY%, or the dead-letter queue of the group when its tries are used up.

        What an orderly consumer sends there has been tried often enough on its own side (RocketMQ 5).
        """
        name = header.topic.removeprefix(RETRY_PREFIX)
        group = self.group(name)
        times = header.reconsume_times or 0
        tries_max = tries_of(group, header.max_reconsume_times, version)
        if times > tries_max:
            reason = used_up(tries_max)
        elif self.is_orderly(name):
            reason = "an orderly consumer gave it up"
        else:
            return target, header.queue_id, text, properties
        why = {GANTRY_DLQ_REASON: reason, GANTRY_DLQ_ATTEMPTS: str(times)}
        properties = {**properties, DELAY: "-1", **why, GANTRY_DLQ_CONSUMER: header.producer_group}
        return self.dead_letters(name), 0, format_properties(properties).decode(), properties

    def dead_letters(self, group: str) -> Target:
        """Return the dead-letter queue of a group, made if need be."""
        return self._targets.internal(self._topics.ensure(dlq_topic(group), 1, PERM_RW))


def tries_of(group: SubscriptionGroupConfig, asked: int | None, version: int) -> int:
    """Return after how many tries a message is dead: what the client says, where it is of a version that may, else the group."""
    return asked if asked is not None and version >= OWN_LIMIT_VERSION else group.retry_max_times


def used_up(tries_max: int) -> str:
    """Why a message died that came back too often, in words."""
    return f"its {tries_max} tries are used up"


def readable_reason(text: str) -> str:
    """Return what a client gave as its error as a property can hold it."""
    kept = "".join(max(character, " ") for character in text[:REASON_CHARS_MAX])
    return kept.strip()


def _no_groups(_name: str) -> SubscriptionGroupConfig | None:
    return None


def _never(_group: str) -> bool:
    return False
