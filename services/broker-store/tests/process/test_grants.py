"""A leader grants only with its lease, when it is asked and when it answers."""

import pytest
from memory_store import MemoryPeer

from broker_store.process.group.grants import with_lease
from gantry_wire.codes import GantryCode, RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.frames.frame_stream import FrameDecoder

GRANT, OTHER = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ


def request(code: int) -> Command:
    return decode_command(FrameDecoder().receive(encode_request(code, 7, None))[0])


class Later:
    """A handler that answers when the test says so."""

    def __init__(self):
        self.peers = []

    def __call__(self, peer, command):
        self.peers.append(peer)

    def answer(self):
        self.peers[-1].send(encode_response(ResponseCode.SUCCESS, 7, None, b"granted"))


class Leader:
    """A leader with two commands, and its lease."""

    def __init__(self):
        self.has_lease, self.later, self.peer = True, Later(), MemoryPeer()
        commands = {int(code): ("adminBroker", self.later) for code in (GRANT, OTHER)}
        self._commands = with_lease(commands, lambda: self.has_lease)

    def ask(self, code):
        return self._commands[code][1](self.peer, request(code))


def test_a_grant_that_is_answered_later_needs_the_lease_then_too():
    leader = Leader()
    leader.ask(GRANT)
    leader.later.answer()
    assert leader.peer.answer().body == b"granted"
    leader.ask(GRANT)
    leader.has_lease = False
    leader.later.answer()
    refused = leader.peer.answer()
    assert (refused.code, refused.opaque, refused.ext["gantryCode"]) == (
        ResponseCode.SYSTEM_BUSY,
        7,
        "NO_LEASE",
    )
    assert not refused.body


def test_nothing_is_granted_without_the_lease_and_other_requests_need_none():
    leader = Leader()
    leader.has_lease = False
    with pytest.raises(RefusedRequest):
        leader.ask(GRANT)
    assert not leader.later.peers
    leader.ask(OTHER)
    leader.later.answer()
    assert leader.peer.answer().body == b"granted"


def test_a_handler_sees_the_connection_of_the_one_that_asks():
    leader = Leader()
    leader.ask(GRANT)
    (seen,) = leader.later.peers
    peer = leader.peer
    assert (seen.id, seen.remote, seen.is_closing) == (peer.id, peer.remote, peer.is_closing)
    assert seen.attributes is peer.attributes
    seen.close()
    assert seen.is_closing


@pytest.mark.parametrize("code", [GRANT, GantryCode.CLAIM_QUEUES, GantryCode.RECEIVE])
def test_locks_claims_and_receives_are_grants(code):
    commands = {int(code): ("pull", Later())}
    guarded = with_lease(commands, lambda: False)
    with pytest.raises(RefusedRequest):
        guarded[code][1](MemoryPeer(), request(code))
