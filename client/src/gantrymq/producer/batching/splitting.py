"""Splits messages into batches that each fit a request. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from gantry_wire.limits import BATCH_ITEM_BYTES_MIN

ItemT = TypeVar("ItemT")


def split(items: Iterable[tuple[ItemT, int]], bytes_max: int) -> Iterator[list[ItemT]]:
    """Yield items, each given with its size, in their order, as many together as fit; an oversized one alone."""
    batch: list[ItemT] = []
    size = 0
    for item, item_size in items:
        if batch and size + item_size > bytes_max:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_size
    if batch:
        yield batch


def item_size(body: bytes, properties: bytes) -> int:
    """Return the size of a message in a batch."""
    return BATCH_ITEM_BYTES_MIN + len(body) + len(properties)
