"""What a service gives to the server, and what it gets of a call."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol


class CallInfo(NamedTuple):
    """One call. Read-only."""

    headers: Mapping[bytes, bytes]
    """The metadata by lower-case names, the headers of HTTP/2 (`:authority`, `:path`) among them. Of several values of one name this is the last."""
    deadline: float | None
    """When the client gives up, on the loop's steady clock in seconds; None if it waits for ever."""
    peer: str
    """The client's "host:port"."""
    is_secure: bool
    """Whether the connection has TLS."""
    user: str
    """The name in the client's verified certificate; empty without one."""


Unary = Callable[[CallInfo, bytes], bytes | Awaitable[bytes]]
"""Answers one message with one message.

Bytes are sent at once. A future is awaited by a callback, without a task; a coroutine gets a task. Both are cancelled when the client cancels the call, when its connection ends, and at its deadline.
A function that sets the result of a future must check that it is not done. Raising GrpcError gives the client that status; any other exception is INTERNAL for it.
"""


class Stream(Protocol):
    """A call with more than one message in a direction."""

    @property
    def info(self) -> CallInfo:
        """The call."""
        ...

    async def receive(self) -> bytes | None:
        """Return the client's next message; None after its last one. Raises GrpcError for one that is malformed or too large. One task at a time."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a message. Waits while the client's windows are closed, or its socket is full; returns when the windows have let all of it leave. Raises GrpcError after the end of the call."""
        ...


Streaming = Callable[[Stream], Awaitable[None]]
"""Serves a streaming call in its task. Returning is status OK. Cancelled as a unary call, and when the server shuts down."""


class Methods(NamedTuple):
    """The methods of a server by their full paths, "/package.Service/Method"."""

    unary: Mapping[str, Unary]
    streaming: Mapping[str, Streaming]


def joined(*parts: Methods) -> Methods:
    """Return all methods together. Raises ValueError if a path is there twice."""
    unary: dict[str, Unary] = {}
    streaming: dict[str, Streaming] = {}
    for part in parts:
        for path in (*part.unary, *part.streaming):
            if path in unary or path in streaming:
                raise ValueError(f"{path} is there twice")
        unary |= part.unary
        streaming |= part.streaming
    return Methods(unary, streaming)
