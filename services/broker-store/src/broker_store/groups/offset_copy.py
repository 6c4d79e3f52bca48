"""Reads consumerOffset.json at a start, and writes it while the store runs: a copy of the offsets of the log, for RocketMQ and for operators.

The log is synced before the file is written: the file must not have what a crash takes from the log. A group that receives has its
low-water mark there, which must not pass dead letters, delayed copies or acknowledgements that are lost.
"""

import asyncio
from collections.abc import Callable

from broker_store.config.config_files import ConfigFile, DataVersionCounter
from broker_store.groups.committed_offsets import CommittedOffsets
from broker_store.groups.offset_file import (
    JOURNAL_FIELD,
    NUMBER_FIELD,
    OFFSETS_FILE,
    FileContent,
    digest_of,
    encode_offsets,
    number_in,
    read_offsets,
    version_in,
)
from broker_store.groups.offset_rows import Origin
from broker_store.groups.old_journal import JOURNAL_FILE, read_lines, remove_journal
from broker_store.log.errors import LogError
from broker_store.log.files.files import Files
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_wire.bodies.cluster import DataVersion

_log = get_logger()


class OffsetCopy:
    """The file of one store's offsets."""

    def __init__(
        self,
        files: Files,
        config_dir: str,
        own_dir: str,
        version: DataVersionCounter,
        thread: Workers,
        sync_log: Callable[[], object],
    ) -> None:
        """`sync_log` makes durable what the log has. Called in the thread; raises OSError or LogError."""
        self._files = files
        self._file = ConfigFile(files, f"{config_dir}/{OFFSETS_FILE}")
        self._journal_path = f"{own_dir}/{JOURNAL_FILE}"
        self._version = version
        self._thread = thread
        self._sync_log = sync_log
        self._number = -1
        """The number of the newest record that the file includes, -1 if it has to be written."""
        self._lock = asyncio.Lock()
        self._is_closed = False

    @property
    def version(self) -> DataVersion:
        """DataVersion of the file as last saved."""
        return self._version.value

    def read(self, taken: Origin) -> FileContent:
        """Return what the directory has beside its log, without the journal that the log has `taken` over. Blocks."""
        content, journal = self._file.load(), self._files.read_bytes(self._journal_path)
        raw = self._files.read_bytes(self._file.path)
        if raw is None:  # a crash of RocketMQ may leave the backup alone
            raw = self._files.read_bytes(f"{self._file.path}.bak")
        origin, offsets = Origin(digest_of(raw), digest_of(journal)), read_offsets(content)
        before = number_in(content, JOURNAL_FIELD) or 0
        lines = [] if origin.journal == taken.journal else read_lines(journal or b"")
        lines = [line for line in lines if line.number > before]
        for line in lines:
            offsets.setdefault((line.topic, line.group), {})[line.queue_id] = line.offset
        version = version_in(content)
        if version is not None:
            self._version.value = version
        return FileContent(
            offsets, number_in(content, NUMBER_FIELD), version, origin, not self._file.has_lost_newest, bool(lines)
        )  # fmt: skip

    def is_current(self, number: int) -> None:
        """Record that the file has what the log has up to this record."""
        self._number = number

    async def save(self, state: CommittedOffsets) -> OSError | LogError | None:
        """Write the file if the log has newer records. A failure is logged and returned; the next call tries again.

        Does nothing after `close`: the loop that calls this ends later than the thread.
        """
        async with self._lock:
            number = state.number
            if number == self._number or not number or self._is_closed:
                return None
            self._version.bump()
            content = encode_offsets(state.all(), self._version.value, number)
            try:
                await self._thread.run(self._replace, content)
            except (OSError, LogError) as error:
                _log.error("the file of offsets could not be saved", path=self._file.path, error=str(error))
                return error
            self._number = number
            return None

    def close(self) -> None:
        """Stop the thread."""
        self._is_closed = True
        self._thread.close(wait=False)

    def _replace(self, content: bytes) -> None:
        self._sync_log()
        self._file.store_bytes(content)
        remove_journal(self._files, self._journal_path)
