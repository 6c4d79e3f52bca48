"""Reads the files of a store directory: segments, queues, offsets, checkpoint and Gantry's note. Never writes, takes no lock."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

from gantry_wire.records.units import CHECKPOINT, CONSUME_QUEUE_UNIT, CONSUME_QUEUE_UNIT_BYTES

STARTING, RUNNING, STOPPED_CLEANLY = 1, 2, 3
HOLE_SIZE: Final = 0x7FFFFFFF
"""Size in a unit that names no record."""
_NAME: Final = re.compile(r"\d{20}")
_NOTE: Final = Struct(">4siq16s16sqqqqqqqqq")
_NOTE_CRC: Final = Struct(">I")
_NOTE_DISTANCE: Final = 4096
_KEPT_START: Final = Struct(">4sH")
_KEPT_HEADS: Final = {1: Struct(">QI"), 2: Struct(">QQBI")}
_UNITS: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("tags", ">i8")])

QueueName = tuple[str, int]
"""Topic and queue id."""


class SegmentFile(NamedTuple):
    """A file of a CommitLog: position of its first byte, its path, its size in bytes."""

    base: int
    path: str
    size: int


class Note(NamedTuple):
    """A store's last note: see `gantry/log.note` in docs/log-format.md."""

    status: int
    end: int
    confirm: int
    checkpoint_position: int
    token: str
    times: tuple[int, int, int]
    times_before: tuple[int, int, int]


class Unit(NamedTuple):
    """A unit of a queue: the position and size of its record."""

    position: int
    size: int

    @property
    def is_hole(self) -> bool:
        """Whether it names no record."""
        return self.size == HOLE_SIZE and self.position == 0


def segments(directory: str) -> tuple[SegmentFile, ...]:
    """Return the segments below `<directory>/commitlog`, oldest first; empty if there are none."""
    found = [
        SegmentFile(int(entry.name), entry.path, size)
        for entry in _scan(f"{directory}/commitlog")
        if _NAME.fullmatch(entry.name) and (size := _size(entry.path)) is not None
    ]
    return tuple(sorted(found))


def still_there(segments: Iterable[SegmentFile]) -> tuple[SegmentFile, ...]:
    """Return the remaining ones of listed segments: without those deleted since, and shorter if a file was cut."""
    return tuple(
        segment._replace(size=min(segment.size, size))
        for segment in segments
        if (size := _size(segment.path)) is not None
    )


class Replica(NamedTuple):
    """What a replica of a broker last knew of its group: see `gantry/replica` in the store's `replication/kept_file.py`."""

    origin: str
    """Names the group, and so the log that its replicas share."""
    leader: str
    epoch: int


def replica(directory: str) -> Replica | None:
    """Return what a replica knows of its group. None for a store without replicas, and for a replica that knows nothing yet."""
    try:
        content = Path(directory, "gantry/replica").read_bytes()
        magic, version = _KEPT_START.unpack_from(content)
        if magic != b"GKPT" or _NOTE_CRC.unpack(content[-_NOTE_CRC.size :])[0] != crc32(
            content[: -_NOTE_CRC.size]
        ):
            return None
        head = _KEPT_HEADS[version]
        size = head.unpack_from(content, _KEPT_START.size)[-1]
        start = _KEPT_START.size + head.size
        record = json.loads(content[start : start + size]) if size else None
        return Replica(str(record["origin"]), str(record["leader"]), int(record["epoch"])) if record else None
    except (OSError, struct_error, KeyError, TypeError, ValueError):
        return None


def log_id(directory: str) -> str:
    """Return the name of the log, empty for one that Gantry never opened. The replicas of a broker share theirs."""
    if (group := replica(directory)) is not None:
        return group.origin
    try:
        return Path(directory, "gantry/logId").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def checkpoint(directory: str) -> tuple[tuple[int, int, int], int]:
    """Return the three times (ms) of the checkpoint file, and the position below which everything is durable and complete; 0 = unknown."""
    try:
        content = Path(directory, "checkpoint").read_bytes()[: CHECKPOINT.size]
    except OSError:
        content = b""
    if len(content) < CHECKPOINT.size:
        return (0, 0, 0), 0
    log_ms, queues_ms, index_ms, _, confirm = CHECKPOINT.unpack(content)
    return (log_ms, queues_ms, index_ms), max(0, confirm)


def note(directory: str) -> Note | None:
    """Return the newer intact slot of Gantry's note, None if there is none."""
    try:
        content = Path(directory, "gantry/log.note").read_bytes()
    except OSError:
        return None
    newest: tuple[int, Note] | None = None
    for at in (0, _NOTE_DISTANCE):
        slot = content[at : at + _NOTE.size]
        crc = content[at + _NOTE.size : at + _NOTE.size + _NOTE_CRC.size]
        if slot[:4] != b"GLN1" or len(crc) < _NOTE_CRC.size or _NOTE_CRC.unpack(crc)[0] != crc32(slot):
            continue
        _, status, generation, _, token, end, confirm, position, *times = _NOTE.unpack(slot)
        if newest is None or generation > newest[0]:
            found = Note(status, end, confirm, position, token.hex(), tuple(times[:3]), tuple(times[3:]))
            newest = generation, found
    return newest[1] if newest else None


def own_note(directory: str) -> tuple[Note, int] | None:
    """Return Gantry's note and the confirm offset; None if another program wrote to the directory since, so that both are invalid."""
    found = note(directory)
    if found is None:
        return None
    times, confirm = checkpoint(directory)
    try:
        abort = Path(directory, "abort").read_bytes().decode("ascii", "replace")
    except OSError:
        abort = None
    is_foreign = (
        (found.status == RUNNING and abort is None)
        or (found.status != STARTING and abort is not None and not abort.endswith(found.token))
        or times not in (found.times, found.times_before)
        or confirm < found.confirm
    )
    if is_foreign and note(directory) != found:
        return own_note(directory)  # a checkpoint happened between the two reads
    return None if is_foreign else (found, confirm)


def units_from(directory: str) -> int | None:
    """Return the position below which the files of the queues are complete, None if that is the checkpoint's."""
    found = read_json(f"{directory}/gantry/queues.json").get("unitsFrom", -1)
    return found if isinstance(found, int) and found >= 0 else None


def offsets(directory: str) -> dict[str, dict[int, int]]:
    """Return the progress of consumer groups, {"topic@group": {queue id: offset}}, with the journal of an earlier version of the store."""
    table: dict[str, dict[int, int]] = {}
    for name, queues in read_json(f"{directory}/config/consumerOffset.json").get("offsetTable", {}).items():
        table[name] = {int(queue): int(offset) for queue, offset in queues.items()}
    try:
        lines = Path(directory, "gantry/offsets.journal").read_bytes().splitlines()
    except OSError:
        return table
    for line in lines:
        checksum, _, text = line.partition(b" ")
        if not re.fullmatch(rb"[0-9a-f]{8}", checksum) or int(checksum, 16) != crc32(text):
            break  # a line that a crash truncated
        _, topic, group, queue, offset = json.loads(text)
        table.setdefault(f"{topic}@{group}", {})[queue] = offset
    return table


def topics(directory: str) -> dict[str, int]:
    """Return the configured number of queues of each topic, whether it has messages or not."""
    table = read_json(f"{directory}/config/topics.json").get("topicConfigTable", {})
    return {name: int(topic.get("writeQueueNums", 0)) for name, topic in table.items()}


def read_json(path: str) -> dict[str, Any]:
    """Return the JSON object of a store's file; empty if there is none or it is unreadable.

    RocketMQ writes maps with bare integer keys, which are not valid JSON: they are quoted first.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        found = json.loads(re.sub(r"([{,]\s*)(-?\d+)(\s*:)", r'\1"\2"\3', text))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class QueueFiles:
    """The files of a queue: the first unit of each, and the end of the last one's units."""

    topic: str
    queue_id: int
    directory: str
    firsts: tuple[int, ...]
    ceiling: int

    def unit(self, offset: int) -> Unit | None:
        """Return a unit, None if no file has it or its bytes are zero."""
        at = bisect_right(self.firsts, offset) - 1
        if at < 0 or offset >= self.ceiling:
            return None
        content = self._read(self.firsts[at], offset - self.firsts[at], 1)
        if len(content) < CONSUME_QUEUE_UNIT_BYTES:
            return None
        position, size, _ = CONSUME_QUEUE_UNIT.unpack(content)
        return Unit(position, size) if size > 0 else None

    def first_named(self) -> int:
        """Return the lowest offset that names a record: the first file may begin with blanks for deleted history."""
        first = self.firsts[0]
        unit = self.unit(first)
        if unit is None or not unit.is_hole:
            return first
        behind = self.firsts[1] if len(self.firsts) > 1 else self.ceiling
        content = self._read(first, 0, behind - first)
        sizes = np.frombuffer(
            content[: len(content) // CONSUME_QUEUE_UNIT_BYTES * CONSUME_QUEUE_UNIT_BYTES], _UNITS
        )["size"]
        named = np.flatnonzero(sizes != HOLE_SIZE)
        return first + int(named[0]) if len(named) else behind

    def first_at_or_above(self, position: int, low: int, high: int) -> int:
        """Return the lowest offset in [low, high) whose record is at or above a position; `high` if there is none.

        A hole counts as the unit after it.
        """
        while low < high:
            middle = probe = (low + high) // 2
            unit = self.unit(probe)
            while unit is not None and unit.is_hole and probe + 1 < high:
                probe += 1
                unit = self.unit(probe)
            if unit is None or unit.is_hole or unit.position >= position:
                high = middle
            else:
                low = probe + 1
        return low

    def end_written(self, low: int) -> int:
        """Return the offset after the last written unit, from `low` on."""
        high = self.ceiling
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.unit(middle) is None else (middle + 1, high)
        return low

    def _read(self, first: int, skip: int, units: int) -> bytes:
        path = f"{self.directory}/{first * CONSUME_QUEUE_UNIT_BYTES:020d}"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(descriptor, units * CONSUME_QUEUE_UNIT_BYTES, skip * CONSUME_QUEUE_UNIT_BYTES)
        finally:
            os.close(descriptor)


def queues(directory: str) -> tuple[QueueFiles, ...]:
    """Return the queues of a store from their files, in order of topic and queue id."""
    found: list[QueueFiles] = []
    for topic in _scan(f"{directory}/consumequeue"):
        for queue in _scan(topic.path):
            if not queue.name.isdecimal():
                continue
            files = sorted(
                (int(f.name), size)
                for f in _scan(queue.path)
                if _NAME.fullmatch(f.name) and (size := _size(f.path)) is not None
            )
            if files:
                found.append(_queue(topic.name, int(queue.name), queue.path, files))
    return tuple(sorted(found, key=lambda queue: (queue.topic, queue.queue_id)))


def _queue(topic: str, queue_id: int, directory: str, files: list[tuple[int, int]]) -> QueueFiles:
    last, size = files[-1]
    firsts = tuple(byte // CONSUME_QUEUE_UNIT_BYTES for byte, _ in files)
    return QueueFiles(topic, queue_id, directory, firsts, (last + size) // CONSUME_QUEUE_UNIT_BYTES)


def _size(path: str) -> int | None:
    """Return the size of a file, None if it was deleted since it was listed."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return None


def _scan(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
