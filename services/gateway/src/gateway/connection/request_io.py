"""A request on its connection, as those see it who answer without uvicorn. A Protocol only."""

from typing import Any, Protocol

from gateway.http.call import Event


class Cycle(Protocol):
    """A request with a known head."""

    keep_alive: bool
    """False: the connection ends with the answer."""

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed."""
        ...

    def scope(self) -> dict[str, Any]:
        """Return the request's scope."""
        ...

    async def receive(self) -> Event:
        """Return the body, then wait until the client is gone."""
        ...

    async def send(self, event: Event) -> None:
        """Take a part of the answer."""
        ...

    def write(self, answer: bytes) -> None:
        """Write the bytes of the whole answer."""
        ...
