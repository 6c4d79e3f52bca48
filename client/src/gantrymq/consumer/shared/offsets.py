"""The offsets of a group by queue: kept in memory, written every few seconds to the broker or to a local file.

Clustering: the broker keeps them, so that another member can continue. Broadcasting: a file, because every member has its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeAlias

from gantry_link.clients.store import StoreClient
from gantry_link.errors import BrokerRefused
from gantry_wire.bodies import cluster as cluster_bodies
from gantry_wire.bodies.clients import ResetOffsetBody
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.errors import MalformedBody
from gantrymq.message import MessageQueue

log: logging.Logger = logging.getLogger("gantrymq")

BACKUP_SUFFIX = ".bak"


NotWritten: TypeAlias = dict[MessageQueue, Exception]
"""Queues whose offset was not written, with the reason."""


class OffsetTable:
    """The offsets in memory, and which of them are not written yet. Pure."""

    __slots__ = ("_changed", "_offsets", "_written")

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._changed: dict[MessageQueue, None] = {}
        """Written in the order in which they changed."""
        self._written: dict[MessageQueue, None] = {}
        """Queues whose offset was written from here."""

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset of a queue, None if it is unknown here."""
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Record progress; never moves an offset back."""
        known = self._offsets.get(queue)
        if known is None or offset > known:
            self._offsets[queue] = offset
            self._changed[queue] = None

    def put(self, queue: MessageQueue, offset: int) -> None:
        """Set an offset, forward or back."""
        self._offsets[queue] = offset
        self._changed[queue] = None

    def load(self, offsets: dict[MessageQueue, int]) -> None:
        """Take offsets that are already written."""
        self._offsets.update(offsets)

    def forget(self, queue: MessageQueue) -> None:
        """Drop a queue: another member has it now."""
        self._offsets.pop(queue, None)
        self._changed.pop(queue, None)
        self._written.pop(queue, None)

    def take_changed(self, only: Collection[MessageQueue] | None = None) -> dict[MessageQueue, int]:
        """Return the changed offsets, and count them as written."""
        wanted = self._changed if only is None else set(only)
        taken = {queue: self._offsets[queue] for queue in self._changed if queue in wanted}
        self._changed = {queue: None for queue in self._changed if queue not in taken}
        self._written.update(dict.fromkeys(taken))
        return taken

    def not_written(self, queue: MessageQueue) -> None:
        """Record that a write failed: it is due again."""
        if queue in self._offsets:
            self._changed[queue] = None

    def write_again(self, queues: Iterable[MessageQueue]) -> None:
        """Count those of these offsets that were written from here as not written: the broker may not have them."""
        for queue in queues:
            if queue in self._written:
                self._changed[queue] = None

    def snapshot(self) -> dict[MessageQueue, int]:
        """Return all offsets."""
        return dict(self._offsets)


class OffsetStore(Protocol):
    """The place of offsets outside this process."""

    @property
    def table(self) -> OffsetTable:
        """The offsets in memory."""
        ...

    async def read(self, queue: MessageQueue) -> int | None:
        """Return the saved offset of a queue, None if there is none. Raises BrokerRefused or LinkError."""
        ...

    async def write(self, only: Collection[MessageQueue] | None = None, *, wait: bool = False) -> NotWritten:
        """Write changed offsets, and return the failed ones: they are due again, unless refused. `wait`: until they are saved."""
        ...

    def write_again(self, broker: str) -> None:
        """Count the offsets of a broker's queues as not written: with the connection to it the last ones may be lost."""
        ...


class BrokerOffsets:
    """Offsets at the brokers, where every member of the group finds them."""

    def __init__(self, group: str, store_of: Callable[[str], StoreClient]) -> None:
        self.table: OffsetTable = OffsetTable()
        self._group = group
        self._store_of = store_of

    async def read(self, queue: MessageQueue) -> int | None:
        """As `OffsetStore.read`."""
        return await self._store_of(queue.broker).consumer_offset(self._group, queue.topic, queue.queue_id)

    async def write(self, only: Collection[MessageQueue] | None = None, *, wait: bool = False) -> NotWritten:
        """As `OffsetStore.write`."""
        changed = self.table.take_changed(only)
        outcomes = await asyncio.gather(
            *[self._write_one(queue, offset, wait) for queue, offset in changed.items()]
        )
        return {queue: error for queue, error in zip(changed, outcomes, strict=True) if error is not None}

    def write_again(self, broker: str) -> None:
        """As `OffsetStore.write_again`: a one-way write promises nothing, and a broker that died forgets the last seconds."""
        self.table.write_again([queue for queue in self.table.snapshot() if queue.broker == broker])

    async def _write_one(self, queue: MessageQueue, offset: int, wait: bool) -> Exception | None:
        try:
            store = self._store_of(queue.broker)
            commit = store.commit_offset if wait else store.commit_offset_oneway
            await commit(self._group, queue.topic, queue.queue_id, offset)
        except BrokerRefused as error:
            log.warning("offset %d of %s was refused: %s", offset, queue, error)
            return error
        except Exception as error:  # noqa: BLE001 - a broker that is away must not end the writer of all offsets
            self.table.not_written(queue)
            log.debug("offset %d of %s is not written yet: %s", offset, queue, error)
            return error
        return None


class FileOffsets:
    """Offsets in a local file, in the format of RocketMQ's Java client, with the previous one as `.bak`."""

    def __init__(self, path: Path) -> None:
        self.table: OffsetTable = OffsetTable()
        self.path = path
        self._one_at_a_time = asyncio.Lock()
        """Serializes hand-over and timer: two threads would share the new file, and the older offsets might win."""
        self.table.load(load_offsets(path))

    async def read(self, queue: MessageQueue) -> int | None:
        """As `OffsetStore.read`."""
        return self.table.get(queue)

    async def write(self, only: Collection[MessageQueue] | None = None, *, wait: bool = False) -> NotWritten:
        """As `OffsetStore.write`; the file holds all offsets, so all are written, and always waited for."""
        del wait
        async with self._one_at_a_time:
            changed = self.table.take_changed(only)
            if not changed:
                return {}
            try:
                await asyncio.to_thread(save_offsets, self.path, self.table.snapshot())
            except OSError as error:
                for queue in changed:
                    self.table.not_written(queue)
                log.warning("cannot write offsets to %s: %s", self.path, error)
                return dict.fromkeys(changed, error)
        return {}

    def write_again(self, broker: str) -> None:
        """Do nothing: the file does not depend on brokers."""


def load_offsets(path: Path) -> dict[MessageQueue, int]:
    """Return the offsets of a file, or of its backup if the file is missing or damaged; none if there is neither."""
    for each in (path, backup_of(path)):
        try:
            table = decode_body(each.read_bytes(), ResetOffsetBody).offset_table
        except FileNotFoundError:
            continue
        except (OSError, MalformedBody) as error:
            log.warning("cannot read the offsets in %s: %s", each, error)
            continue
        return {MessageQueue(key.topic, key.broker_name, key.queue_id): n for key, n in table.items()}
    return {}


def save_offsets(path: Path, offsets: dict[MessageQueue, int]) -> None:
    """Write offsets so that a crash leaves the new file or the old one; the old one stays as backup. Raises OSError."""
    table = {
        cluster_bodies.MessageQueue(
            broker_name=queue.broker, queue_id=queue.queue_id, topic=queue.topic
        ): offset
        for queue, offset in offsets.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    with fresh.open("wb") as file:
        file.write(encode_body(ResetOffsetBody(offset_table=table)))
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileNotFoundError):
        path.replace(backup_of(path))
    fresh.replace(path)


def backup_of(path: Path) -> Path:
    """Return the path of the previous file."""
    return path.with_name(path.name + BACKUP_SUFFIX)
