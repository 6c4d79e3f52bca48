"""The base of every synchronous client: its life from `start` to `close`, as a `with` block."""

from __future__ import annotations

from typing import Generic, Protocol, Self, TypeVar

from gantrymq.blocking.loop import loop_thread


class AsyncClient(Protocol):
    """A client of the asyncio API."""

    async def start(self) -> None:
        """Start the client."""
        ...

    async def close(self) -> None:
        """Close the client."""
        ...


InnerT = TypeVar("InnerT", bound=AsyncClient)


class BlockingClient(Generic[InnerT]):
    """Wraps a client of the asyncio API. Use it in `with`."""

    def __init__(self, inner: InnerT) -> None:
        self._inner: InnerT = inner

    def start(self) -> None:
        """As `start` of the asyncio API."""
        loop_thread.run(self._inner.start())

    def close(self) -> None:
        """As `close` of the asyncio API."""
        loop_thread.run(self._inner.close())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
