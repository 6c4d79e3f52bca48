"""A sending side with its transactions over a simulated disk: moved by the test, answers kept."""

import asyncio

import msgspec
from sending_side import HOST, ScriptedPeer, SendingSide

from broker_store.groups.clients import Client, ClientTable
from broker_store.process.parts.transactions import Transactions
from broker_store.transactions.producer_checks import Producers, Relays
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import EndTransactionHeader, SendReplyHeader
from gantry_wire.messages.ids import unpack_host
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC
from gantry_wire.private_requests.settling import (
    ClaimBody,
    ClaimQueue,
    ClaimReplyBody,
    SettleBody,
    SettleHeader,
    SettleItem,
    SettleOutput,
    SettleReplyBody,
    decode_json,
)
from gantry_wire.records.half_message import OP_PROPERTIES, REPLACED_OP_PROPERTIES, op_body

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
BORN_MS = 1_699_999_999_000
CLAIM_BODY = msgspec.json.encode(ClaimBody([ClaimQueue(HALF_TOPIC, 0)]))


class TransactionsSide(SendingSide):
    """Build it inside a running loop."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.clients = ClientTable()
        self.refused = []
        self.relays = Relays()
        host, port = unpack_host(HOST)
        self.transactions = Transactions(
            self.store, self.sending, Producers(self.clients, self.may_send, self.relays), self.classes["endTransaction"], self.in_loop,
            ConnectionPool(), f"{host}:{port}", lambda: None,
        )  # fmt: skip
        self.table.add_all(self.transactions.commands())

    def may_send(self, peer, topic):
        """Whether a client may send to a topic: not if `refused` has both."""
        return (peer, topic) not in self.refused

    async def in_loop(self, function, *arguments):
        """Read at once: the simulated disk never waits."""
        return function(*arguments)

    async def settled(self):
        """Let every pending action finish: turns, flushes, coroutines."""
        for _ in range(12):
            self.flush()
            await asyncio.sleep(0)

    async def begin(self, peer, key="U1", queue_id=2, topic="orders", body=b"pay", group="pg", **properties):
        """Send a half. Returns its answer."""
        named = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": key, **properties}
        self.send(peer, topic, body, queue_id, properties=named)
        await self.settled()
        assert peer.answers[-1].code == 0, peer.answers[-1].remark
        return peer.answers[-1].read(SendReplyHeader)

    async def end(self, peer, half, decision=COMMIT, *, oneway=False, **changes):
        """Send 37 about a half as its answer described it. Returns the reply, None if there was none."""
        header = self.end_header(half, decision, **changes)
        before = len(peer.answers)
        self.ask(peer, RequestCode.END_TRANSACTION, header, oneway=oneway)
        await self.settled()
        return peer.answers[before] if len(peer.answers) > before else None

    def end_header(self, half, decision=COMMIT, **changes):
        fields = {
            "producer_group": "pg",
            "tran_state_table_offset": half.queue_offset,
            "commit_log_offset": int(half.msg_id[-16:], 16),
            "commit_or_rollback": decision,
            "from_transaction_check": False,
            "msg_id": half.transaction_id,
            "transaction_id": half.transaction_id,
            **changes,
        }
        return EndTransactionHeader(**fields)

    async def ask_json(self, peer, code, body, kind=None):
        """Send a private request. Returns (code, body or fields)."""
        import msgspec

        before = len(peer.answers)
        self.ask(peer, code, None, msgspec.json.encode(body))
        await self.settled()
        answer = peer.answers[before]
        if answer.code or kind is None:
            return answer.code, answer.ext
        return 0, decode_body(answer.body, kind)

    async def check(self, peer, offset, times=1):
        """Do what a checker does before it pushes a check: settle a half into its next copy.

        Returns the copy's offset.
        """
        return await self.move(peer, offset, HALF_TOPIC, {"TRANSACTION_CHECK_TIMES": str(times)}, "checked")

    async def park(self, peer, offset):
        return await self.move(peer, offset, "TRANS_CHECK_MAX_TIME_TOPIC", {}, "parked")

    async def move(self, peer, offset, topic, put, outcome):
        return await self.settle_half(
            peer, offset, [SettleOutput(topic, 0, set=put)], outcome, REPLACED_OP_PROPERTIES
        )

    async def supersede(self, peer, offset):
        """Settle a half for good, without a message. Returns the offset of its op message."""
        return await self.settle_half(peer, offset, [], "superseded", OP_PROPERTIES)

    async def settle_half(self, peer, offset, outputs, outcome, op_properties):
        claim = {"owner": "c", "address": "127.0.0.1:1", "ttlMs": "3000"}
        self.ask(peer, 9001, claim, CLAIM_BODY)
        epoch = decode_json(peer.answers[-1].body, ClaimReplyBody).claims[0].epoch
        half = self.records(HALF_TOPIC)[offset]
        op = SettleOutput(
            OP_HALF_TOPIC, 0, body=None, body_base64=op_body(offset), set=op_properties, properties="none"
        )
        item = SettleItem(half.queue_offset, half.position, [*outputs, op], outcome)
        header = SettleHeader(topic=HALF_TOPIC, queue_id=0, epoch=epoch)
        self.ask(peer, 9003, header, msgspec.json.encode(SettleBody([item])))
        await self.settled()
        result = decode_body(peer.answers[-1].body, SettleReplyBody).results[0]
        assert result.status == "settled", result
        return result.outputs[0].queue_offset

    def ops(self):
        """Bodies of the op messages, in order."""
        return [record.body for record in self.records(OP_HALF_TOPIC)]

    def connect_producer(self, group="pg", port=41000):
        peer = ScriptedPeer("10.0.0.9", port)
        self.clients.register_producer(group, Client(peer, f"client-{port}", "JAVA", 479, 0, 0))
        return peer
