"""Sizes of the log's files and the pace of its background work. The default file sizes are RocketMQ's."""

from dataclasses import dataclass

from gantry_wire.limits import RECORD_BYTES_MAX

BLANK_BYTES = 8
"""The end-of-file mark that must still fit after the last record of a segment."""
QUEUE_UNIT_BYTES = 20
RESERVE_BYTES = 64 * 1024 * 1024
"""Size of the ballast file that keeps acks and offsets working on a full disk."""
RESERVE_FILE = "gantry/reserve"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Settings of the log. Sizes of existing files must not be changed."""

    segment_bytes: int = 1 << 30
    queue_file_units: int = 300_000
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000
    prezero_bytes: int = 16 * 1024 * 1024
    """How far ahead of the tail blocks are zeroed. 0 switches it off."""
    prezero_slice_bytes: int = 1024 * 1024
    free_bytes_min: int = 192 * 1024 * 1024
    """Below this much free space sends are refused."""
    reserve_bytes: int = RESERVE_BYTES
    checkpoint_bytes: int = 64 * 1024 * 1024
    """Log bytes since the last checkpoint that make the next one due. Bounds what a start reads after a crash."""

    def __post_init__(self) -> None:
        """Refuse sizes that contradict each other."""
        if self.segment_bytes <= BLANK_BYTES or self.segment_bytes % 512:
            raise ValueError("segment_bytes must be a positive multiple of 512")
        if self.queue_file_units < 1 or self.index_slots < 1 or self.index_entries < 2:
            raise ValueError("queue_file_units, index_slots and index_entries must be positive")
        if self.prezero_slice_bytes < 4096 or self.prezero_bytes < 0:
            raise ValueError("prezero_slice_bytes must be at least 4096 and prezero_bytes not negative")

    @property
    def queue_file_bytes(self) -> int:
        """Return the size of a ConsumeQueue file."""
        return self.queue_file_units * QUEUE_UNIT_BYTES


assert LogSettings().segment_bytes > RECORD_BYTES_MAX + BLANK_BYTES
