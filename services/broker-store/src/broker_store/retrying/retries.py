"""How often a message is retried, and where it goes afterwards: one rule for sends to %RETRY% and for send-backs."""

from collections.abc import Callable

from broker_store.commit.targets import FAQ, Target, Targets
from broker_store.commit.topics import PERM_RW, TopicTable
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.headers.messages import SendHeader
from gantry_wire.messages.properties import (
    DELAY,
    GANTRY_DLQ_ATTEMPTS,
    GANTRY_DLQ_CONSUMER,
    GANTRY_DLQ_REASON,
    format_properties,
)
from gantry_wire.names import RETRY_PREFIX, dlq_topic

OWN_LIMIT_VERSION = 121
"""V3_4_9: clients from this version on set their own number of tries."""
REASON_CHARS_MAX = 512

Routed = tuple[Target, int, str, dict[str, str]]
"""Target, queue id, properties as text and parsed."""


class Retries:
    """Decides where a failed message goes."""

    def __init__(
        self,
        topics: TopicTable,
        targets: Targets,
        find_group: Callable[[str], SubscriptionGroupConfig | None],
        is_orderly: Callable[[str], bool],
    ) -> None:
        """`find_group` finds a consumer group. `is_orderly` says whether a member of a group holds a queue lock."""
        self._topics = topics
        self._targets = targets
        self._find_group = find_group
        self._is_orderly = is_orderly

    def group(self, name: str) -> SubscriptionGroupConfig:
        """Return a group. Raises SUBSCRIPTION_GROUP_NOT_EXIST."""
        group = self._find_group(name)
        if group is None:
            remark = f"subscription group not exist, {name} {FAQ.strip()}"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return group

    def route(
        self, header: SendHeader, version: int, target: Target, text: str, properties: dict[str, str]
    ) -> Routed:
        """Return the target of a send to %RETRY%, or the group's dead-letter queue when the tries are used up.

        An orderly consumer has made all its tries on its own side before it sends there (RocketMQ 5).
        """
        name = header.topic.removeprefix(RETRY_PREFIX)
        group = self.group(name)
        times = header.reconsume_times or 0
        tries_max = tries_of(group, header.max_reconsume_times, version)
        if times > tries_max:
            reason = used_up(tries_max)
        elif self._is_orderly(name):
            reason = "an orderly consumer gave it up"
        else:
            return target, header.queue_id, text, properties
        why = {GANTRY_DLQ_REASON: reason, GANTRY_DLQ_ATTEMPTS: str(times)}
        properties = {**properties, DELAY: "-1", **why, GANTRY_DLQ_CONSUMER: header.producer_group}
        return self.dead_letters(name), 0, format_properties(properties).decode(), properties

    def dead_letters(self, group: str) -> Target:
        """Return the dead-letter queue of a group; create it if missing."""
        return self._targets.internal(self._topics.ensure(dlq_topic(group), 1, PERM_RW))


def tries_of(group: SubscriptionGroupConfig, asked: int | None, version: int) -> int:
    """Return the number of tries: the client's, if its version may set it, else the group's."""
    return asked if asked is not None and version >= OWN_LIMIT_VERSION else group.retry_max_times


def used_up(tries_max: int) -> str:
    """Return why a message that came back too often became a dead letter."""
    return f"its {tries_max} tries are used up"


def moved_after(tries: int) -> str:
    """Return why a message became a dead letter that its consumer moved there."""
    return f"its consumer moved it here after {tries} tries"


def readable_reason(text: str) -> str:
    """Return the client's error in a form that a property can hold."""
    kept = "".join(max(character, " ") for character in text[:REASON_CHARS_MAX])
    return kept.strip()
