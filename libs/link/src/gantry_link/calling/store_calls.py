"""Calls to one broker over a shared pool: picks the connection and raises refusals. Knows no specific request.

Small calls and big replies use separate connections (connection classes), so that the answer of a send never waits behind
megabytes of a pull.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gantry_link.connections.calls import Answer
from gantry_link.connections.connection import REQUEST_SECONDS
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.frames.command import Command
from gantry_wire.headers.typed_header import Header

SMALL, BULK = "", "bulk"
"""Connection classes: SMALL for sends and small requests; BULK for pulls, queries and tables."""

Fields = Header | dict[str, str] | None


class StoreCalls:
    """Calls of a client to one broker address. Cheap to create: the pool owns the connections."""

    def __init__(self, pool: ConnectionPool, address: str, timeout_seconds: float = REQUEST_SECONDS) -> None:
        self.pool = pool
        self.address = address
        self.timeout_seconds = timeout_seconds
        self._connecting: set[asyncio.Task[None]] = set()

    async def call(
        self,
        code: int,
        header: Fields = None,
        body: bytes = b"",
        *,
        connection_class: str = SMALL,
        timeout_seconds: float | None = None,
    ) -> Command:
        """Return the answer, whatever its code. Raises LinkError; its `sent` says whether the request may have been executed."""
        connection = self.pool.get_nowait(self.address, connection_class) or await self.pool.get(
            self.address, connection_class
        )
        return await connection.request(
            code, header, body, self.timeout_seconds if timeout_seconds is None else timeout_seconds
        )

    def start(
        self,
        answer: Answer,
        encode: Callable[[int], bytes],
        connection_class: str = SMALL,
    ) -> None:
        """Send the request that `encode` makes from its opaque, over a new connection if none is open.

        Passes the answer, or the LinkError, to `answer` in the turn in which it arrives: no task waits for it.
        """
        connection = self.pool.get_nowait(self.address, connection_class)
        if connection is None:
            task = asyncio.ensure_future(self._connect_and_start(answer, encode, connection_class))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
            return
        opaque = connection.next_opaque()
        try:
            connection.ask(opaque, encode(opaque), answer, self.timeout_seconds)
        except LinkError as error:
            answer.set_exception(error)

    async def _connect_and_start(
        self, answer: Answer, encode: Callable[[int], bytes], connection_class: str
    ) -> None:
        try:
            await self.pool.get(self.address, connection_class)
            self.start(answer, encode, connection_class)
        except LinkError as error:
            answer.set_exception(error)
        except Exception as error:  # noqa: BLE001 - no caller is left to raise it to, and the call must end
            answer.set_exception(LinkError(f"the request cannot be sent: {error!r}", sent=False))

    async def ask(
        self,
        code: int,
        header: Fields = None,
        body: bytes = b"",
        *,
        connection_class: str = SMALL,
        timeout_seconds: float | None = None,
    ) -> Command:
        """Return the answer if its code is 0, otherwise raise BrokerRefused."""
        answer = await self.call(
            code, header, body, connection_class=connection_class, timeout_seconds=timeout_seconds
        )
        if answer.code:
            raise refusal(answer)
        return answer

    async def tell(self, code: int, header: Fields = None, body: bytes = b"") -> None:
        """Send a one-way request."""
        connection = self.pool.get_nowait(self.address) or await self.pool.get(self.address)
        connection.oneway(code, header, body)


def refusal(answer: Command) -> BrokerRefused:
    """Return the exception for an answer with an error code."""
    return BrokerRefused(answer.code, answer.remark or "", answer.ext)
