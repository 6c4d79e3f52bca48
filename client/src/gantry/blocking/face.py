"""What every synchronous face has: its life from `start` to `close`, as a `with` block."""

from __future__ import annotations

from typing import Generic, Protocol, Self, TypeVar

from gantry.blocking.loop import loop_thread


class Lived(Protocol):
    """A client of the asyncio face."""

    async def start(self) -> None:
        """Make it ready."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


InnerT = TypeVar("InnerT", bound=Lived)


class Face(Generic[InnerT]):
    """Stands for the client of the asyncio face that it is made with. Use it in `with`."""

    def __init__(self, inner: InnerT) -> None:
        self._inner: InnerT = inner

    def start(self) -> None:
        """As `start` of the asyncio face."""
        loop_thread.run(self._inner.start())

    def close(self) -> None:
        """As `close` of the asyncio face."""
        loop_thread.run(self._inner.close())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
