"""Checks (39) pushed to producers, and their answers relayed to the broker that keeps the half.

A client answers a check on the connection it came over. So a broker that checks on behalf of another
remembers for a while which broker keeps the half.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker_store.groups.clients import ClientTable
from broker_store.log.errors import LogError
from broker_store.ports import InThread, LogReader, Peer
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
EXPIRY_SECONDS = 60.0
"""How often relays that are over are forgotten."""
MaySend = Callable[[Peer, str], bool]
"""Whether a client may send to a topic."""


class Relayed(NamedTuple):
    """A half of another broker whose check was pushed to a client of this one."""

    key: str
    home: str
    """Address of the broker that keeps the half."""
    topic: str
    """The message's topic."""
    until_ms: int


@dataclass(slots=True)
class Relays:
    """Halves of other brokers whose checks were pushed to clients of this one, by unique key and position in the log of their broker.

    A half is known until `expire` forgets it. Looking one up asks no clock: access control decides by the topic of the half
    that the handler, later in the same turn, relays a decision about.
    """

    halves: dict[tuple[str, int], Relayed] = field(default_factory=dict[tuple[str, int], Relayed])

    def note(self, ask: AskProducer, topic: str, now_ms: int) -> None:
        """Remember which broker keeps a half."""
        place = ask.key, ask.position
        self.halves.pop(place, None)  # so that the dict has the order of their ends
        self.halves[place] = Relayed(ask.key, ask.home, topic, now_ms + RELAY_MS)
        if len(self.halves) > RELAYS_MAX:
            del self.halves[next(iter(self.halves))]

    def find(self, keys: Iterable[str | None], position: int) -> Relayed | None:
        """Return the half at a position of another broker's log that has one of these keys. None when this broker keeps it, as far as known."""
        for key in keys:
            found = self.halves.get((key or "", position))
            if found is not None:
                return found
        return None

    def topic_of(self, fields: Mapping[str, str], position: int) -> str | None:
        """Return the topic of the half of another broker that the fields of a decision name. None when this broker keeps it, as far as known."""
        found = self.find((fields.get("transactionId"), fields.get("msgId")), position)
        return None if found is None else found.topic

    def expire(self, now_ms: int) -> None:
        """Forget the halves whose time is over."""
        while self.halves and self.halves[first := next(iter(self.halves))].until_ms <= now_ms:
            del self.halves[first]


class DecisionRights(NamedTuple):
    """Which clients may decide half messages, with those of other brokers that they were asked about."""

    may_send: MaySend
    relays: Relays


class Producers(NamedTuple):
    """The clients of producer groups, and the checks that were pushed to them for other brokers."""

    clients: ClientTable
    may_send: MaySend
    """A check shows the message: a heartbeat that names the group is not enough to get it."""
    relays: Relays


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
            self.producers.relays.note(ask, topic, self.now_ms())
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
        found = self.producers.relays.find((header.transaction_id, header.msg_id), header.commit_log_offset)
        if found is None:
            return False
        if not self.producers.may_send(peer, found.topic):
            # the other broker trusts this one
            raise RefusedRequest(ResponseCode.NO_PERMISSION, f"no right to send to the topic[{found.topic}]")
        self.deferred.answer(peer, command, self._pass_on(command, found))
        return True

    async def expire_relays(self) -> None:
        """Forget relays that are over, for ever. Supervise it as a named loop."""
        while True:
            await asyncio.sleep(EXPIRY_SECONDS)
            self.producers.relays.expire(self.now_ms())

    async def _pass_on(self, command: Command, half: Relayed) -> bytes:
        home = half.home
        # Both ids name the half whose topic the client may send to: the other broker accepts either.
        fields = {**command.ext, "transactionId": half.key, "msgId": half.key}
        try:
            connection = await self.pool.get(home)
            answer = await connection.request(RequestCode.END_TRANSACTION, fields)
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
