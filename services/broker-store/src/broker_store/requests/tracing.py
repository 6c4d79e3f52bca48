"""Message tracing, as an extension: sends over HTTP get the trace record that RocketMQ's clients write themselves.

A RocketMQ client reports its sends to RMQ_SYS_TRACE_TOPIC. An HTTP client cannot, so the store reports what
gateways send. The records of one turn form one message. Consumption is not traced here: only a consumer
knows its end.

    record: Pub, time (ms), region, producer group, topic, message id, tag, keys, store, body bytes, ms it took,
            kind (0 plain, 1 half, 3 delayed), offset message id, success        joined by 0x01, closed by 0x02
"""

import asyncio
from collections.abc import Mapping

from broker_store.requests.extensions import Extension, Reply, Send, StoreView
from gantry_wire.codes import STORED
from gantry_wire.errors import WireError
from gantry_wire.messages.batch import decode_batch
from gantry_wire.messages.properties import (
    DELAY,
    KEYS,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
    parse_properties,
)
from gantry_wire.names import GANTRY_SYSTEM_PREFIX, GATEWAY_GROUP, TRACE_TOPIC

MESSAGE_BYTES_MAX = 128_000
"""Bytes of trace records in one message, as RocketMQ's clients bound theirs."""
KEYS_CHARS_MAX = 8_000
"""Characters of keys per message. At four bytes each they fit its properties. Keys beyond are not indexed."""
PLAIN, HALF, DELAYED = 0, 1, 3


class SendTracing(Extension):
    """Writes trace records of sends over HTTP."""

    def __init__(self) -> None:
        self._store: StoreView | None = None
        self._records: list[str] = []
        self._keys: list[str] = []
        self._size = 0
        self._keys_size = 0

    def start(self, store: StoreView) -> None:
        """Keep the store to write to."""
        self._store = store

    def after_send(self, send: Send, reply: Reply) -> None:
        """Trace each message of a send."""
        store = self._store
        is_own = send.topic == TRACE_TOPIC or send.topic.startswith(GANTRY_SYSTEM_PREFIX)
        if store is None or is_own or send.producer_group != GATEWAY_GROUP:
            return
        messages = _messages(send)
        offset_ids = reply.fields.get("msgId", "").split(",")
        if len(offset_ids) != len(messages):
            offset_ids = [""] * len(messages)
        took_ms = max(store.now_ms() - send.request.arrived_ms, 0)
        is_stored = "true" if reply.code in STORED else "false"
        for (properties, size), offset_id in zip(messages, offset_ids, strict=True):
            message_id = properties.get(UNIQ_KEY) or reply.fields.get("transactionId", "")
            keys = properties.get(KEYS, "")
            fields = (
                "Pub", str(send.request.arrived_ms), store.region, send.producer_group, send.topic, message_id,
                properties.get(TAGS, ""), keys, store.address, str(size), str(took_ms), str(_kind(properties)),
                offset_id, is_stored,
            )  # fmt: skip
            self._add("\x01".join(fields) + "\x02", f"{message_id} {keys}".strip())

    def close(self) -> None:
        """Write the collected records."""
        self._write()

    def _add(self, record: str, keys: str) -> None:
        if not self._records:
            asyncio.get_running_loop().call_soon(self._write)
        keys = keys if len(keys) < KEYS_CHARS_MAX else ""
        is_full = self._keys_size + len(keys) >= KEYS_CHARS_MAX
        if self._records and (is_full or self._size + len(record) > MESSAGE_BYTES_MAX):
            self._write()
        self._records.append(record)
        self._keys.append(keys)
        self._size += len(record)
        self._keys_size += len(keys) + 1

    def _write(self) -> None:
        store, records, keys = self._store, self._records, self._keys
        self._records, self._keys, self._size, self._keys_size = [], [], 0, 0
        if records and store is not None:
            store.append(TRACE_TOPIC, 0, "".join(records).encode(), keys=" ".join(filter(None, keys)))


def _messages(send: Send) -> list[tuple[Mapping[str, str], int]]:
    """Return properties and body size of each message of a send."""
    if not send.is_batch:
        return [(send.properties, len(send.request.body))]
    try:
        return [
            (parse_properties(item.properties), len(item.body)) for item in decode_batch(send.request.body)
        ]
    except WireError:
        return []


def _kind(properties: Mapping[str, str]) -> int:
    if properties.get(TRANSACTION_PREPARED, "").lower() == "true":
        return HALF
    return DELAYED if {DELAY, TIMER_DELAY_MS, TIMER_DELIVER_MS} & properties.keys() else PLAIN
