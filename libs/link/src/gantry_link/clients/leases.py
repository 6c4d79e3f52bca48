"""The typed client of receive and acknowledge at one store (9030 … 9034)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from gantry_link.calling.call_pattern import CallPattern
from gantry_link.calling.store_calls import BULK, StoreCalls, refusal
from gantry_link.clients.store import HOLD_MARGIN_SECONDS
from gantry_link.connections.calls import Answer
from gantry_link.errors import LinkError
from gantry_wire.codes import GantryCode
from gantry_wire.frames.command import Command
from gantry_wire.private_requests.leases import (
    ExtendReplyHeader,
    LeasedRun,
    LeaseItem,
    LeaseItemsHeader,
    LeaseQueueState,
    LeaseStateHeader,
    ReceiveReplyHeader,
    WaitHeader,
    WaitReplyHeader,
    pack_items,
    unpack_runs,
)

_decode_states = msgspec.json.Decoder(list[LeaseQueueState]).decode


class Received(NamedTuple):
    """Leased messages: bytes from the log, and the lease of each run of records. `until_ms` is wall time."""

    runs: list[LeasedRun]
    records: bytes | memoryview
    until_ms: int
    more: bool


class LeaseClient(StoreCalls):
    """Methods raise BrokerRefused, or LinkError with `sent`."""

    def start_receive(self, pattern: CallPattern, answer: Answer) -> None:
        """9030, with the header of `pattern`: lease messages. `answer` receives the command, for `received_of`, or the LinkError.

        After a LinkError with `sent`, the store may have leased messages that this client did not get.
        """
        self.start(answer, pattern.frame, BULK)

    def start_settle(self, pattern: CallPattern, items: bytes, answer: Answer) -> None:
        """9031, with the header of `pattern`: ack, nack or release items durably, packed by `pack_items` or `pack_places`.

        `answer` receives the command, for `statuses_of`, or the LinkError.
        """
        self.start(answer, partial(pattern.frame, body=items))

    async def release(self, header: LeaseItemsHeader, items: Sequence[LeaseItem]) -> None:
        """9031, one-way: make messages that reached no consumer due at once. If the request is lost, their leases time out."""
        await self.tell(GantryCode.ACK, header, pack_items(items))

    async def extend(self, header: LeaseItemsHeader, items: Sequence[LeaseItem]) -> tuple[bytes, int]:
        """9032: change the end of leases. Returns an ItemStatus byte per item, and the new end."""
        answer = await self.ask(GantryCode.EXTEND_LEASE, header, pack_items(items))
        return answer.body, answer.read(ExtendReplyHeader).until_ms

    async def states(self, header: LeaseStateHeader) -> list[LeaseQueueState]:
        """9033: return a group's lease state in each queue."""
        return _decode_states((await self.ask(GantryCode.LEASE_STATE, header)).body)

    async def wait(self, header: WaitHeader) -> bool:
        """9034: wait until a receive may find something. Returns False on time-out."""
        timeout_seconds = header.wait_ms / 1000 + HOLD_MARGIN_SECONDS
        answer = await self.ask(
            GantryCode.WAIT_FOR_MESSAGES, header, connection_class=BULK, timeout_seconds=timeout_seconds
        )
        return answer.read(WaitReplyHeader).ready

    def end_wait(self, header: WaitHeader) -> None:
        """9034, one-way, with `wait_ms` 0: end a wait. Uses the connection on which the wait was sent."""
        connection = self.pool.get_nowait(self.address, BULK)
        if connection is not None:
            try:
                connection.oneway(GantryCode.WAIT_FOR_MESSAGES, header, b"")
            except LinkError:
                return


def received_of(answer: Command) -> Received:
    """Decode the answer to a receive. Raises BrokerRefused."""
    if answer.code:
        raise refusal(answer)
    reply = answer.read(ReceiveReplyHeader)
    runs, records = unpack_runs(answer.body, reply.runs)
    return Received(runs, records, reply.until_ms, reply.more)


def statuses_of(answer: Command) -> bytes:
    """Return an ItemStatus byte per item from the answer to a settlement. Raises BrokerRefused."""
    if answer.code:
        raise refusal(answer)
    return answer.body
