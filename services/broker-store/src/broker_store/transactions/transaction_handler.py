"""Requests 9021, 9023, 9024, 9025 and 323: queries and commands about single transactions. Parse, call, reply."""

from collections.abc import Coroutine
from dataclasses import dataclass

import msgspec

from broker_store.log.errors import LogError
from broker_store.ports import Commands, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.transactions.decisions_by_key import DecisionsByKey
from broker_store.transactions.half_copies import transaction_of
from broker_store.transactions.producer_checks import ProducerChecks
from broker_store.transactions.transaction_lookup import TransactionLookup
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import GantryCode, RequestCode, ResponseCode
from gantry_wire.errors import MissingField, RefusedRequest, WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.messages.ids import parse_offset_message_id
from gantry_wire.messages.properties import UNIQ_KEY
from gantry_wire.names import TRANS_CHECK_MAX_TIME_TOPIC
from gantry_wire.private_requests.transactions import (
    AskProducer,
    AskState,
    DecideTransaction,
    FindProducer,
    ProducerAsked,
    ProducerFound,
)
from gantry_wire.records.message_record import decode_record

_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class TransactionRequests:
    """Handlers of this family."""

    lookup: TransactionLookup
    by_key: DecisionsByKey
    checks: ProducerChecks
    deferred: DeferredReplies

    def commands(self) -> Commands:
        """Return the table entries of this family."""
        return {
            GantryCode.DECIDE_TRANSACTION: ("endTransaction", self.decide),
            GantryCode.FIND_PRODUCER: ("clientManager", self.find_producer),
            GantryCode.TRANSACTION_STATE: ("endTransaction", self.state),
            GantryCode.ASK_PRODUCER: ("endTransaction", self.ask_producer),
            RequestCode.RESUME_CHECK_HALF_MESSAGE: ("endTransaction", self.resume),
        }

    def decide(self, peer: Peer, command: Command) -> None:
        """Handle 9021: commit or roll back the transaction with a key."""
        order = decode_body(command.body, DecideTransaction)
        self._answer(peer, command, self._decide(command, order))

    def state(self, peer: Peer, command: Command) -> None:
        """Handle 9024: the state of a transaction."""
        self._answer(peer, command, self._state(command, decode_body(command.body, AskState).key))

    def find_producer(self, _peer: Peer, command: Command) -> bytes:
        """Handle 9023: how many clients of a producer group are connected."""
        group = decode_body(command.body, FindProducer).producer_group
        return _reply(command, ProducerFound(channels=len(self.checks.channels(group))))

    def ask_producer(self, peer: Peer, command: Command) -> None:
        """Handle 9025: push a check about a half to one of them."""
        self._answer(peer, command, self._ask(command, decode_body(command.body, AskProducer)))

    def resume(self, peer: Peer, command: Command) -> None:
        """Handle 323: check a parked half again, from the start."""
        message_id = command.ext.get("msgId")
        if not message_id:
            raise MissingField("msgId")
        self._answer(peer, command, self._resume(command, message_id))

    async def _decide(self, command: Command, order: DecideTransaction) -> bytes:
        return _reply(command, await self.by_key.decide(order))

    async def _state(self, command: Command, key: str) -> bytes:
        return _reply(command, (await self.lookup.find(key)).view())

    async def _ask(self, command: Command, ask: AskProducer) -> bytes:
        return _reply(command, ProducerAsked(asked=await self.checks.ask(ask)))

    async def _resume(self, command: Command, message_id: str) -> bytes:
        try:
            position = parse_offset_message_id(message_id)[2]
            record = decode_record(await self.lookup.in_thread(self.lookup.log.read_record, position))
            # of several transactions with one key, the record's own: its topic is the one whose right was checked
            found = await self.lookup.find(
                record.property_map().get(UNIQ_KEY, ""), transaction_of(record.properties)
            )
            if found.topic != TRANS_CHECK_MAX_TIME_TOPIC or found.state != "parked":
                raise _not_put_back(f"it is {found.state}, not parked")
            await self.by_key.resume(found)
        except RefusedRequest as refusal:
            raise _not_put_back(refusal.remark) from refusal
        except (LogError, WireError, OSError) as error:
            raise _not_put_back(str(error)) from error
        return encode_response(ResponseCode.SUCCESS, command.opaque)

    def _answer(self, peer: Peer, command: Command, reply: Coroutine[None, None, bytes]) -> None:
        self.deferred.answer(peer, command, _refusals_reported(command, reply))


async def _refusals_reported(command: Command, reply: Coroutine[None, None, bytes]) -> bytes:
    """Return the reply. A refusal includes its fields, which tell a program what to do next."""
    try:
        return await reply
    except RefusedRequest as refusal:
        return encode_response(refusal.code, command.opaque, refusal.fields, remark=refusal.remark)


def _reply(command: Command, body: msgspec.Struct) -> bytes:
    return encode_response(ResponseCode.SUCCESS, command.opaque, body=_encode(body))


def _not_put_back(why: str) -> RefusedRequest:
    remark = f"Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed. {why}"
    return RefusedRequest(ResponseCode.SYSTEM_ERROR, remark.strip())
