"""Requests 41 and 42: lock and unlock queues. A new holder is answered once it is saved: a restart must not forget it.

`gantry/locks` holds the holders, not the times: after a restart every lock counts as just refreshed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from broker_store.config.saver import Saver
from broker_store.groups.locks.lock_file import LockFile
from broker_store.groups.locks.lock_table import LockTable, QueueName
from broker_store.ports import Commands, Peer
from gantry_chassis.machine.environment import Workers
from gantry_wire.bodies import fastjson
from gantry_wire.bodies.clients import LockBatchRequestBody, LockBatchResponseBody
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import MissingField, RefusedRequest, WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response

EXPIRE_SECONDS = 30.0
QUEUES_MAX = 65_536
"""Most queues per request."""
LOCKS_MAX = 1_000_000
"""Most locks held. Each takes about 300 bytes."""


class ClosedPeer(Protocol):
    """A closed connection, and whether its client closed it or died."""

    @property
    def id(self) -> int: ...  # noqa: D102

    @property
    def closed_by_client(self) -> bool: ...  # noqa: D102


class QueueLocks:
    """Keeps the locks and their file consistent."""

    def __init__(self, file: LockFile, now_ms: Callable[[], int], thread: Workers) -> None:
        """`now_ms` is monotonic."""
        self.table = LockTable()
        self._now_ms = now_ms
        self._file = file
        self._thread = thread
        self._saver = Saver(file.path, self._encode, file.save, self._thread)
        self.table.load(_holders(file.load()), now_ms())

    def commands(self) -> Commands:
        """Return the table entries."""
        return {
            RequestCode.LOCK_BATCH_MQ: ("adminBroker", self.lock),
            RequestCode.UNLOCK_BATCH_MQ: ("adminBroker", self.unlock),
        }

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops."""
        return {"locks": self._forget_ended}

    def lock(self, peer: Peer, command: Command) -> None:
        """Handle 41: lock queues. The answer lists those that the client now holds."""
        body = _read(command)
        if self.table.size + len(body.mq_set) > LOCKS_MAX:
            self.table.expire(self._now_ms())
            if self.table.size + len(body.mq_set) > LOCKS_MAX:
                raise RefusedRequest(
                    ResponseCode.SYSTEM_BUSY, f"{LOCKS_MAX} queues are locked already: try again in a minute"
                )
        held, changed = self.table.lock(
            body.consumer_group, body.client_id, _names(body), self._now_ms(), peer.id
        )
        if changed:
            self._saver.changed()
        # A refresh also waits for a pending save, because that may be the save of the lock itself.
        self._saver.when_saved(partial(self._saved, peer, command, body, held, changed))

    def unlock(self, _peer: Peer, command: Command) -> bytes:
        """Handle 42: unlock queues. Saved soon: a crash before that only keeps them locked for a minute."""
        body = _read(command)
        if self.table.unlock(body.consumer_group, body.client_id, _names(body)):
            self._saver.changed()
        return encode_response(ResponseCode.SUCCESS, command.opaque)

    def unregistered(self, group: str, client_id: str) -> None:
        """Release the locks of a client that leaves its group."""
        if self.table.unregister(group, client_id):
            self._saver.changed()

    def closed(self, peer: ClosedPeer) -> None:
        """Release the locks last refreshed over a connection that its client closed or whose client died."""
        if self.table.closed(peer.id, by_client=peer.closed_by_client):
            self._saver.changed()

    def is_orderly(self, group: str) -> bool:
        """Whether a member of a group holds a queue: the group then consumes in order."""
        return self.table.is_locked(group, self._now_ms())

    async def close(self) -> None:
        """Save everything."""
        await self._saver.close()
        self._thread.close()
        self._file.close()

    def _saved(
        self,
        peer: Peer,
        command: Command,
        body: LockBatchRequestBody,
        held: list[QueueName],
        changed: list[QueueName],
        error: OSError | None,
    ) -> None:
        group, client_id = body.consumer_group, body.client_id
        if error is not None and changed:
            self.table.unlock(group, client_id, changed)
            remark = f"the locks could not be saved, so none was granted: {error}"
            frame = encode_response(ResponseCode.SYSTEM_ERROR, command.opaque, remark=remark)
        else:
            # those that the client still holds: a slow save may outlive a lock, which another client then gets
            frame = _held_reply(command.opaque, self.table.held_by(group, client_id, held))
        if not command.is_oneway:
            peer.send(frame)

    async def _forget_ended(self) -> None:
        while True:
            await asyncio.sleep(EXPIRE_SECONDS)
            if self.table.expire(self._now_ms()):
                self._saver.changed()

    def _encode(self) -> bytes:
        return fastjson.dumps(self.table.holders())


def _holders(content: bytes | None) -> object:
    """Return the saved holders, none if they cannot be read."""
    try:
        return None if content is None else fastjson.loads(content)
    except (WireError, ValueError):
        return None


def _read(command: Command) -> LockBatchRequestBody:
    body = decode_body(command.body, LockBatchRequestBody)
    if not body.client_id:
        raise MissingField("clientId")
    if not body.consumer_group:
        raise MissingField("consumerGroup")
    if len(body.mq_set) > QUEUES_MAX:
        raise RefusedRequest(
            ResponseCode.INVALID_PARAMETER,
            f"the request names {len(body.mq_set)} queues, the limit is {QUEUES_MAX}",
        )
    return body


def _names(body: LockBatchRequestBody) -> list[QueueName]:
    return [(queue.topic, queue.broker_name, queue.queue_id) for queue in body.mq_set]


def _held_reply(opaque: int, held: list[QueueName]) -> bytes:
    queues = [
        MessageQueue(topic=topic, broker_name=broker, queue_id=queue_id) for topic, broker, queue_id in held
    ]
    return encode_response(
        ResponseCode.SUCCESS, opaque, body=encode_body(LockBatchResponseBody(lock_ok_mq_set=queues))
    )
