"""The HTTP consumer: messages on lease, acknowledged one by one. Keeps no offset and no connection; any number share a group's work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

import msgspec

from gantrymq.errors import ConfigurationError, GantryError, InvalidMessage
from gantrymq.http.gateway import GatewayClient, path_of
from gantrymq.http.leased import LeasedMessage, Received
from gantrymq.http.problems import Problem, error_of
from gantrymq.http.settings import HttpOptions
from gantrymq.settings import check_number

MESSAGES_MAX = 256
WAIT_SECONDS_MAX = 30
INVISIBLE_SECONDS_MAX = 43_200
NACK_SECONDS_MAX = 40 * 86_400


class LeaseExpired(GantryError):
    """Too late: the lease of `messages` ended, or they were given back before; another consumer has them or will get them."""

    def __init__(self, messages: list[LeasedMessage], doing: str) -> None:
        ids = ", ".join(message.message_id for message in messages[:5])
        super().__init__(
            f"{doing}: the lease ended before ({ids}); they are delivered again. Receive with a longer `invisible`, or extend it"
        )
        self.messages = messages


class _Settled(msgspec.Struct, rename="camel"):
    """The result of one handle."""

    status: str = ""
    code: str = ""
    detail: str = ""
    retryable: bool = False


class _Answer(msgspec.Struct):
    results: list[_Settled]


class Consumer(GatewayClient):
    """Receives messages of a topic for a group over a gateway. Options: HttpSettings. Use it in `async with`.

    Unacknowledged messages are delivered again when their lease ends, also after close.
    `expression` is the group's filter in this topic: tags as "paid || shipped" (None: the group's filter, everything for a new one), or with
    `sql` True a condition. One that differs from the group's is refused with FILTER_CONFLICT, unless `change_filter`.
    """

    def __init__(
        self,
        group: str,
        topic: str,
        expression: str | None = None,
        *,
        sql: bool = False,
        change_filter: bool = False,
        **options: Unpack[HttpOptions],
    ) -> None:
        if not group or not topic:
            raise ConfigurationError("group and topic: must not be empty")
        if sql and expression is None:
            raise ConfigurationError("expression: sql=True needs a condition")
        super().__init__(options)
        self.group: str = group
        self.topic: str = topic
        self._filter = (
            None if expression is None else {"type": "sql92" if sql else "tag", "expression": expression}
        )
        self._change_filter = change_filter

    async def receive(
        self, max_messages: int = 16, *, wait: int = 10, invisible: int = 30
    ) -> list[LeasedMessage]:
        """Return up to `max_messages` (1 to 256) on lease for `invisible` seconds; none if none came within `wait` (0 to 30) seconds."""
        check_number("max_messages", max_messages, 1, MESSAGES_MAX)
        check_number("wait", wait, 0, WAIT_SECONDS_MAX)
        check_number("invisible", invisible, 1, INVISIBLE_SECONDS_MAX)
        body: dict[str, Any] = {
            "maxMessages": max_messages,
            "waitSeconds": wait,
            "invisibleSeconds": invisible,
        }
        if self._filter is not None:
            body |= {"filter": self._filter, "changeFilter": self._change_filter}
        answer = await self._call("receive", body, f"receiving from {self.topic}", wait)
        return msgspec.json.decode(answer, type=Received).messages

    async def ack(self, *messages: LeasedMessage) -> None:
        """Acknowledge messages; durable when it returns. LeaseExpired names those that are delivered again."""
        await self._settle(
            messages, "acks", [{"receiptHandle": one.receipt_handle} for one in messages], "acknowledging"
        )

    async def nack(
        self, *messages: LeasedMessage, delay: float | None = None, reason: str | None = None
    ) -> None:
        """Give messages back: they are delivered again after `delay` seconds, else as the group's retry policy says.

        `reason` is kept with the dead letter after the last attempt.
        """
        if delay is not None:
            check_number("delay", delay, 0, NACK_SECONDS_MAX)
        more = {"delaySeconds": delay, "reason": reason}
        given = {name: value for name, value in more.items() if value is not None}
        await self._settle(
            messages,
            "nacks",
            [{"receiptHandle": one.receipt_handle, **given} for one in messages],
            "giving back",
        )

    async def extend(self, *messages: LeasedMessage, invisible: int = 30) -> None:
        """Make the leases of messages end `invisible` seconds from now."""
        check_number("invisible", invisible, 1, INVISIBLE_SECONDS_MAX)
        handles = [{"receiptHandle": one.receipt_handle} for one in messages]
        await self._settle(messages, "extends", handles, "extending", invisible)

    async def _settle(
        self,
        messages: tuple[LeasedMessage, ...],
        field: str,
        handles: Iterable[dict[str, Any]],
        doing: str,
        invisible: int | None = None,
    ) -> None:
        if not messages:
            raise InvalidMessage("messages", f"{doing}: give at least one")
        body: dict[str, Any] = {field: list(handles)}
        if invisible is not None:
            body["invisibleSeconds"] = invisible
        words = f"{doing} {len(messages)} of {self.topic}"
        answer = await self._call("ack" if invisible is None else "extend", body, words, 0)
        results = msgspec.json.decode(answer, type=_Answer).results
        late: list[LeasedMessage] = []
        for message, result in zip(messages, results, strict=True):
            if result.status == "leaseExpired":
                late.append(message)
            elif result.status == "invalidHandle":
                raise InvalidMessage(
                    "receipt_handle", f"{message.message_id} is not of {self.group} in {self.topic}"
                )
            elif result.code:
                raise error_of(
                    Problem(code=result.code, detail=result.detail, retryable=result.retryable), words
                )
        if late:
            raise LeaseExpired(late, words)

    async def _call(self, verb: str, body: dict[str, Any], doing: str, wait: int) -> bytes:
        path = path_of("topics", self.topic, "groups", self.group, f"messages:{verb}")
        return await self._gateway.call("POST", path, body, doing=doing, seconds=self.settings.timeout + wait)
