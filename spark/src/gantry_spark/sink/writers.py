"""Writes a DataFrame to a topic, batch or stream: each row becomes a message, sent over HTTP through a gateway.

At least once: a task that Spark repeats sends again. With `idempotencyColumns` (or a column idempotencyKey) the store answers a repeat
with the first message, within its window of ten minutes, so that nothing is stored twice.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from gantry_spark.bad_option import BadOption
from gantry_spark.sink.gateway import Gateway, encoded
from gantry_spark.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("gantry_spark")

KEY_BYTES_MAX: Final = 100
"""The gateway refuses a longer idempotency key: its hash replaces it."""
BASE64_GROWTH: Final = 4 / 3
JSON_GROWTH_MAX: Final = 6
"""JSON writes a control character in six bytes, the most of any character."""
BATCH_BYTES: Final = 4 * 1024 * 1024
"""The size limit of a request of several messages as sent; one larger message is sent alone. A gateway accepts 16 MiB."""


@dataclass
class Sent(WriterCommitMessage):
    """The result of a task."""

    messages: int
    duplicates: int


class _Sending:
    """The common part of batch and stream writers: a task sends its rows."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send the rows of one task, in their order. Raises gateway.SendRefused."""
        options = self._options
        sent = duplicates = 0
        with Gateway(options.gateway, options.token, options.retry_seconds) as gateway:
            for topic, messages in _requests(iterator, options):
                results = gateway.send(topic, messages)
                sent += len(results)
                duplicates += sum(1 for result in results if result.get("duplicate"))
        return Sent(sent, duplicates)

    def _say(self, messages: list[Sent | None], what: str) -> None:
        sent = sum(message.messages for message in messages if message)
        _log.info(
            "%s: %d messages, %d of them duplicates", what, sent, sum(m.duplicates for m in messages if m)
        )


class BatchWriter(_Sending, DataSourceArrowWriter):
    """Writes one DataFrame."""

    def commit(self, messages: list[Sent | None]) -> None:  # type: ignore[override]
        """Log what was sent: it is already stored."""
        self._say(messages, "written")

    def abort(self, messages: list[Sent | None]) -> None:  # type: ignore[override]
        """Log what was sent before the job failed: a message cannot be withdrawn."""
        self._say(messages, "failed, but sent before that")


class StreamWriter(_Sending, DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def commit(self, messages: list[Sent | None], batchId: int) -> None:  # noqa: N803  # type: ignore[override]
        """Log what was sent."""
        self._say(messages, f"batch {batchId} written")

    def abort(self, messages: list[Sent | None], batchId: int) -> None:  # noqa: N803  # type: ignore[override]
        """Log what was sent before the batch failed: Spark repeats it."""
        self._say(messages, f"batch {batchId} failed, but sent before that")


def _requests(iterator: Iterator[pa.RecordBatch], options: SinkOptions) -> Iterator[tuple[str, list[bytes]]]:
    """Yield encoded requests of consecutive messages of one topic."""
    held: list[bytes] = []
    held_topic, held_bytes = "", 0
    for batch in iterator:
        for row in batch.to_pylist():
            topic, fields = _message(row, options)
            message = encoded(fields)
            is_full = len(held) >= options.batch_messages or held_bytes + len(message) > BATCH_BYTES
            if held and (topic != held_topic or is_full):
                yield held_topic, held
                held, held_bytes = [], 0
            held.append(message)
            held_topic, held_bytes = topic, held_bytes + len(message) + 1  # and a comma
    if held:
        yield held_topic, held


def _message(row: Mapping[str, Any], options: SinkOptions) -> tuple[str, dict[str, Any]]:
    """Return the topic of a row, and its message in the gateway's form."""
    found = {name.lower(): value for name, value in row.items() if value is not None}
    topic = found.get("topic", options.topic)
    if topic is None:
        raise BadOption("a row has no topic, and the option topic is not given")
    if (body := found.get("body")) is None:
        raise BadOption(
            f"the column body of a row for topic {topic} is NULL, and a message needs a body: drop such rows (where body is not null), "
            "or send empty messages with coalesce(body, '')"
        )
    message = _body(body)
    if keys := found.get("keys"):
        message["keys"] = keys.split() if isinstance(keys, str) else list(keys)
    if properties := found.get("properties"):
        message["properties"] = dict(properties)
    if at := found.get("deliverat"):
        assert isinstance(at, datetime)
        message["deliverAt"] = round(at.timestamp() * 1000)
    renamed = {
        "tags": "tag",
        "shardingkey": "shardingKey",
        "brokername": "broker",
        "queueid": "queueId",
        "delayms": "delayMs",
    }
    message |= {name: found[column] for column, name in renamed.items() if column in found}
    if (key := idempotency_key(found, options.idempotency_columns)) is not None:
        message["idempotencyKey"] = key
    return topic, message


def _body(body: str | bytes) -> dict[str, Any]:
    """Return the field of a body: a large text that JSON would escape heavily is sent as bytes, which grow by a third at most."""
    if isinstance(body, str):
        if len(body) * JSON_GROWTH_MAX <= BATCH_BYTES:
            return {"body": body}
        content = body.encode()
        if len(encoded({"body": body})) <= len(content) * BASE64_GROWTH:
            return {"body": body}
        body = content
    return {"bodyBase64": base64.b64encode(body).decode("ascii")}


def idempotency_key(row: Mapping[str, Any], columns: tuple[str, ...]) -> str | None:
    """Return the key of a row (names in lower case): from the columns, else its own; None if it has none.

    Equal values give equal keys in every run. One short text is its own key, so that it can be searched for.
    """
    if not columns:
        return row.get("idempotencykey")
    values = [row.get(name.lower()) for name in columns]
    if len(values) == 1 and isinstance(values[0], str) and 0 < len(values[0].encode()) <= KEY_BYTES_MAX:
        return values[0]
    return hashlib.sha256(json.dumps(values, default=str, ensure_ascii=True).encode()).hexdigest()
