"""The checkpoint file in RocketMQ's layout: three store times and the confirm offset. One disk sector, so never torn."""

from struct import Struct
from typing import NamedTuple

from broker_store.log.files.files import Files
from gantry_wire.records.units import CHECKPOINT, CHECKPOINT_FILE_BYTES

_CONFIRM = Struct(">q")
_TIMES = Struct(">qqq")
_CONFIRM_AT = 32
assert _CONFIRM_AT + _CONFIRM.size == CHECKPOINT.size

RECOVERY_MARGIN_MS = 3000
"""Recovery by times starts this much before the checkpoint, as in RocketMQ."""


class Times(NamedTuple):
    """Store times (ms) of the newest flushed message in the log, in the queues and in the index."""

    log_ms: int
    queues_ms: int
    index_ms: int

    @property
    def safe_ms(self) -> int:
        """Log, queues and index are known to agree up to this store time."""
        return max(min(self) - RECOVERY_MARGIN_MS, 0)


NO_TIMES = Times(0, 0, 0)


class CheckpointFile:
    """Reads and writes the 4,096-byte file; nothing is durable before `sync`."""

    def __init__(self, files: Files, path: str) -> None:
        self._file = files.open(path, create_bytes=CHECKPOINT_FILE_BYTES)

    def read(self) -> tuple[Times, int]:
        """Return the times and the confirm offset."""
        log_ms, queues_ms, index_ms, _, confirm = CHECKPOINT.unpack(self._file.pread(CHECKPOINT.size, 0))
        return Times(log_ms, queues_ms, index_ms), confirm

    def write_confirm(self, position: int) -> None:
        """Write the confirm offset: a lower bound of what is durable and complete."""
        self._file.pwrite(_CONFIRM.pack(position), _CONFIRM_AT)

    def write_times(self, times: Times) -> None:
        """Write up to which store time each part is flushed."""
        self._file.pwrite(_TIMES.pack(*times), 0)

    def sync(self) -> None:
        """Make both durable."""
        self._file.sync()

    def close(self) -> None:
        """Close the file without a sync."""
        self._file.close()
