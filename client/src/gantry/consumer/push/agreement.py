"""Looks whether all members of a group want the same, and says loudly when they do not.

RocketMQ's brokers keep one table of subscriptions for a whole group, so members that differ take each other's messages away.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from gantry.consumer.push.running import Running
from gantry.consumer.subscriptions.subscription import describe_conflicts
from gantry.errors import GantryError
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.errors import MalformedBody

log: logging.Logger = logging.getLogger("gantry")


class Agreement:
    """Asks brokers for the group's subscriptions (203); each difference is told once."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._told: set[str] = set()
        self._is_member = False

    async def look(self, *, is_member: bool = True) -> list[str]:
        """Return the differences in words, and log those that are new. `is_member`: whether brokers know us by now."""
        self._is_member = is_member
        running = self._running
        found: list[str] = []
        for broker in running.instance.brokers():
            try:
                connection = await running.instance.store(broker).consumer_connection(running.group)
            except (BrokerRefused, LinkError, GantryError, MalformedBody) as error:
                log.debug(
                    "group %s: broker %s does not say what the group wants: %s", running.group, broker, error
                )
                continue
            if connection is None:
                continue
            self._look_for_namesakes([each.client_id for each in connection.connection_set])
            others = sorted(
                each.client_id
                for each in connection.connection_set
                if each.client_id != running.instance.client_id
            )
            if not others:
                continue
            for words in describe_conflicts(running.plan.subscriptions, connection.subscription_table):
                found.append(words)
                self._tell(words, others)
        return found

    def _look_for_namesakes(self, client_ids: Sequence[str]) -> None:
        """Brokers share queues out among client ids: two members of the same one get the same queues."""
        mine = self._running.instance.client_id
        if client_ids.count(mine) <= self._is_member or mine in self._told:
            return
        self._told.add(mine)
        log.error(
            "group %s: ANOTHER MEMBER HAS THE CLIENT ID %s TOO: both consume the same queues, and messages come twice. "
            "Give each an instance_name of its own",
            self._running.group, mine,
        )  # fmt: skip

    def _tell(self, words: str, others: list[str]) -> None:
        if words in self._told:
            return
        self._told.add(words)
        log.error(
            "group %s: ITS MEMBERS WANT DIFFERENT THINGS AND WILL LOSE MESSAGES: %s. Members beside this one: %s. "
            "Give all members the same subscriptions, or those that differ a group of their own",
            self._running.group, words, ", ".join(others),
        )  # fmt: skip
