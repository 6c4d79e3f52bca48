"""Snapshots for programs that read the files: hard links of segments and full queue files, copies of the rest, a manifest.

Everything below the manifest's end is immutable, so reading a snapshot twice returns the same bytes.
Retention unlinks and never truncates, so links keep what it deletes until the snapshot is dropped.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.consume_queues.consume_queue import ConsumeQueue
from broker_store.log.errors import LogError
from broker_store.log.files.files import Files
from broker_store.log.files.names import file_name

_COPY_BYTES = 1024 * 1024


class SnapshotUnknown(LogError):
    """No snapshot has this id, or it has expired. Make a new one."""


class QueueRange(msgspec.Struct, frozen=True, rename="camel"):
    """One queue of a snapshot. Its units are in `directory`, below the snapshot's."""

    directory: str
    min_offset: int
    max_offset: int


class Content(NamedTuple):
    """What a snapshot shows of a store, at one moment."""

    log: CommitLog
    log_id: str
    """The same for all replicas of a broker: their logs are the same at every position."""
    end: int
    """Everything below is complete and confirmed. It may not be durable here yet."""
    queues: Iterable[ConsumeQueue]
    tables: Mapping[str, bytes]
    """Files of `config` as they must be in the snapshot, where those of the directory are older than its queues."""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """Content of a snapshot. Positions at or above `end_position` and units at or above `max_offset` are invalid."""

    id: str
    directory: str
    log_id: str
    created_ms: int
    expires_ms: int
    min_position: int
    end_position: int
    segment_bytes: int
    queue_file_units: int
    segments: list[str]
    queues: list[QueueRange]
    config: list[str]


class Plan(msgspec.Struct, frozen=True):
    """What must still be copied for a manifest: (source, target, bytes). None = link it."""

    manifest: Manifest
    copies: list[tuple[str, str, int | None]]


class Snapshots:
    """Makes and drops snapshots in `gantry/snapshots` of a store."""

    def __init__(self, files: Files, store_directory: str, secret_bytes: Callable[[int], bytes]) -> None:
        self._files = files
        self._secret_bytes = secret_bytes
        self._store = store_directory
        self._root = f"{store_directory}/gantry/snapshots"
        self._making: set[str] = set()
        """Incomplete snapshots. `expire`, which runs in a thread, skips them."""

    def plan(self, content: Content, now_ms: int, ttl_ms: int) -> Plan:
        """Fix the content of the snapshot and link the segments. Call it in the loop, which owns log and queues. `finish` must follow.

        All of it is of one moment, so lag is never negative.
        """
        snapshot_id = self._secret_bytes(8).hex()
        self._making.add(snapshot_id)
        try:
            return self._plan(snapshot_id, content, now_ms, ttl_ms)
        except BaseException:
            self._making.discard(snapshot_id)
            raise

    def _plan(self, snapshot_id: str, content: Content, now_ms: int, ttl_ms: int) -> Plan:
        log, end = content.log, content.end
        directory = f"{self._root}/{snapshot_id}"
        self._files.make_dirs(f"{directory}/config")
        found = [name for name in self._files.listdir(f"{self._store}/config") if name.endswith(".json")]
        config = sorted({*found, *content.tables})
        for name in config:
            table = content.tables.get(name)
            kept = self._files.read_bytes(f"{self._store}/config/{name}") if table is None else table
            self._write(f"{directory}/config/{name}", kept or b"")
        ranges: list[QueueRange] = []
        copies: list[tuple[str, str, int | None]] = []
        for queue in content.queues:
            queue.flush()
            relative = queue.directory[len(self._store) + 1 :]
            ranges.append(QueueRange(relative, queue.min_offset, queue.max_offset))
            copies += [
                (source, f"{directory}/{relative}/{name}", size) for source, name, size in queue.file_parts()
            ]
        segments = [segment for segment in log.segments if segment.start < end]
        self._files.make_dirs(f"{directory}/commitlog")
        for segment in segments:
            self._files.link(segment.path, f"{directory}/commitlog/{file_name(segment.start)}")
        manifest = Manifest(
            id=snapshot_id,
            directory=directory,
            log_id=content.log_id,
            created_ms=now_ms,
            expires_ms=now_ms + ttl_ms,
            min_position=log.first_kept,
            end_position=end,
            segment_bytes=log.settings.segment_bytes,
            queue_file_units=log.settings.queue_file_units,
            segments=[file_name(segment.start) for segment in segments],
            queues=ranges,
            config=config,
        )
        return Plan(manifest, copies)

    def finish(self, plan: Plan) -> Manifest:
        """Copy the queues, sync all, and write the manifest: what has one is complete, also after a power cut.

        Call it in a thread. On OSError the snapshot is incomplete: drop it.
        """
        directory = plan.manifest.directory
        try:
            for source, target, size in plan.copies:
                self._files.make_dirs(target.rpartition("/")[0])
                if size is None:
                    self._files.link(source, target)
                else:
                    self._copy(source, target, size)
            self._files.sync_all(directory)
            self._files.replace_atomically(f"{directory}/manifest.json", msgspec.json.encode(plan.manifest))
        finally:
            self._making.discard(plan.manifest.id)
        return plan.manifest

    def drop(self, snapshot_id: str) -> None:
        """Remove a snapshot. Raises SnapshotUnknown."""
        if snapshot_id not in self._files.listdir(self._root):
            raise SnapshotUnknown(f"there is no snapshot {snapshot_id}")
        self._files.remove_dir(f"{self._root}/{snapshot_id}")

    def expire(self, now_ms: int) -> list[str]:
        """Remove expired snapshots, and incomplete ones of an earlier run. Returns their ids."""
        gone = [
            snapshot_id
            for snapshot_id in self._files.listdir(self._root)
            if snapshot_id not in self._making
            and ((manifest := self.find(snapshot_id)) is None or manifest.expires_ms <= now_ms)
        ]
        for snapshot_id in gone:
            self._files.remove_dir(f"{self._root}/{snapshot_id}")
        return gone

    def find(self, snapshot_id: str) -> Manifest | None:
        """Return the manifest of a snapshot, None if it cannot be read."""
        content = self._files.read_bytes(f"{self._root}/{snapshot_id}/manifest.json")
        try:
            return msgspec.json.decode(content, type=Manifest) if content else None
        except msgspec.DecodeError:
            return None

    def _copy(self, source: str, target: str, size: int) -> None:
        reader, writer = self._files.open(source), self._files.open(target, create_bytes=0)
        for at in range(0, size, _COPY_BYTES):
            writer.pwrite(reader.pread(min(_COPY_BYTES, size - at), at), at)
        reader.close()
        writer.close()

    def _write(self, path: str, content: bytes) -> None:
        file = self._files.open(path, create_bytes=0)
        file.pwrite(content, 0)
        file.close()


def to_json(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as plain values for an HTTP answer."""
    return msgspec.to_builtins(manifest)
