"""Our own note about the log, `gantry/log.note`: what the last run left, for comparison with RocketMQ's files.

Two slots of one sector each, written in turn, so that a torn write leaves the previous one. Layout of a
slot:

    magic 4 | status 4 | generation 8 | log id 16 | token 16 | end 8 | confirm 8 | checkpoint position 8
    | times at the last checkpoint 3 x 8 | times before it 3 x 8 | CRC32 of all that 4
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from struct import Struct
from zlib import crc32

from broker_store.log.checkpoint.checkpoint_file import NO_TIMES, Times
from broker_store.log.files.files import Files

_SLOT = Struct(">4siq16s16sqqqqqqqqq")
_CRC = Struct(">I")
_MAGIC = b"GLN1"
"""Format version 1. For a new version: read both, write the new one, keep a golden file of each in the tests."""
_SLOT_DISTANCE = 4096
NOTE_FILE_BYTES = 2 * _SLOT_DISTANCE
ID_BYTES = 16


class RunStatus(IntEnum):
    """Progress of the run that wrote the note."""

    STARTING = 1
    """The abort file is being replaced: it may be of this run, of the previous one, or missing."""
    RUNNING = 2
    STOPPED_CLEANLY = 3


@dataclass(frozen=True, slots=True)
class LogNote:
    """State of a run. `token` is the one it wrote into the abort file."""

    status: RunStatus
    log_id: bytes
    token: bytes
    end: int = 0
    confirm: int = 0
    checkpoint_position: int = 0
    """Queues and index are durable for all records below this position."""
    times: Times = NO_TIMES
    times_before: Times = NO_TIMES
    generation: int = 0


class LogNoteFile:
    """Reads the newer intact slot, writes the other one."""

    def __init__(self, files: Files, path: str) -> None:
        self._file = files.open(path, create_bytes=NOTE_FILE_BYTES)
        self._newest = self._read_newest()

    @property
    def note(self) -> LogNote | None:
        """The last note written, None in a directory that was never ours."""
        return self._newest

    def write(self, note: LogNote) -> None:
        """Replace the note. Durable on return. Raises OSError."""
        generation = self._newest.generation + 1 if self._newest else 1
        note = replace(note, generation=generation)
        slot = _SLOT.pack(
            _MAGIC, note.status, generation, note.log_id, note.token, note.end, note.confirm,
            note.checkpoint_position, *note.times, *note.times_before,
        )  # fmt: skip
        self._file.pwrite(slot + _CRC.pack(crc32(slot)), generation % 2 * _SLOT_DISTANCE)
        self._file.sync()
        self._newest = note

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_newest(self) -> LogNote | None:
        notes = [note for at in (0, _SLOT_DISTANCE) if (note := self._read_slot(at)) is not None]
        return max(notes, key=lambda note: note.generation, default=None)

    def _read_slot(self, at: int) -> LogNote | None:
        data = self._file.pread(_SLOT.size + _CRC.size, at)
        slot = data[: _SLOT.size]
        if slot[:4] != _MAGIC or _CRC.unpack(data[_SLOT.size :])[0] != crc32(slot):
            return None
        _, status, generation, log_id, token, end, confirm, position, *times = _SLOT.unpack(slot)
        return LogNote(
            RunStatus(status),
            log_id,
            token,
            end,
            confirm,
            position,
            Times(*times[:3]),
            Times(*times[3:]),
            generation,
        )
