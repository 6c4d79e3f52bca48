"""`gantry/lost`: what the log of a replica has lost of what was confirmed. Later starts begin at a checkpoint, and do not meet the damage again.

A text for operators, with one line for each range of positions. A file that names neither ranges nor that they are filled is of an earlier version:
what was lost is not known.

Once every range is filled from another replica, the file says so, and the next start makes everything that is derived from the log again: queues,
index and tables were made while records were missing, and checkpoints cover them (`clear_derived`).
"""

import re
from typing import NamedTuple

from broker_store.log.files.files import Files
from broker_store.log.log_range import LogRange, joined
from broker_store.replication.copying import DERIVED

NAME = "gantry/lost"
NOTES = ("gantry/queues.json", "gantry/queues.json.bak")
"""What the last checkpoint covers. Without them a start reads the whole log."""
_HEAD = (
    "A start found that records of this log which were confirmed are damaged or missing. Other replicas have them.\n"
    "While this file is here, this replica leads only where no other one can. docs/replication.md says more.\n"
)
_RANGE = re.compile(r"positions (\d{1,18}) to (\d{1,18})", re.ASCII)
_FILLED = "They are here again: the next start reads the whole log."
_UNKNOWN = "It is not known which: replace this replica."


class Lost(NamedTuple):
    """What the file says."""

    ranges: tuple[LogRange, ...] = ()
    """In order, apart from each other."""
    is_filled: bool = False
    """Every record is there again, and what is derived from the log has to be made again."""

    @property
    def is_known(self) -> bool:
        """Whether it is known what is missing."""
        return bool(self.ranges) or self.is_filled


class LostFile:
    """The file of one store directory. For one thread at a time."""

    def __init__(self, files: Files, store_directory: str) -> None:
        self._files = files
        self._directory = store_directory
        self.path: str = f"{store_directory}/{NAME}"

    def read(self) -> Lost | None:
        """Return what the file says, None without a file. Raises OSError."""
        content = self._files.read_bytes(self.path)
        if content is None:
            return None
        lines = content.decode(errors="replace").splitlines()
        found = [match for line in lines if (match := _RANGE.fullmatch(line.strip()))]
        ranges = joined(LogRange(int(match[1]), int(match[2])) for match in found)
        return Lost(ranges, not ranges and _FILLED in lines)

    def write(self, lost: Lost) -> None:
        """Replace the file. Durable on return. Raises OSError, and then it says what it said before, or this."""
        lines = [f"positions {start} to {end}" for start, end in lost.ranges]
        lines = lines or [_FILLED if lost.is_filled else _UNKNOWN]
        self._files.replace_atomically(self.path, (_HEAD + "\n".join(lines) + "\n").encode())

    def remove(self) -> None:
        """Remove the file, durably. Raises OSError."""
        self._files.remove(self.path)
        self._files.sync_dir(self.path.rpartition("/")[0])


def clear_derived(files: Files, store_directory: str) -> bool:
    """Remove what was derived from a log whose lost records are there again. Returns whether that was necessary. Raises OSError.

    Call it with the lock of the directory, before its checkpoint, log and configuration are read. What is removed is in the log, as in a copy. The
    file `gantry/lost` stays until the log was read: after a crash the next start begins again.
    """
    lost = LostFile(files, store_directory).read()
    if lost is None or not lost.is_filled:
        return False
    for path in NOTES:  # the first to go: without them no start uses the rest
        files.remove(f"{store_directory}/{path}")
    files.sync_dir(f"{store_directory}/gantry")
    for name in DERIVED:
        files.remove_dir(f"{store_directory}/{name}")
    files.sync_dir(f"{store_directory}/gantry")
    files.sync_dir(store_directory)
    return True
