"""Looks whether all members of a group want the same, and says loudly when they do not.

RocketMQ's brokers keep one table of subscriptions for a whole group, so members that differ take each other's messages away.
"""

from __future__ import annotations

import logging

from gantry.consumer.running import Running
from gantry.consumer.subscriptions import describe_conflicts
from gantry.errors import GantryError
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.errors import MalformedBody

log: logging.Logger = logging.getLogger("gantry")


class Agreement:
    """Asks brokers for the group's subscriptions (203); each difference is told once."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._told: set[str] = set()

    async def look(self) -> list[str]:
        """Return the differences in words, and log those that are new."""
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

    def _tell(self, words: str, others: list[str]) -> None:
        if words in self._told:
            return
        self._told.add(words)
        log.error(
            "group %s: ITS MEMBERS WANT DIFFERENT THINGS AND WILL LOSE MESSAGES: %s. Members beside this one: %s. "
            "Give all members the same subscriptions, or those that differ a group of their own",
            self._running.group, words, ", ".join(others),
        )  # fmt: skip
