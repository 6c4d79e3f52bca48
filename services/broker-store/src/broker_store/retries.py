"""Sends to %RETRY% topics: how often a message may come back before it goes to the group's dead letters."""

from collections.abc import Callable

from broker_store.targets import Target, Targets
from broker_store.topics import PERM_RW, TopicTable
from gantry_wire.bodies import SubscriptionGroupConfig
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.headers import SendHeader
from gantry_wire.names import RETRY_PREFIX, dlq_topic
from gantry_wire.properties import DELAY, format_properties

OWN_LIMIT_VERSION = 121
"""V3_4_9: clients from this version on say themselves how often they want a message again."""

Routed = tuple[Target, int, str, dict[str, str]]
"""Target, queue id, properties as text and parsed."""


class Retries:
    """Decides where a message sent to a retry topic goes."""

    def __init__(self, topics: TopicTable, targets: Targets) -> None:
        self._topics = topics
        self._targets = targets
        self.find_group: Callable[[str], SubscriptionGroupConfig | None] = _no_groups
        """Looks a consumer group up; given by the reading side once it is there."""

    def route(
        self, header: SendHeader, version: int, target: Target, text: str, properties: dict[str, str]
    ) -> Routed:
        """Return the target as asked for, or the dead-letter queue of the group when its tries are used up."""
        name = header.topic.removeprefix(RETRY_PREFIX)
        group = self.find_group(name)
        if group is None:
            raise RefusedRequest(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}"
            )
        tries_max = group.retry_max_times
        if header.max_reconsume_times is not None and version >= OWN_LIMIT_VERSION:
            tries_max = header.max_reconsume_times
        if (header.reconsume_times or 0) <= tries_max:
            return target, header.queue_id, text, properties
        dead = self._targets.of(self._topics.ensure(dlq_topic(name), 1, PERM_RW))
        properties = {**properties, DELAY: "-1"}
        return dead, 0, format_properties(properties).decode(), properties


def _no_groups(_name: str) -> SubscriptionGroupConfig | None:
    return None
