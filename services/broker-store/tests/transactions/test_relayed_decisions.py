"""A producer decides a half message of another broker, which asked it through this one: by the rights on the topic of that half."""

import asyncio
import base64
import os

import pytest
from sending_side import ScriptedPeer
from transactions_side import BORN_MS, COMMIT, TransactionsSide

from broker_store.process.parts.access_control import door_of
from broker_store.transactions.producer_checks import EXPIRY_SECONDS, RELAY_MS, RELAYS_MAX, Relays
from gantry_access.entries.contents import policies_entry, user_entry
from gantry_access.model.actions import Action
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.sealing import NONCE_SIZE
from gantry_access.signatures.remoting import sign
from gantry_access.signatures.signing_key import SigningKey
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_chassis.settings.access import AccessSettings
from gantry_guard.guard import Guard
from gantry_link.serving.server import RemotingServer
from gantry_wire.codes import GantryCode, RequestCode, ResponseCode
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.names import HALF_TOPIC
from gantry_wire.private_requests.transactions import AskProducer, ProducerAsked
from gantry_wire.records.half_message import sent_message

pytestmark = pytest.mark.anyio
SECRET = "the secret of alice"


class Home:
    """Another broker, as far as decisions about its half messages go."""

    def __init__(self):
        self.taken = []
        self._server = RemotingServer(self._receive)

    async def __aenter__(self):
        self.address = f"127.0.0.1:{await self._server.listen('127.0.0.1', 0)}"
        return self

    async def __aexit__(self, *_error):
        await self._server.close()

    def _receive(self, peer, raw):
        command = decode_command(raw)
        self.taken.append((command.code, command.ext))
        peer.send(encode_response(ResponseCode.SUCCESS, command.opaque))


class GuardedSide(TransactionsSide):
    """A store whose user alice may send to the topic orders alone."""

    def __init__(self, folder):
        super().__init__()
        keys = folder / "keys"
        keys.write_text(f"k1 {base64.b64encode(bytes(range(32))).decode()}\n")
        keys.chmod(0o600)
        settings = AccessSettings(access_key_file=str(keys))
        guard = Guard.of(settings, "store", Metrics(), machine())
        sealed = guard.keys.sealing.seal("alice", HiddenText(SECRET), os.urandom(NONCE_SIZE))
        entries = (PolicyEntry(Resource.topic("orders"), Action.PUB, Decision.ALLOW),)
        guard.table.take(
            [
                user_entry(User("alice", secrets=(sealed,)), BORN_MS),
                policies_entry(SubjectPolicies(Subject("alice"), entries), BORN_MS),
            ]
        )
        guard.table.is_complete = True
        self.table._door = door_of(guard, self.around, self.store, self.relays)
        self.inner = ScriptedPeer(port=40_001)
        self.inner.attributes["inner"] = "store"

    async def asked_for(self, home, half, *, topic="orders", key="U1"):
        """Have a producer asked about a half of another broker, which lies at the position of a half of this one."""
        record = next(one for one in self.records(HALF_TOPIC) if one.queue_offset == half.queue_offset)
        other = TransactionsSide()
        await other.begin(self.inner, topic=topic, key=key)
        theirs = other.records(HALF_TOPIC)[0]
        ask = AskProducer(
            producer_group="pg", key=key, broker="broker-b", home=home, offset=half.queue_offset, position=record.position,
            message_id=record.message_id, message=sent_message(other.log.read(theirs.position, theirs.size)),
        )  # fmt: skip
        _, answer = await self.ask_json(self.inner, GantryCode.ASK_PRODUCER, ask, ProducerAsked)
        assert answer.asked

    async def decided(self, peer, half, **changes):
        header = self.end_header(half, COMMIT, **changes)
        before = len(peer.answers)
        self.ask(
            peer, RequestCode.END_TRANSACTION, sign(header.to_fields(), b"", "alice", SigningKey(SECRET))
        )
        for _ in range(500):
            await self.settled()
            if len(peer.answers) > before:
                return peer.answers[before]
        raise AssertionError("no answer")


@pytest.fixture
async def side(tmp_path):
    return GuardedSide(tmp_path)


@pytest.fixture
def alice(side):
    return side.connect_producer()


async def test_a_producer_that_policies_limit_decides_a_half_of_another_broker(side, alice):
    half = await side.begin(
        side.inner, topic="secret", key="U7"
    )  # what is at that position here is not the producer's
    async with Home() as home:
        alice.attributes["access user"] = "alice"
        await side.asked_for(home.address, half)
        answer = await side.decided(alice, half, msg_id="U1", transaction_id="U1")
    assert (answer.code, answer.remark) == (0, None)
    ((code, fields),) = home.taken
    assert (code, fields["transactionId"], fields["msgId"]) == (37, "U1", "U1")


async def test_a_half_of_another_broker_in_a_topic_without_a_right_is_not_decided(side, alice):
    half = await side.begin(side.inner, topic="orders", key="U7")  # the right on what is here is not enough
    async with Home() as home:
        await side.asked_for(home.address, half, topic="secret")
        answer = await side.decided(alice, half, msg_id="U1", transaction_id="U1")
        assert answer.code == ResponseCode.NO_PERMISSION
    assert home.taken == []


async def test_no_other_half_of_that_broker_is_decided_by_the_id_or_the_position_of_the_one_that_was_asked_for(
    side, alice
):
    half = await side.begin(side.inner, topic="secret", key="U7")
    async with Home() as home:
        alice.attributes["access user"] = "alice"
        await side.asked_for(home.address, half)
        await side.decided(alice, half, msg_id="U9", transaction_id="U1")
        assert [fields["msgId"] for _, fields in home.taken] == ["U1"]
        answer = await side.decided(
            alice, half, msg_id="U1", transaction_id="U1", commit_log_offset=int(half.msg_id[-16:], 16) + 1000
        )
        assert answer.code == ResponseCode.NO_PERMISSION
    assert len(home.taken) == 1


def ask(number):
    return AskProducer(
        producer_group="pg", key=f"U{number}", broker="broker-b", home="127.0.0.1:1", offset=0, position=number, message_id="", message=b"",
    )  # fmt: skip


def test_a_relay_ends_by_time_and_their_number_is_bounded():
    relays = Relays()
    for number in range(RELAYS_MAX + 1):
        relays.note(ask(number), "orders", number)
    assert relays.find(("U0",), 0) is None
    assert relays.find((None, "U1"), 1) is not None
    assert relays.find(("U1",), 2) is None
    relays.note(ask(1), "orders", RELAYS_MAX)
    relays.expire(RELAYS_MAX - 1 + RELAY_MS)
    assert [one.key for one in relays.halves.values()] == [f"U{RELAYS_MAX}", "U1"]


async def test_a_loop_forgets_relays_that_are_over(side, monkeypatch):
    monkeypatch.setattr("broker_store.transactions.producer_checks.EXPIRY_SECONDS", 0.001)
    assert EXPIRY_SECONDS * 1000 < RELAY_MS
    side.relays.note(ask(1), "orders", side.clock.now_ms() - RELAY_MS)
    task = asyncio.ensure_future(side.transactions.loops()["relayedChecks"]())
    async with asyncio.timeout(30):
        while side.relays.halves:
            await asyncio.sleep(0.001)
    task.cancel()
