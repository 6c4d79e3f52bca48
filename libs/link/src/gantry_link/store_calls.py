"""Calls to one broker over a shared pool: which connection, which answers are refusals. Knows no single request.

Small calls and big replies go over connections of their own (lanes), so that an answered send never waits behind
megabytes of a pull.
"""

from __future__ import annotations

from gantry_link.connection import REQUEST_SECONDS
from gantry_link.errors import BrokerRefused
from gantry_link.pool import ConnectionPool
from gantry_wire.frame import Command
from gantry_wire.header import Header

SMALL, BULK = "", "bulk"
"""Lanes: sends and questions; pulls, queries and tables."""

Fields = Header | dict[str, str] | None


class StoreCalls:
    """The calls of a client to one broker address. Costs nothing to make: connections belong to the pool."""

    def __init__(self, pool: ConnectionPool, address: str, timeout_seconds: float = REQUEST_SECONDS) -> None:
        self.pool = pool
        self.address = address
        self.timeout_seconds = timeout_seconds

    async def call(
        self,
        code: int,
        header: Fields = None,
        body: bytes = b"",
        *,
        lane: str = SMALL,
        timeout_seconds: float | None = None,
    ) -> Command:
        """Return the answer, whatever its code. Raises LinkError, whose `sent` says what may have happened."""
        connection = self.pool.get_nowait(self.address, lane) or await self.pool.get(self.address, lane)
        return await connection.request(
            code, header, body, self.timeout_seconds if timeout_seconds is None else timeout_seconds
        )

    async def ask(
        self,
        code: int,
        header: Fields = None,
        body: bytes = b"",
        *,
        lane: str = SMALL,
        timeout_seconds: float | None = None,
    ) -> Command:
        """Return the answer when its code is 0, otherwise raise BrokerRefused."""
        answer = await self.call(code, header, body, lane=lane, timeout_seconds=timeout_seconds)
        if answer.code:
            raise refusal(answer)
        return answer

    async def tell(self, code: int, header: Fields = None, body: bytes = b"") -> None:
        """Send a request that nobody answers."""
        connection = self.pool.get_nowait(self.address) or await self.pool.get(self.address)
        connection.oneway(code, header, body)


def refusal(answer: Command) -> BrokerRefused:
    """Return an answer with an error code as the exception to raise."""
    return BrokerRefused(answer.code, answer.remark or "", answer.ext)
