"""The requests to JetStream that a register needs, with typed answers. Translates the driver's errors; decides nothing."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from broker_store.replication.register.answers import (
    NO_MESSAGE_FOUND,
    STREAM_NOT_FOUND,
    Acknowledged,
    AnyAnswer,
    Error,
    Message,
    MessageAnswer,
    StreamAnswer,
    Unreadable,
    read_answer,
)
from broker_store.replication.register.lacking import Lacking
from broker_store.replication.register.port import REBUILD, RegisterAway
from gantry_chassis.nats_connection import ConnectionLost, NatsRequests, NoAnswer, NotSent

API = "$JS.API."
EXPECTED_LAST_SEQUENCE = "Nats-Expected-Last-Sequence"
EXPECTED_STREAM = "Nats-Expected-Stream"
REPEAT_SECONDS = 0.25
"""A stream without a leader answers nothing: a repeated request finds the new leader soon. A repeated append takes effect once, as it names
the last sequence."""


class Waits(NamedTuple):
    """How long a register waits, in seconds."""

    answer_seconds_max: float = 1.0
    """For one answer, before another server is asked. A whole write waits for five answers at most."""
    lack_seconds: float = 5.0
    """Until an answer is believed that says that there is no stream, or no record."""


WAITS = Waits()


class JetStreamCalls:
    """Calls about one stream. Each raises RegisterAway if no answer comes, RegisterUnusable if there is no such stream for some time."""

    def __init__(self, requests: NatsRequests, stream: str, subject: str, waits: Waits) -> None:
        """Take the stream's name and its one subject."""
        self._requests, self._stream, self._subject = requests, stream, subject
        self._seconds_max = waits.answer_seconds_max
        self._lacking = Lacking(waits.lack_seconds)

    @property
    def connections(self) -> int:
        """How often a connection was made: after another one, another server answers."""
        return self._requests.connections

    async def newest(self) -> Message | None:
        """Return the stream's newest message, as its leader knows it; None if there is none."""
        return await self._message({"last_by_subj": self._subject})

    async def at(self, version: int) -> Message | None:
        """Return the message at a sequence; None if there is none, or none any more."""
        return await self._message({"seq": version})

    async def publish(self, expected_version: int, record: bytes) -> Acknowledged:
        """Append a record if the stream's last sequence is `expected_version`. No answer does not mean that it was not appended."""
        headers = {EXPECTED_LAST_SEQUENCE: str(expected_version), EXPECTED_STREAM: self._stream}
        return await self._ask(self._subject, record, Acknowledged, headers)

    async def info(self) -> StreamAnswer:
        """Return the stream's configuration, sequences and servers."""
        answer = await self._look(f"STREAM.INFO.{self._stream}", b"", StreamAnswer)
        self._check(answer.error)
        return answer

    async def exists(self) -> bool:
        """Say whether the stream is there. One answer says so, as for `remove`: ask servers that have run for some time."""
        answer = await self._look(f"STREAM.INFO.{self._stream}", b"", StreamAnswer)
        return answer.error is None or answer.error.err_code != STREAM_NOT_FOUND

    async def remove(self) -> None:
        """Remove the stream; nothing if there is none."""
        answer = await self._look(f"STREAM.DELETE.{self._stream}", b"", StreamAnswer)
        if answer.error is not None and answer.error.err_code != STREAM_NOT_FOUND:
            raise RegisterAway(f"the stream {self._stream} was not removed: {answer.error}")

    async def create(self, configuration: Mapping[str, object]) -> StreamAnswer:
        """Create the stream. One with the same configuration is left as it is; an error is in the answer."""
        return await self._ask(
            f"{API}STREAM.CREATE.{self._stream}", msgspec.json.encode(configuration), StreamAnswer
        )

    async def step_down(self, preferred: str | None) -> StreamAnswer:
        """Ask the stream's leader to leave the lead, to the server `preferred` if it can; an error is in the answer."""
        wish = b"" if preferred is None else msgspec.json.encode({"placement": {"preferred": preferred}})
        subject = f"{API}STREAM.LEADER.STEPDOWN.{self._stream}"
        return await self._ask(subject, wish, StreamAnswer, repeat_seconds=None)

    async def _message(self, which: dict[str, object]) -> Message | None:
        answer = await self._look(f"STREAM.MSG.GET.{self._stream}", msgspec.json.encode(which), MessageAnswer)
        if answer.error is not None and answer.error.err_code == NO_MESSAGE_FOUND:
            return None
        self._check(answer.error)
        return answer.message

    def _check(self, error: Error | None) -> None:
        if error is None:
            self._lacking.found()
            return
        if error.err_code == STREAM_NOT_FOUND:
            raise self._lacking.error(
                f"there is no stream {self._stream}. For a new broker, start one store with ha_bootstrap. Otherwise: {REBUILD}."
            )
        raise RegisterAway(f"JetStream cannot answer about {self._stream}: {error}")

    async def _look(self, call: str, payload: bytes, kind: type[AnyAnswer]) -> AnyAnswer:
        """Ask what changes nothing: once more, if the connection was lost, as it may have been so for long."""
        try:
            return await self._ask(API + call, payload, kind)
        except RegisterAway as error:
            if not isinstance(error.__cause__, ConnectionLost):
                raise
            return await self._ask(API + call, payload, kind)

    async def _ask(
        self,
        subject: str,
        payload: bytes,
        kind: type[AnyAnswer],
        headers: Mapping[str, str] | None = None,
        *,
        repeat_seconds: float | None = REPEAT_SECONDS,
    ) -> AnyAnswer:
        try:
            answer = await self._requests.request(
                subject, payload, self._seconds_max, headers, repeat_seconds
            )
            if not answer.has_responder:
                raise RegisterAway(f"nobody answers for {self._stream}: no leader, or no JetStream")
            return read_answer(answer.payload, kind)
        except (NotSent, NoAnswer, Unreadable) as error:
            raise RegisterAway(str(error)) from error
