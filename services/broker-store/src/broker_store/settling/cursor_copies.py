"""Copies of cursors in RocketMQ's files, for a RocketMQ broker that opens this directory later. Read back only after a foreign run.

`config/delayOffset.json` maps levels to cursors. Offsets of CID_RMQ_SYS_TRANS hold the cursor of the half
queue, and the beginning of the op queue, so that all op messages are read again. RocketMQ skips what they
name below the cursor.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

import msgspec

from broker_store.commit.queues import QueueTable
from broker_store.config.config_files import ConfigFile, DataVersionCounter
from broker_store.config.saver import Saver
from broker_store.groups.offset_file import OFFSETS_FILE, read_offsets
from broker_store.groups.offsets import OffsetTable
from broker_store.log.errors import LogError
from broker_store.log.files.files import Files
from broker_store.ports import Commands, Peer
from broker_store.settling.decided.mark import Source
from broker_store.settling.decided.settled_table import SettledTable
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_wire.bodies import fastjson
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC

COPY_SECONDS = 10.0
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
"""RocketMQ's consumer group of its transaction checks."""
KEPT_FILE = "gantry/foreign.json"
"""Another broker's cursors, kept until the first checkpoint includes them."""
_log = get_logger()
_decode_kept = msgspec.json.Decoder(list[tuple[str, int, str, int]]).decode


class CursorCopies:
    """Writes the copies every few seconds while items are decided, and at the end."""

    def __init__(
        self,
        table: SettledTable,
        queues: QueueTable,
        offsets: OffsetTable,
        file: ConfigFile,
        thread: Workers,
        now_ms: Callable[[], int],
        sync_log: Callable[[], object],
    ) -> None:
        """`sync_log` makes durable what the log has: a cursor must not pass an item whose results a crash takes.

        Called in the thread; raises OSError or LogError.
        """
        self._table = table
        self._queues = queues
        self._offsets = offsets
        self._version = DataVersionCounter(now_ms)
        self._file = file
        self._sync_log = sync_log
        self._content = b""
        self._saver = Saver("delayOffset.json", lambda: self._content, self._store, thread)
        self._copied = table.changes

    def commands(self) -> Commands:
        """Return the table entries of this part."""
        return {RequestCode.GET_ALL_DELAY_OFFSET: ("adminBroker", self._delay_offsets)}

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops."""
        return {"copies": self._run}

    def closed(self, peer: object) -> None:
        """Do nothing: no state depends on a connection."""

    async def close(self) -> None:
        """Write the last copies."""
        self.copy()
        await self._saver.close()

    def copy(self) -> None:
        """Copy the cursors, unless nothing was decided since the last copy. If queues cannot be read, the next call tries again."""
        changes = self._table.changes
        if changes == self._copied:
            return
        self._version.bump()
        try:
            self._content, half_cursor = self._delay_cursors(), self._half_cursor()
        except OSError as error:
            _log.warning("cursors for RocketMQ could not be copied, trying again", error=str(error))
            return
        self._copied = changes
        self._saver.changed()
        if half_cursor is not None:
            op = self._queues.find(OP_HALF_TOPIC, 0)
            self._offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, half_cursor)
            self._offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, 0, 0 if op is None else op.min_offset)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(COPY_SECONDS)
            self.copy()

    def _store(self, content: bytes) -> None:
        try:
            self._sync_log()
        except LogError as error:
            raise OSError(errno.EIO, f"the log is not durable: {error}", self._file.path) from error
        self._file.store_bytes(content)

    def _delay_offsets(self, _peer: Peer, command: Command) -> bytes:
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=self._delay_cursors())

    def _half_cursor(self) -> int | None:
        if self._queues.find(HALF_TOPIC, 0) is None:
            return None
        return self._table.of((HALF_TOPIC, 0, "")).cursor

    def _delay_cursors(self) -> bytes:
        cursors = {
            queue.queue_id + 1: self._table.of((SCHEDULE_TOPIC, queue.queue_id, "")).cursor
            for queue in self._queues.of_topic(SCHEDULE_TOPIC)
        }
        return fastjson.dumps(
            {"dataVersion": self._version.value, "offsetTable": dict(sorted(cursors.items()))}
        )


def keep_foreign_cursors(files: Files, config_dir: str, path: str) -> None:
    """Keep the cursors of a RocketMQ broker that wrote to this directory last, so that nothing is delivered twice.

    Runs before the directory becomes ours: a start may end before the log has the cursors, and the next
    start finds a directory of ours.
    """
    found = [(*source, offset) for source, offset in _foreign_cursors(files, config_dir)]
    if found:
        files.replace_atomically(path, msgspec.json.encode(found))
    else:
        files.remove(path)


def read_kept_cursors(files: Files, path: str, table: SettledTable) -> None:
    """Load the kept cursors, from this start or an earlier one that reached no checkpoint."""
    content = files.read_bytes(path)
    for topic, queue_id, group, offset in _decode_kept(content) if content else ():
        table.take_foreign_floor((topic, queue_id, group), offset)


def _foreign_cursors(files: Files, config_dir: str) -> Iterator[tuple[Source, int]]:
    content = ConfigFile(files, f"{config_dir}/delayOffset.json").load()
    for level, offset in _offset_table(content):
        if level.isdecimal() and int(level) > 0:
            yield (SCHEDULE_TOPIC, int(level) - 1, ""), offset
    offsets = read_offsets(ConfigFile(files, f"{config_dir}/{OFFSETS_FILE}").load())
    for queue_id, offset in offsets.get((HALF_TOPIC, TRANSACTION_GROUP), {}).items():
        yield (HALF_TOPIC, queue_id, ""), offset


def _offset_table(content: object) -> list[tuple[str, int]]:
    table = cast("dict[object, object]", content).get("offsetTable") if isinstance(content, dict) else None
    if not isinstance(table, dict):
        return []
    pairs = cast("dict[object, object]", table).items()
    return [(str(level), offset) for level, offset in pairs if isinstance(offset, int) and offset > 0]
