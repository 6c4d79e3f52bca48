"""The producer over HTTP: `gantry.Producer` where the meaning is the same. Every send has an idempotency key, so that repeating it is safe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import msgspec

from gantry.errors import GantryError, InvalidMessage
from gantry.http.gateway import GatewayClient, path_of
from gantry.http.leased import SendAnswer, Sent, message_body, send_result
from gantry.http.problems import Problem, error_of
from gantry.http.settings import HttpOptions
from gantry.message import Message, MessageQueue, SendResult
from gantry.producer.batches import BatchIncomplete
from gantry.settings import check_number
from gantry.unique_ids import now_ms, unique_ids

BATCH_MAX = 1000
KEY_BYTES_MAX = 100


class Producer(GatewayClient):
    """Sends messages over one gateway. Options: HttpSettings. Use it in `async with`.

    `idempotent` False: sends have no key unless you give one, go to queues in turn instead of by the key's hash, and are not repeated
    after an answer that never came.
    """

    def __init__(self, *, idempotent: bool = True, **options: Unpack[HttpOptions]) -> None:
        super().__init__(options)
        self.idempotent = idempotent

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message and wait until the broker has stored it.

        The queue is `queue`, else the sharding key's, else the idempotency key's, else the next in turn. A key of your own (1 to 100
        bytes) is good for ten minutes, also in another process. Raises InvalidMessage, NoRoute, GatewayRefused,
        ConnectionFailed, TimedOut.
        """
        own = None if idempotency_key is None else _own_key(idempotency_key)
        results = await self._send([message], own, queue, timeout)
        return send_result(message.topic, results[0], is_timed=message.is_timed)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> list[SendResult]:
        """Send up to 1000 messages of one topic with one call; returns a result for each.

        Raises BatchIncomplete, with the results of what was stored, where some were refused; else as `send`.
        """
        if not 1 <= len(messages) <= BATCH_MAX:
            raise InvalidMessage("messages", f"{len(messages)} of them; a batch has 1 to {BATCH_MAX}")
        topic = messages[0].topic
        for number, message in enumerate(messages):
            if message.topic != topic:
                raise InvalidMessage(
                    "messages", f"number {number} is for topic {message.topic}, the first for {topic}"
                )
        answers = await self._send(messages, None, queue, timeout)
        stored = [
            send_result(topic, sent, is_timed=message.is_timed)
            for message, sent in zip(messages, answers, strict=True)
            if sent.status == "SEND_OK"
        ]
        if len(stored) == len(messages):
            return stored
        refused = next(sent for sent in answers if sent.status != "SEND_OK")
        error = _refusal(refused, topic)
        if not stored:
            raise error
        raise BatchIncomplete(stored, len(messages), error) from error

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues messages of a topic can go to; NoRoute where it does not exist."""
        body = await self._gateway.call(
            "GET", path_of("topics", topic), doing=f"asking for {topic}", seconds=self.settings.timeout
        )
        shown: dict[str, Any] = msgspec.json.decode(body)
        held: list[dict[str, Any]] = shown["brokers"]
        return [
            MessageQueue(topic, one["broker"], number)
            for one in held
            if "w" in one["perm"]
            for number in range(one["writeQueues"])
        ]

    async def cancel(self, result: SendResult | str) -> str:
        """Take back a message that waits for its time, by its result or its id; returns its id.

        Raises GatewayRefused with the name ALREADY_DELIVERED when it is too late.
        """
        params: dict[str, str] = {}
        message_id = result if isinstance(result, str) else result.message_id
        if isinstance(result, SendResult):
            params = {"topic": result.queue.topic, "broker": result.queue.broker}
        doing = f"cancelling {message_id}"
        await self._gateway.call(
            "DELETE",
            path_of("schedules", message_id),
            params=params,
            doing=doing,
            seconds=self.settings.timeout,
        )
        return message_id

    async def _send(
        self,
        messages: Sequence[Message],
        own_key: str | None,
        queue: MessageQueue | None,
        timeout: float | None,
    ) -> list[Sent]:
        """Send; as long as nothing can have been stored, another try has other keys: they lead to other queues, and away from a dead broker."""
        seconds = self.settings.timeout if timeout is None else timeout
        check_number("timeout", seconds, 0.001, 86_400)
        topic = messages[0].topic

        def body() -> dict[str, Any]:
            return {"messages": [message_body(one, queue, own_key or self._new_key()) for one in messages]}

        answer = await self._gateway.call(
            "POST", path_of("topics", topic, "messages"), body(), doing=f"sending to {topic}", seconds=seconds,
            is_send=True, is_safe=self.idempotent or own_key is not None, anew=body,
        )  # fmt: skip
        return msgspec.json.decode(answer, type=SendAnswer).results

    def _new_key(self) -> str | None:
        return unique_ids.next(now_ms()) if self.idempotent else None


def _own_key(key: str) -> str:
    if not isinstance(key, str) or not 1 <= len(key.encode()) <= KEY_BYTES_MAX:  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
        raise InvalidMessage("idempotency_key", f"a text of 1 to {KEY_BYTES_MAX} bytes, not {key!r}")
    return key


def _refusal(refused: Sent, topic: str) -> GantryError:
    problem = Problem(
        code=refused.code,
        detail=refused.detail,
        field=refused.field,
        retryable=refused.retryable,
        retry_after_ms=refused.retry_after_ms,
    )
    return error_of(problem, f"sending to {topic}", is_send=True)
