"""The HTTP producer: `gantrymq.Producer` for the same things. Every send has an idempotency key, so that repeating it is safe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import msgspec

from gantrymq.errors import GantryError, InvalidMessage, in_doubt
from gantrymq.formats.unique_ids import ClientIds
from gantrymq.http.gateway import GatewayClient, path_of
from gantrymq.http.leased import SendAnswer, Sent, message_body, send_result
from gantrymq.http.problems import Problem, error_of
from gantrymq.http.settings import HttpOptions
from gantrymq.machine import wall_ms
from gantrymq.message import Message, MessageQueue, SendResult
from gantrymq.producer.batching.batches import BatchIncomplete, Outcome, is_unknown
from gantrymq.settings import check_number

BATCH_MAX = 1000
KEY_BYTES_MAX = 100


class Producer(GatewayClient):
    """Sends messages over a gateway. Options: HttpSettings. Use it in `async with`.

    `idempotent` False: sends have no key unless you give one, go to queues in turn instead of by the key's hash, and are not repeated
    if no answer came.
    """

    def __init__(self, *, idempotent: bool = True, **options: Unpack[HttpOptions]) -> None:
        super().__init__(options)
        self.idempotent = idempotent
        self._ids = ClientIds(self.settings.machine)

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message and wait until the broker has stored it.

        The queue is `queue`, else the sharding key's, else the idempotency key's, else the next in turn. Your own key (1 to 100
        bytes) is valid for ten minutes, also in another process. Raises InvalidMessage, NoRoute, GatewayRefused,
        ConnectionFailed, TimedOut.
        """
        keys = self._keys([None if idempotency_key is None else _own_key(idempotency_key)])
        results = await self._send([message], keys, queue, timeout)
        return send_result(message.topic, results[0], is_timed=message.is_timed)

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        idempotency_keys: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> list[SendResult]:
        """Send up to 1000 messages of one topic with one call; returns a result for each.

        `idempotency_keys`: your own, one for each message. Raises BatchIncomplete, which has the outcome of each message and
        can be given to `resume`, if some are stored or may be; else as `send`.
        """
        if not 1 <= len(messages) <= BATCH_MAX:
            raise InvalidMessage("messages", f"{len(messages)} messages; a batch has 1 to {BATCH_MAX}")
        topic = messages[0].topic
        for number, message in enumerate(messages):
            if message.topic != topic:
                raise InvalidMessage(
                    "messages", f"number {number} is for topic {message.topic}, the first for {topic}"
                )
        own: list[str | None] = [None] * len(messages)
        if idempotency_keys is not None:
            if len(idempotency_keys) != len(messages):
                words = f"{len(idempotency_keys)} keys for {len(messages)} messages"
                raise InvalidMessage("idempotency_keys", words)
            own = [_own_key(key) for key in idempotency_keys]
        outcomes, keys = await self._outcomes(messages, own, queue, timeout)
        return _all_stored(messages, outcomes, queue, keys)

    async def resume(self, incomplete: BatchIncomplete, *, timeout: float | None = None) -> list[SendResult]:
        """Send the messages of a batch again that are not known to be stored; returns the results of the whole batch.

        Those with an unknown outcome keep their keys, so that none is stored twice. Raises as `send_batch`.
        """
        outcomes, keys = list(incomplete.results), list(incomplete.keys)
        again = sorted([*incomplete.not_stored, *incomplete.unknown])
        messages = [incomplete.messages[n] for n in again]
        parts, part_keys = await self._outcomes(messages, [keys[n] for n in again], incomplete.queue, timeout)
        for n, outcome, key in zip(again, parts, part_keys, strict=True):
            outcomes[n], keys[n] = outcome, key
        return _all_stored(incomplete.messages, outcomes, incomplete.queue, keys)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of a topic can go to; NoRoute if it does not exist."""
        body = await self._gateway.call(
            "GET", path_of("topics", topic), doing=f"querying {topic}", seconds=self.settings.timeout
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
        """Cancel a delayed message by its result or its id; returns its id.

        Raises GatewayRefused with the name ALREADY_DELIVERED if it is too late.
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

    def _keys(self, own: Sequence[str | None]) -> _Keys:
        return _Keys(own, self._new_key if self.idempotent else None)

    def _new_key(self) -> str:
        return self._ids.next(wall_ms(self.settings.machine))

    async def _outcomes(
        self,
        messages: Sequence[Message],
        own: Sequence[str | None],
        queue: MessageQueue | None,
        timeout: float | None,
    ) -> tuple[Sequence[Outcome], Sequence[str | None]]:
        """Return the outcome of each message, and the key for sending it again: the same one if it may be stored."""
        keys = self._keys(own)
        outcomes: list[Outcome]
        try:
            answers = await self._send(messages, keys, queue, timeout)
        except InvalidMessage:
            raise
        except GantryError as error:
            outcomes = [error] * len(messages)
        else:
            outcomes = [_outcome(message, sent) for message, sent in zip(messages, answers, strict=True)]
            if keys.is_in_doubt:
                outcomes = [in_doubt(each) if isinstance(each, GantryError) else each for each in outcomes]
        again = [
            used if is_unknown(outcome) else given
            for outcome, used, given in zip(outcomes, keys.used, own, strict=True)
        ]
        return outcomes, again

    async def _send(
        self,
        messages: Sequence[Message],
        keys: _Keys,
        queue: MessageQueue | None,
        timeout: float | None,
    ) -> list[Sent]:
        """Send; while nothing can have been stored, another try has other keys: they lead to other queues, and away from a dead broker."""
        seconds = self.settings.timeout if timeout is None else timeout
        check_number("timeout", seconds, 0.001, 86_400)
        topic = messages[0].topic

        def body() -> dict[str, Any]:
            each = zip(messages, keys.take(), strict=True)
            return {"messages": [message_body(one, queue, key) for one, key in each]}

        first = body()
        answer = await self._gateway.call(
            "POST", path_of("topics", topic, "messages"), first, doing=f"sending to {topic}", seconds=seconds,
            is_send=True, is_safe=None not in keys.used, other_body=body, doubted=keys.doubt,
        )  # fmt: skip
        return msgspec.json.decode(answer, type=SendAnswer).results


class _Keys:
    """The idempotency keys of a call: the caller's, or new ones for each try."""

    def __init__(self, own: Sequence[str | None], new_key: Callable[[], str] | None) -> None:
        """`new_key` makes keys where the caller gave none; None: those stay without."""
        self.used: Sequence[str | None] = own
        """The keys of the last try."""
        self.is_in_doubt: bool = False
        """Whether a try with them got no answer, and may have stored messages."""
        self._own = own
        self._new_key = new_key

    def doubt(self) -> None:
        """Note that the last try may have stored messages."""
        self.is_in_doubt = True

    def take(self) -> Sequence[str | None]:
        """Return the keys of the next try."""
        new_key = self._new_key
        if new_key is not None:
            self.used = [key if key is not None else new_key() for key in self._own]
        return self.used


def _outcome(message: Message, sent: Sent) -> Outcome:
    if sent.status == "SEND_OK":
        return send_result(message.topic, sent, is_timed=message.is_timed)
    return _refusal(sent, message.topic)


def _all_stored(
    messages: Sequence[Message],
    outcomes: Sequence[Outcome],
    queue: MessageQueue | None,
    keys: Sequence[str | None],
) -> list[SendResult]:
    """Return the results of a batch. Raises BatchIncomplete if some are stored or may be, else the first error."""
    results = [each for each in outcomes if isinstance(each, SendResult)]
    if len(results) == len(messages):
        return results
    first = next(each for each in outcomes if isinstance(each, GantryError))
    if not results and not any(map(is_unknown, outcomes)):
        raise first
    raise BatchIncomplete(messages, outcomes, queue, keys) from first


def _own_key(key: str) -> str:
    if not isinstance(key, str) or not 1 <= len(key.encode()) <= KEY_BYTES_MAX:  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
        raise InvalidMessage("idempotency_key", f"must be a text of 1 to {KEY_BYTES_MAX} bytes, not {key!r}")
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
