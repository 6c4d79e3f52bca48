"""Checks (39) pushed to producers, and their answers relayed to the broker that keeps the half.

A client answers a check on the connection it came over. So a broker that checks on behalf of another
remembers for a while which broker keeps the half.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker_store.groups.clients import ClientTable
from broker_store.log.errors import LogError
from broker_store.ports import LogReader, Peer
from broker_store.reading.pull_reading import InThread
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import MalformedRecord, RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.headers.messages import CheckTransactionHeader, EndTransactionHeader
from gantry_wire.private_requests.transactions import AskProducer
from gantry_wire.records.half_message import sent_message
from gantry_wire.records.message_record import decode_record

RELAY_MS = 10 * 60 * 1000
"""A producer that needs longer is checked again, and its answers are then relayed again."""
RELAYS_MAX = 100_000
MaySend = Callable[[Peer, str], bool]
"""Whether a client may send to a topic."""


class Producers(NamedTuple):
    """The clients of producer groups."""

    clients: ClientTable
    may_send: MaySend
    """A check shows the message: a heartbeat that names the group is not enough to get it."""


@dataclass(slots=True)
class Relays:
    """Transactions of other brokers whose checks were pushed to clients of this one: unique key → (address, topic, until)."""

    homes: dict[str, tuple[str, str, int]] = field(default_factory=dict[str, tuple[str, str, int]])

    def note(self, key: str, home: str, topic: str, now_ms: int) -> None:
        """Remember which broker keeps a half."""
        self.homes.pop(key, None)
        self.homes[key] = home, topic, now_ms + RELAY_MS
        if len(self.homes) > RELAYS_MAX:
            del self.homes[next(iter(self.homes))]

    def home_of(self, header: EndTransactionHeader, now_ms: int) -> tuple[str, str] | None:
        """Return the address of the broker that keeps the half, and the message's topic. None when it is this one, as far as known."""
        for key in (header.transaction_id, header.msg_id):
            found = self.homes.get(key or "")
            if found is not None and found[2] > now_ms:
                return found[:2]
        return None


@dataclass(slots=True)
class ProducerChecks:
    """Finds channels of producer groups and pushes checks over them."""

    producers: Producers
    log: LogReader
    in_thread: InThread
    pool: ConnectionPool
    deferred: DeferredReplies
    address: str
    """host:port as advertised to clients."""
    now_ms: Callable[[], int]
    relays: Relays = field(default_factory=Relays)
    _turn: int = 0

    def channels(self, group: str) -> list[Peer]:
        """Return the connections of a producer group's live clients."""
        clients = self.producers.clients.producers.get(group, {})
        return [client.peer for client in clients.values() if not client.peer.is_closing]

    async def ask(self, ask: AskProducer) -> bool:
        """Push 39 to the next client of the group; False when none is connected that may send to the message's topic.

        Raises RefusedRequest when the half is gone, and MalformedRecord for a message that is none.
        """
        message = ask.message
        if not message and self.channels(ask.producer_group):
            message = await self._own_half(ask)
        channels = self.channels(ask.producer_group)
        topic = ""
        if channels:
            topic = decode_record(message, check_crc=False).topic.decode(errors="replace")
            channels = [peer for peer in channels if self.producers.may_send(peer, topic)]
        if not channels:
            return False
        if ask.home != self.address:
            self.relays.note(ask.key, ask.home, topic, self.now_ms())
        header = CheckTransactionHeader(
            tran_state_table_offset=ask.offset,
            commit_log_offset=ask.position,
            msg_id=ask.key,
            transaction_id=ask.key,
            offset_msg_id=ask.message_id,
        )
        fields = {**header.to_fields(), "bname": ask.broker}
        self._turn += 1
        peer = channels[self._turn % len(channels)]
        peer.send(encode_request(RequestCode.CHECK_TRANSACTION_STATE, 0, fields, message, oneway=True))
        return True

    def relay(self, peer: Peer, command: Command, header: EndTransactionHeader) -> bool:
        """Relay a decision about another broker's half. False when this broker keeps it."""
        found = self.relays.home_of(header, self.now_ms())
        if found is None:
            return False
        home, topic = found
        if not self.producers.may_send(peer, topic):
            # the other broker trusts this one, and the record that was checked here is none of that broker's
            raise RefusedRequest(ResponseCode.NO_PERMISSION, f"no right to send to the topic[{topic}]")
        self.deferred.answer(peer, command, self._pass_on(command, home))
        return True

    async def _pass_on(self, command: Command, home: str) -> bytes:
        try:
            connection = await self.pool.get(home)
            answer = await connection.request(RequestCode.END_TRANSACTION, command.ext)
        except LinkError as error:
            remark = f"the broker at {home}, which keeps the half message, does not answer: {error}"
            return encode_response(ResponseCode.SYSTEM_ERROR, command.opaque, remark=remark)
        return encode_response(answer.code, command.opaque, answer.ext, remark=answer.remark)

    async def _own_half(self, ask: AskProducer) -> bytes:
        try:
            return sent_message(await self.in_thread(self.log.read_record, ask.position))
        except (LogError, MalformedRecord, OSError) as error:
            remark = f"there is no half message at position {ask.position}: {error}"
            raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, remark) from error
