"""Continues the walk of a recovery in the log of a replica: finds records as the group confirms them.

Each record is checked here for the first time: a shipment's bytes are written as they came. What lies above the limit is never found, so a cut
of the log undoes nothing.
"""

from collections.abc import Iterator

from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.commit_log.scan import ScannedRecord, Stop, scan_records
from broker_store.log.errors import DamagedRecord
from broker_store.log.recovery.recovery import CHUNK_BYTES, Found
from broker_store.log.settings import BLANK_BYTES
from gantry_wire.limits import RECORD_BYTES_MAX
from gantry_wire.records.message_record import BLANK, MAGIC_BLANK


class ContinuedWalk:
    """Walks from where a recovery stopped (`Recovery.replayed_end`)."""

    def __init__(self, log: CommitLog, position: int) -> None:
        self._log = log
        self.position = position
        """Every record below was found, and may be read."""

    def run(self, limit: int, bytes_max: int = CHUNK_BYTES) -> Iterator[Found]:
        """Yield the records below `limit`, which is the end of a record or of a segment, `bytes_max` or a single larger one at a time.

        Raises DamagedRecord, and OSError where the disk fails. A start treats what cannot be read as a hole, if the group has confirmed it.
        """
        log = self._log
        while self.position < limit:
            segment = log.segment_at(self.position)
            if segment is None:
                raise DamagedRecord(self.position, "its segment is missing")
            found: list[ScannedRecord] = []
            end = min(segment.end, limit)
            at, stop, fault = self._scan(found, end, bytes_max)
            if stop is Stop.BLANK:
                if end < segment.end:
                    raise DamagedRecord(at, "a blank reaches above what is confirmed")
                at = segment.end
            elif not found:
                raise DamagedRecord(at, fault or "it is cut short")
            self.position = at
            log.set_visible(at, at)
            if found:
                log.first_read.trust(found[0][0], found[-1][0] + found[-1][1])
                yield Found(found, at)

    def _scan(self, found: list[ScannedRecord], end: int, bytes_max: int) -> tuple[int, Stop, str]:
        """Find records below `end`, at least one if there is a whole one. Returns where they end, and why."""
        position, left = self.position, end - self.position
        segment = self._log.segment_at(position)
        assert segment is not None
        size = min(bytes_max, left)
        while True:
            data = segment.file.pread(size, position - segment.start)
            at, stop, fault = scan_records(data, position, 0, found)
            if stop is Stop.BLANK and BLANK.unpack_from(data, at) != (
                segment.end - position - at,
                MAGIC_BLANK,
            ):
                return position + at, Stop.BAD, "it is a blank of the wrong size"
            if at or stop is not Stop.MORE or size == left or size > RECORD_BYTES_MAX + BLANK_BYTES:
                return position + at, stop, fault
            size = min(2 * size, left)
