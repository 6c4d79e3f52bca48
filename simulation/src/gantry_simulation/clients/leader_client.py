"""The client of a broker group: it asks the replica that led last, and follows the refusals of those that do not lead.

It takes messages from a follower. What a follower has not, and what it may not know yet, it asks the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gantry_link.calling.store_calls import SMALL, Fields
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.private_requests.leading import LEADER_FIELD, NOT_LEADER

TRIES, PAUSE_SECONDS = 6, 0.1
MAY_BE_OLD = frozenset(
    {
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.QUERY_MESSAGE,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.VIEW_MESSAGE_BY_ID,
    }
)
"""Reads that a follower, or a replaced leader that has not heard of it, answers with what it had."""
PULLS = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})


class Replaced(LinkError):
    """The replica that answered a read does not lead. Nothing is learned from the answer."""


class LeaderClient(StoreClient):
    """See StoreClient. What no replica has stored is asked again, elsewhere."""

    def __init__(
        self,
        pool: ConnectionPool,
        addresses: Sequence[str],
        timeout_seconds: float,
        is_replaced: Callable[[str], bool],
    ) -> None:
        """`is_replaced`: whether another replica than the one with this address leads by now."""
        super().__init__(pool, addresses[0], timeout_seconds)
        self._addresses, self._is_replaced = list(addresses), is_replaced

    async def call(
        self,
        code: int,
        header: Fields = None,
        body: bytes = b"",
        *,
        connection_class: str = SMALL,
        timeout_seconds: float | None = None,
    ) -> Command:
        """See StoreCalls."""
        for left in reversed(range(TRIES)):
            address = self.address
            try:
                answer = await super().call(
                    code, header, body, connection_class=connection_class, timeout_seconds=timeout_seconds
                )
            except LinkError as error:
                self._leave(address, "")
                if error.sent or not left:
                    raise
            else:
                if _may_be_old(code, answer) and self._is_replaced(address):
                    self._leave(address, "")
                    if not left:
                        raise Replaced(f"another replica leads than {address}", sent=True)
                elif (
                    answer.code != ResponseCode.SERVICE_NOT_AVAILABLE or not _is_no_leader(answer) or not left
                ):
                    return answer
                else:
                    self._leave(address, answer.ext.get(LEADER_FIELD, ""))
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError

    def _leave(self, address: str, leader: str) -> None:
        """Ask the leader next, or any other replica, unless another call has found one meanwhile."""
        if self.address == address:
            following = (self._addresses.index(address) + 1) % len(self._addresses)
            self.address = leader if leader in self._addresses else self._addresses[following]


def _may_be_old(code: int, answer: Command) -> bool:
    return code in MAY_BE_OLD or (code in PULLS and answer.code != ResponseCode.SUCCESS)


def _is_no_leader(answer: Command) -> bool:
    return answer.ext.get("gantryCode") == NOT_LEADER
