"""A cache with a size limit and deterministic random eviction. Knows no clock and no source of randomness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

_MULTIPLIER, _INCREMENT, _MASK = 6_364_136_223_846_793_005, 1_442_695_040_888_963_407, 2**64 - 1
"""Knuth's MMIX generator. Its upper half is random enough here and the same in every run."""


class BoundedCache(Generic[Key, Value]):
    """Keeps at most `limit` entries. When it is full, a new entry replaces one picked by a fixed random sequence.

    Clients often cycle through their queues in a fixed order. With more queues than entries, a cache that clears itself or
    evicts the oldest entry drops each entry just before its next use and never hits. With random eviction it still hits
    for most of them at 1.2 times as many queues as entries.
    """

    __slots__ = ("_entries", "_keys", "_limit", "_random", "get")

    def __init__(self, limit: int) -> None:
        assert limit >= 1, "a cache holds at least one entry"
        self._limit = limit
        self._entries: dict[Key, Value] = {}
        self._keys: list[Key] = []
        """Every key once, so that eviction can pick one by index."""
        self._random = 0
        self.get: Callable[[Key], Value | None] = self._entries.get
        """Returns the value of a key, or None if it is not cached."""

    def __len__(self) -> int:
        return len(self._keys)

    def keep(self, key: Key, value: Value) -> None:
        """Store a value, in place of an earlier one with the same key."""
        if key not in self._entries:
            if len(self._keys) < self._limit:
                self._keys.append(key)
            else:
                index = self._evicted_index()
                del self._entries[self._keys[index]]
                self._keys[index] = key
        self._entries[key] = value

    def _evicted_index(self) -> int:
        self._random = self._random * _MULTIPLIER + _INCREMENT & _MASK
        return (self._random >> 32) % self._limit
