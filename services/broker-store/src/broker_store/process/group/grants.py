"""What a leader grants lives in its memory: it grants only while no other replica can lead (rule 8 of replication/).

A grant may be answered later, when a file is saved or bytes are read. A leader whose disk hangs meanwhile loses its lease, and the next one
grants the same to others. So the lease is asked again when the answer leaves.
"""

from collections.abc import Callable

from broker_store.ports import Commands, Handler, Peer
from broker_store.process.passing_peer import PassingPeer
from gantry_wire.codes import GantryCode, RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.private_requests.leading import NO_LEASE

GRANTS = frozenset({RequestCode.LOCK_BATCH_MQ, GantryCode.CLAIM_QUEUES, GantryCode.RECEIVE})
"""Requests that grant something."""


def with_lease(commands: Commands, may_grant: Callable[[], bool]) -> Commands:
    """Return the commands of a leader, which grants only while `may_grant` says so."""
    guarded_commands: Commands = dict(commands)
    for code in GRANTS & commands.keys():
        class_name, handler = commands[code]
        guarded_commands[code] = (class_name, _Granting(handler, may_grant))
    return guarded_commands


def no_lease() -> RefusedRequest:
    """Return the refusal of a grant by a leader whose lease is not whole."""
    return RefusedRequest(
        ResponseCode.SYSTEM_BUSY,
        "this leader has just taken over, or does not hear all replicas in sync: nothing is granted now, try again in a moment",
        {"gantryCode": NO_LEASE},
    )


class _Granting:
    """A handler that grants, and is asked only with the lease."""

    def __init__(self, handler: Handler, may_grant: Callable[[], bool]) -> None:
        self._handler, self._may_grant = handler, may_grant

    def __call__(self, peer: Peer, command: Command) -> bytes | None:
        if not self._may_grant():
            raise no_lease()
        return self._handler(_Asker(peer, command.opaque, self._may_grant), command)


class _Asker(PassingPeer):
    """The peer that asks for a grant. What is answered later is a refusal where the lease is over by then."""

    def __init__(self, peer: Peer, opaque: int, may_grant: Callable[[], bool]) -> None:
        super().__init__(peer)
        self._opaque, self._may_grant = opaque, may_grant

    def send(self, data: bytes) -> None:
        self.send_parts([data])

    def send_parts(self, parts: list[bytes]) -> None:
        if self._may_grant():
            self._peer.send_parts(parts)
            return
        refusal = no_lease()
        self._peer.send(encode_response(refusal.code, self._opaque, refusal.fields, remark=refusal.remark))
