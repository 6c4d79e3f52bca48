"""Leaks planted in what processes keep in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_store.reading.held_pulls import HeldPulls
from broker_store.settling.claims import ClaimTable
from gantry_simulation.lives.planted.fault import Planted
from gantry_wire.bounded_cache import BoundedCache


def _keep_all(_right: Callable[..., None]) -> Callable[..., None]:
    def keep(cache: BoundedCache[Any, Any], key: Any, value: Any) -> None:
        if cache.get(key) is None:
            cache._keys.append(key)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - it plants a fault there
        cache._entries[key] = value  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001

    return keep


def _none_closed(_right: Callable[..., int]) -> Callable[..., int]:
    return lambda *_arguments: 0


def _none_freed(_right: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    return lambda *_arguments: []


PLANTED_MEMORY = (
    Planted("held pulls outlive their connection", HeldPulls, "close_peer", _none_closed),
    Planted("claims outlive their connection", ClaimTable, "close_peer", _none_freed),
    Planted("a cache has no limit", BoundedCache, "keep", _keep_all),
)
