"""The KV configuration: namespace → key → value. Pure; durable_file.py keeps it."""

from __future__ import annotations

from gantry_wire.bodies import KvConfigFile, encode_body

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of the queue lists of ordered topics: topic → `broker-a:8;broker-b:8`."""


class KvConfig:
    """Values that administrators set, kept over restarts."""

    def __init__(self, table: dict[str, dict[str, str]] | None = None) -> None:
        self._table = table or {}

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value."""
        self._table.setdefault(namespace, {})[key] = value

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, None when it is not set."""
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Forget a value; the namespace stays, as in RocketMQ."""
        self._table.get(namespace, {}).pop(key, None)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return all values of a namespace, None when nothing was ever put there."""
        table = self._table.get(namespace)
        return None if table is None else dict(table)

    def order_config(self) -> dict[str, str] | None:
        """Return the queue lists of ordered topics."""
        return self.namespace(ORDER_TOPIC_CONFIG)

    def content(self) -> bytes:
        """Return everything as RocketMQ's kvConfig.json has it."""
        return encode_body(KvConfigFile(config_table=self._table))
