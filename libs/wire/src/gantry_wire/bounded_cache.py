"""A cache with a limit, and one policy for when it is full. Knows no clock and no source of randomness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

_MULTIPLIER, _INCREMENT, _MASK = 6_364_136_223_846_793_005, 1_442_695_040_888_963_407, 2**64 - 1
"""Knuth's generator MMIX: its upper half is as good as random here, and the same in every run."""


class BoundedCache(Generic[Key, Value]):
    """Keeps at most `limit` entries. A new entry always gets a place: in a full cache, that of an entry picked by a fixed random sequence.

    Clients often go round their queues in a fixed order. With more queues than places, a cache that drops everything, or the oldest
    entry, drops each one just before its turn and finds nothing. With random places it still finds most of
    them at 1.2 times as many queues as places.
    """

    __slots__ = ("_entries", "_keys", "_limit", "_random", "get")

    def __init__(self, limit: int) -> None:
        assert limit >= 1, "a cache without a place keeps nothing"
        self._limit = limit
        self._entries: dict[Key, Value] = {}
        self._keys: list[Key] = []
        """Every key once, so that one can be picked by number."""
        self._random = 0
        self.get: Callable[[Key], Value | None] = self._entries.get
        """Returns the value of a key, None when it is not kept."""

    def __len__(self) -> int:
        return len(self._keys)

    def keep(self, key: Key, value: Value) -> None:
        """Keep a value; it replaces an earlier one of the same key."""
        if key not in self._entries:
            if len(self._keys) < self._limit:
                self._keys.append(key)
            else:
                place = self._place()
                del self._entries[self._keys[place]]
                self._keys[place] = key
        self._entries[key] = value

    def _place(self) -> int:
        self._random = self._random * _MULTIPLIER + _INCREMENT & _MASK
        return (self._random >> 32) % self._limit
