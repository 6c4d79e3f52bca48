"""Reads of a leader whose answer must be the newest: they wait until it has its lease, when no other replica can have led since.

A leader that was replaced and does not know it yet would answer a committed offset that goes back, and a consumer would continue there. Other
reads of such a leader may be old, and do no harm: what is confirmed never changes.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from broker_store.ports import Commands, Handler, Peer
from broker_store.process.group.grants import no_lease
from gantry_wire.codes import RequestCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response

NEWEST = frozenset({RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_CONSUME_STATS})
"""Reads of committed offsets."""
NEWEST_SECONDS = 6.0
"""How long such a read waits for the lease. A leader has it again within about a second, or ends. RocketMQ's clients of 4.x take an error for `no
offset`, and may then begin at the end of the queue: they stop waiting after 5 s, and ask again."""
LOOK_SECONDS = 0.05
READS_MAX = 1000
"""Reads that wait. More are refused at once."""


def with_newest_reads(commands: Commands, may_grant: Callable[[], bool]) -> Commands:
    """Return the commands of a leader, which answers these reads only while `may_grant` says so."""
    guarded_commands: Commands = dict(commands)
    waiting = Waiting(may_grant)
    for code in NEWEST & commands.keys():
        class_name, handler = commands[code]
        guarded_commands[code] = (class_name, partial(waiting.read, handler))
    return guarded_commands


class Waiting:
    """Reads that wait until the leader has its lease."""

    def __init__(self, may_grant: Callable[[], bool]) -> None:
        self._may_grant = may_grant
        self._count = 0

    def read(self, handler: Handler, peer: Peer, command: Command) -> bytes | None:
        """Answer with the lease, now or as soon as there is one. Raises RefusedRequest."""
        if self._may_grant():
            return handler(peer, command)
        if self._count >= READS_MAX:
            raise no_lease()
        self._count += 1
        loop = asyncio.get_running_loop()
        loop.call_later(LOOK_SECONDS, self._again, handler, peer, command, loop.time() + NEWEST_SECONDS)
        return None

    def _again(self, handler: Handler, peer: Peer, command: Command, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        has_lease = self._may_grant()
        if not has_lease and loop.time() < until_s:
            loop.call_later(LOOK_SECONDS, self._again, handler, peer, command, until_s)
            return
        self._count -= 1
        try:
            if not has_lease:
                raise no_lease()
            answer = handler(peer, command)
        except RefusedRequest as refusal:
            answer = encode_response(refusal.code, command.opaque, refusal.fields, remark=refusal.remark)
        except WireError as error:
            answer = encode_response(error.code, command.opaque, remark=str(error))
        if answer is not None and not command.is_oneway:
            peer.send(answer)
