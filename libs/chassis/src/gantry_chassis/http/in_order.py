"""Sets in the order of insertion, for uvicorn: it closes connections and cancels tasks in the order of their addresses in memory."""

from collections.abc import Iterator, MutableSet
from typing import TypeVar, cast

import uvicorn

T = TypeVar("T")


class InOrder(MutableSet[T]):
    """A set that keeps its order, so that what a server does at its end can be repeated."""

    def __init__(self) -> None:
        self._items: dict[T, None] = {}

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, value: T) -> None:
        """Add an item."""
        self._items[value] = None

    def discard(self, value: T) -> None:
        """Remove an item, if it is there."""
        self._items.pop(value, None)


def keep_order(server: uvicorn.Server) -> None:
    """Let a server that has not started keep its connections and tasks in order."""
    state = server.server_state
    state.connections = cast("set[object]", InOrder())  # pyright: ignore[reportAttributeAccessIssue]  # it needs no more of a set
    state.tasks = cast("set[object]", InOrder())  # pyright: ignore[reportAttributeAccessIssue]
