"""The KV configuration: namespace → key → value. Pure; durable_file.py keeps it."""

from __future__ import annotations

from gantry_wire.bodies.cluster import KvConfigFile
from gantry_wire.bodies.json_body import encode_body

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of the queue lists of ordered topics: topic → `broker-a:8;broker-b:8`."""
KV_BYTES_MAX = 16 * 1024 * 1024
"""All namespaces, keys and values in UTF-8. Each change writes the whole file."""
VALUE_BYTES_MAX = 1024 * 1024
"""One namespace, key and value together."""


class KvConfigFull(Exception):
    """The value, or all values together, would be too large. Nothing changed."""


class KvConfig:
    """Values set by administrators, kept across restarts."""

    def __init__(self, table: dict[str, dict[str, str]] | None = None) -> None:
        self._table = table or {}
        self._bytes = sum(
            _size(namespace, key, value)
            for namespace, values in self._table.items()
            for key, value in values.items()
        )

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value. Raises KvConfigFull when it is too large."""
        size = _size(namespace, key, value)
        if size > VALUE_BYTES_MAX:
            raise KvConfigFull(f"a value and its key may take {VALUE_BYTES_MAX} bytes, these take {size}")
        before = self.get(namespace, key)
        grown = size - (0 if before is None else _size(namespace, key, before))
        if grown > 0 and self._bytes + grown > KV_BYTES_MAX:
            raise KvConfigFull(
                f"all values may take {KV_BYTES_MAX} bytes and already take {self._bytes}; delete some (102) first"
            )
        self._bytes += grown
        self._table.setdefault(namespace, {})[key] = value

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value; None when it is not set."""
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Delete a value; the namespace stays, as in RocketMQ."""
        before = self._table.get(namespace, {}).pop(key, None)
        if before is not None:
            self._bytes -= _size(namespace, key, before)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return all values of a namespace; None when it never held any."""
        table = self._table.get(namespace)
        return None if table is None else dict(table)

    def order_config(self) -> dict[str, str] | None:
        """Return the queue lists of ordered topics."""
        return self.namespace(ORDER_TOPIC_CONFIG)

    def content(self) -> bytes:
        """Return everything in the format of RocketMQ's kvConfig.json."""
        return encode_body(KvConfigFile(config_table=self._table))


def _size(namespace: str, key: str, value: str) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in (namespace, key, value))
