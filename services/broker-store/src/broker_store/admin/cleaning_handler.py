"""306, 316, 329: tools ask for what retention does by itself, now. Nothing goes that retention would keep."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from broker_store.ports import Commands, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_chassis.logs import get_logger
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.encode import encode_response
from gantry_wire.frame import Command

_log = get_logger()


class Cleaner(Protocol):
    """Who deletes old files."""

    async def delete_expired(self) -> int:
        """Delete expired segments at this hour too; returns how many."""
        ...

    async def forget_deleted(self) -> None:
        """Delete what queues and index still hold of deleted segments."""
        ...


@dataclass(frozen=True, slots=True)
class CleaningHandlers:
    """Hands the orders on. Each is answered when it is done."""

    cleaner: Callable[[], Cleaner]
    """Asked when a request comes: retention starts after recovery."""
    deferred: DeferredReplies

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: ("adminBroker", self.clean_queues),
            RequestCode.CLEAN_UNUSED_TOPIC: ("adminBroker", self.clean_topics),
            RequestCode.DELETE_EXPIRED_COMMITLOG: ("adminBroker", self.delete_log),
        }

    def clean_queues(self, peer: Peer, command: Command) -> None:
        """306: delete files of queues whose messages are gone from the log. Their offsets go on where they were."""
        self.deferred.answer(peer, command, _done(command, self.cleaner().forget_deleted()))

    def clean_topics(self, _peer: Peer, command: Command) -> bytes:
        """316: delete queues that have no topic. There are none: a topic goes with its queues, and a start adopts others."""
        return encode_response(ResponseCode.SUCCESS, command.opaque)

    def delete_log(self, peer: Peer, command: Command) -> None:
        """329: delete segments older than their time, whatever the hour."""
        self.deferred.answer(peer, command, _done(command, self._delete_log()))

    async def _delete_log(self) -> None:
        count = await self.cleaner().delete_expired()
        _log.info("expired segments deleted by order", segments=count)


async def _done(command: Command, work: Awaitable[None]) -> bytes:
    await work
    return encode_response(ResponseCode.SUCCESS, command.opaque)
