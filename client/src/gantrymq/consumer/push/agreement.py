"""Checks whether all members of a group have the same subscriptions, and logs an error if they do not.

RocketMQ's brokers keep one table of subscriptions per group, so members with different ones lose messages to each other.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.errors import MalformedBody
from gantrymq.consumer.push.running import Running
from gantrymq.consumer.subscriptions.subscription import describe_conflicts
from gantrymq.errors import GantryError

log: logging.Logger = logging.getLogger("gantrymq")


class Agreement:
    """Asks brokers for the group's subscriptions (203); logs each difference once."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._logged: set[str] = set()
        self._is_member = False

    async def look(self, *, is_member: bool = True) -> list[str]:
        """Return the differences as text, and log new ones. `is_member`: whether brokers know this member by now."""
        self._is_member = is_member
        running = self._running
        found: list[str] = []
        for broker in running.instance.brokers():
            try:
                connection = await running.instance.store(broker).consumer_connection(running.group)
            except (BrokerRefused, LinkError, GantryError, MalformedBody) as error:
                log.debug(
                    "group %s: broker %s did not return the group's subscriptions: %s",
                    running.group,
                    broker,
                    error,
                )
                continue
            if connection is None:
                continue
            self._check_client_ids([each.client_id for each in connection.connection_set])
            others = sorted(
                each.client_id
                for each in connection.connection_set
                if each.client_id != running.instance.client_id
            )
            if not others:
                continue
            for words in describe_conflicts(running.plan.subscriptions, connection.subscription_table):
                found.append(words)
                self._log(words, others)
        return found

    def _check_client_ids(self, client_ids: Sequence[str]) -> None:
        """Log a duplicate client id: brokers assign queues by client id, so two members with one id get the same queues."""
        mine = self._running.instance.client_id
        if client_ids.count(mine) <= self._is_member or mine in self._logged:
            return
        self._logged.add(mine)
        log.error(
            "group %s: ANOTHER MEMBER HAS THE SAME CLIENT ID %s: both consume the same queues, and messages are delivered twice. "
            "Give each its own instance_name",
            self._running.group, mine,
        )  # fmt: skip

    def _log(self, words: str, others: list[str]) -> None:
        if words in self._logged:
            return
        self._logged.add(words)
        log.error(
            "group %s: ITS MEMBERS HAVE DIFFERENT SUBSCRIPTIONS AND WILL LOSE MESSAGES: %s. Members beside this one: %s. "
            "Give all members the same subscriptions, or those that differ their own group",
            self._running.group, words, ", ".join(others),
        )  # fmt: skip
