"""Requests 306, 316 and 329: run retention now. Never deletes what retention would keep."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from broker_store.ports import Commands, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_chassis.logs.structured import get_logger
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response

_log = get_logger()


class Cleaner(Protocol):
    """Deletes old files."""

    async def delete_expired(self) -> int:
        """Delete expired segments at any hour. Returns how many."""
        ...

    async def forget_deleted(self) -> None:
        """Delete the entries of deleted segments from queues and index."""
        ...


@dataclass(frozen=True, slots=True)
class CleaningHandlers:
    """Passes on the requests. Answers each when it is done."""

    cleaner: Cleaner
    deferred: DeferredReplies

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: ("adminBroker", self.clean_queues),
            RequestCode.CLEAN_UNUSED_TOPIC: ("adminBroker", self.clean_topics),
            RequestCode.DELETE_EXPIRED_COMMITLOG: ("adminBroker", self.delete_log),
        }

    def clean_queues(self, peer: Peer, command: Command) -> None:
        """Handle 306: delete queue files whose messages are gone from the log. Offsets continue."""
        self.deferred.answer(peer, command, _done(command, self.cleaner.forget_deleted()))

    def clean_topics(self, _peer: Peer, command: Command) -> bytes:
        """Handle 316: delete queues without a topic.

        There are none: a topic is deleted with its queues, and a start adopts others.
        """
        return encode_response(ResponseCode.SUCCESS, command.opaque)

    def delete_log(self, peer: Peer, command: Command) -> None:
        """Handle 329: delete expired segments at any hour."""
        self.deferred.answer(peer, command, _done(command, self._delete_log()))

    async def _delete_log(self) -> None:
        count = await self.cleaner.delete_expired()
        _log.info("expired segments deleted on request", segments=count)


async def _done(command: Command, work: Awaitable[None]) -> bytes:
    await work
    return encode_response(ResponseCode.SUCCESS, command.opaque)
