"""Sets in the order of insertion, for uvicorn: it closes connections and cancels tasks in the order of their addresses in memory.

A shutdown also ends the connections that the event loop was accepting when it began.
"""

import asyncio
import socket
from collections.abc import Iterator, MutableSet
from typing import Protocol, TypeVar, cast

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


class Closable(Protocol):
    """A connection of uvicorn."""

    def shutdown(self) -> None:
        """Close, after the answer to a running request."""
        ...


class Connections(InOrder[Closable]):
    """The connections of a server."""

    def __init__(self) -> None:
        super().__init__()
        self.are_ending = False
        """Whether new ones are shut down: uvicorn shuts down only those that it has when its shutdown begins."""

    def add(self, value: Closable) -> None:
        """Add a connection."""
        super().add(value)
        if self.are_ending:
            asyncio.get_running_loop().call_soon(value.shutdown)  # it gets its transport after this call


def keep_order(server: uvicorn.Server) -> None:
    """Let a server that has not started keep its connections and tasks in order."""
    state = server.server_state
    state.connections = cast("set[object]", Connections())  # pyright: ignore[reportAttributeAccessIssue]  # it needs no more of a set
    state.tasks = cast("set[object]", InOrder())  # pyright: ignore[reportAttributeAccessIssue]


async def shut_down(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
    """Stop listening, let running requests finish and close all connections. `keep_order` was called for this server."""
    cast("Connections", server.server_state.connections).are_ending = True
    await server.shutdown(sockets=sockets)
