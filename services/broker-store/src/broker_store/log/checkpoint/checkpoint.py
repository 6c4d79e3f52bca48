"""State kept between runs beside the log: checkpoint file, abort file, log id, and our note that ties them together.

Decides at opening how much of it is valid. A writer other than this program invalidates all of it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock

from broker_store.log.checkpoint.checkpoint_file import CheckpointFile, Times
from broker_store.log.checkpoint.deleted_note import DeletedNote
from broker_store.log.checkpoint.log_note import ID_BYTES, LogNote, LogNoteFile, RunStatus
from broker_store.log.files.files import SPACE_ERRORS, Files, make_durable_dirs
from broker_store.log.settings import RESERVE_FILE

_LOG_ID = re.compile(rb"[0-9a-f]{32}\n?")


@dataclass(frozen=True, slots=True)
class LastRun:
    """What the previous run left, as far as it is valid."""

    is_clean: bool
    """It stopped in order: queues and index are complete."""
    foreign: str
    """Why another program (also) wrote the files, empty when none did."""
    confirm: int
    """Everything below was durable and complete, so a bad record there is damage, not the end. 0 = unknown."""
    position: int | None
    """Queues and index were durable below this position, None = unknown. Only a hint in a foreign log."""
    end: int | None
    """End of the log, known after a clean stop."""
    times: Times


def judge(note: LogNote | None, times: Times, confirm: int, abort: bytes | None, log_id: bytes) -> LastRun:
    """Compare our note with the files that a foreign writer would have changed."""
    if note is None:
        return LastRun(abort is None, "it has no Gantry note", 0, None, None, times)
    foreign = _foreign_trace(note, times, confirm, abort, log_id)
    if foreign:
        return LastRun(abort is None, foreign, 0, note.checkpoint_position, None, times)
    is_clean = note.status is RunStatus.STOPPED_CLEANLY
    # A crash may have come between the note and the times in the checkpoint file. The note's times belong
    # to its position.
    return LastRun(
        is_clean, "", confirm, note.checkpoint_position, note.end if is_clean else None, note.times
    )


def _foreign_trace(note: LogNote, times: Times, confirm: int, abort: bytes | None, log_id: bytes) -> str:
    if note.log_id != log_id:
        return "the log id differs"
    if note.status is RunStatus.RUNNING and abort is None:
        return "the abort file of our last run was removed"
    if (
        note.status is not RunStatus.STARTING
        and abort is not None
        and not abort.endswith(note.token.hex().encode())
    ):
        return "the abort file is not ours"
    if times not in (note.times, note.times_before):
        return "the checkpoint was written by another program"
    if confirm < note.confirm:
        return "the confirm offset went back"
    return ""


class Checkpoint:
    """The files of one store directory. `last` is read before anything changes."""

    def __init__(self, files: Files, store_directory: str, secret_bytes: Callable[[int], bytes]) -> None:
        self._files = files
        self._directory = store_directory
        self._secret_bytes = secret_bytes
        self._abort_path = f"{store_directory}/abort"
        make_durable_dirs(files, f"{store_directory}/gantry")
        self._file = CheckpointFile(files, f"{store_directory}/checkpoint")
        self._notes = LogNoteFile(files, f"{store_directory}/gantry/log.note")
        self._deleted = DeletedNote(files, store_directory)
        self.log_id = self._read_or_make_log_id()
        times, confirm = self._file.read()
        self.last = judge(self._notes.note, times, confirm, files.read_bytes(self._abort_path), self.log_id)
        self._times = times
        self._confirm = 0
        self._confirm_lock = Lock()
        """The loop records flushes, a thread records checkpoints."""

    @property
    def position(self) -> int:
        """The position that the last checkpoint covers: recovery after a crash would start here."""
        return self._notes.note.checkpoint_position if self._notes.note else 0

    @property
    def deleted_below(self) -> int | None:
        """Retention has deleted nothing at or above this position. None: unknown, for example where another program wrote last."""
        return None if self.last.foreign else self._deleted.position

    def note_deleted(self, position: int) -> None:
        """Note, before it happens, that retention deletes below this position. Durable on return. Raises OSError."""
        self._deleted.raise_to(position)

    def begin(self, process_id: int) -> None:
        """Mark the directory as used by this run, before anything else changes.

        On a full disk this frees the ballast: a store that cannot start could not even be read.
        """
        try:
            self._begin(process_id)
        except OSError as error:
            if error.errno not in SPACE_ERRORS:
                raise
            self._files.remove(f"{self._directory}/{RESERVE_FILE}")
            self._begin(process_id)

    def _begin(self, process_id: int) -> None:
        token = self._secret_bytes(ID_BYTES)
        last = self.last
        note = self._notes.note if not last.foreign else None
        note = note or LogNote(
            RunStatus.STARTING, self.log_id, token, times=self._times, times_before=self._times
        )
        if last.foreign:
            self._deleted.forget()  # the other program may have deleted more, and the next start does not know of it
        self.write_confirm(last.confirm)
        self._file.sync()
        self._notes.write(replace(note, status=RunStatus.STARTING, confirm=last.confirm, token=token))
        self._files.replace_atomically(self._abort_path, f"{process_id}\n{token.hex()}".encode())
        self._notes.write(replace(note, status=RunStatus.RUNNING, confirm=last.confirm, token=token))

    def write_confirm(self, position: int) -> None:
        """Record after a flush that everything below is durable and complete. The next checkpoint syncs it.

        It never goes back: a checkpoint writes the value from when it was queued, while later flushes are
        recorded meanwhile.
        """
        with self._confirm_lock:
            self._confirm = max(position, self._confirm)
            self._file.write_confirm(self._confirm)

    def write(self, position: int, end: int, confirm: int, times: Times) -> None:
        """Record that queues and index are durable below `position`, with end of the log and confirm offset.

        Durable on return.
        """
        self._write(RunStatus.RUNNING, position, end, confirm, times)

    def close(self, end: int, times: Times) -> None:
        """Record an orderly stop: everything up to the end is durable, in the queues and in the index."""
        self._write(RunStatus.STOPPED_CLEANLY, end, end, end, times)
        self._files.remove(self._abort_path)
        self._files.sync_dir(self._directory)
        self.abandon()

    def abandon(self) -> None:
        """Close the files without a record: the next run treats this one as crashed."""
        self._file.close()
        self._notes.close()

    def _write(self, status: RunStatus, position: int, end: int, confirm: int, times: Times) -> None:
        note = self._notes.note
        assert note is not None
        self.write_confirm(confirm)
        self._file.sync()
        self._notes.write(
            replace(
                note,
                status=note.status,
                end=end,
                confirm=confirm,
                checkpoint_position=position,
                times=times,
                times_before=self._times,
            )
        )
        self._file.write_times(times)
        self._file.sync()
        self._times = times
        if status is not note.status and self._notes.note is not None:
            self._notes.write(replace(self._notes.note, status=status, times_before=times))

    def _read_or_make_log_id(self) -> bytes:
        path = f"{self._directory}/gantry/logId"
        content = self._files.read_bytes(path) or b""
        if _LOG_ID.fullmatch(content):
            return bytes.fromhex(content.decode())
        log_id = self._notes.note.log_id if self._notes.note else self._secret_bytes(ID_BYTES)
        self._files.replace_atomically(path, log_id.hex().encode() + b"\n")
        return log_id
