"""The pieces of a repair: records and blanks of another replica's bytes, checked, compared with what a segment holds, and written over it."""

from broker_store.log.commit_log.scan import ScannedRecord, Stop, record_size_at, scan_records
from broker_store.log.commit_log.segment import Segment
from broker_store.log.errors import DamagedRecord, DiskFull
from broker_store.log.files.files import SPACE_ERRORS
from broker_store.log.settings import BLANK_BYTES
from gantry_wire.records.message_record import BLANK, MAGIC_BLANK

_ZEROED_BYTES = 64 * 1024


def write_piece(segment: Segment, start: int, data: bytes) -> None:
    """Write a record or a blank. What follows a blank is zeros. Raises OSError, DiskFull."""
    try:
        segment.file.pwrite(data, start - segment.start)
        if len(data) == BLANK_BYTES:
            _zero(segment, start + BLANK_BYTES)
    except OSError as error:
        if error.errno not in SPACE_ERRORS:
            raise
        raise DiskFull(f"no room to repair {segment.path}") from error  # what it holds is known: damage


def _zero(segment: Segment, start: int) -> None:
    """Write zeros where the rest of a segment holds anything else."""
    at = segment.file.next_data(start - segment.start)
    end = segment.end - segment.start
    while at is not None and at < end:
        size = min(_ZEROED_BYTES, end - at)
        if not _is_zero(segment, at, size):
            segment.file.zero(at, size)
        at = segment.file.next_data(at + size)


def _is_zero(segment: Segment, at: int, size: int) -> bool:
    try:
        data = segment.file.pread(size, at)
    except OSError:
        return False
    return data.count(0) == size


def is_damaged_at(data: bytes, position: int) -> bool:
    """Whether bytes of a log that begin where a record begins do not begin with a whole one, as far as they reach."""
    head = data[: BLANK.size]
    size = record_size_at(head) if len(head) == BLANK.size else 0
    _, stop, _ = scan_records(data[: size or BLANK.size], position, 0, [])
    return stop in (Stop.BAD, Stop.ZERO)


def pieces_of(data: bytes, position: int, segment_end: int) -> list[tuple[int, int]]:
    """Return position and size of the whole records, and of the blank, that another replica's bytes begin with. Raises DamagedRecord if they begin with none."""
    found: list[ScannedRecord] = []
    at, stop, fault = scan_records(data, position, 0, found)
    pieces = [(record[0], record[1]) for record in found]
    if stop is Stop.BLANK and BLANK.unpack_from(data, at) == (segment_end - position - at, MAGIC_BLANK):
        pieces.append((position + at, BLANK_BYTES))
    elif not found and stop is not Stop.MORE:
        raise DamagedRecord(position, f"of another replica: {fault or 'it is a blank of the wrong size'}")
    return pieces


def is_whole(segment: Segment, start: int, size: int) -> bool:
    """Whether the file has a whole record of this size there, or the blank that ends the segment. A failed read is damage."""
    try:
        data = segment.file.pread(size, start - segment.start)
    except OSError:
        return False
    found: list[ScannedRecord] = []
    _, stop, _ = scan_records(data, start, 0, found)
    if found:
        return found[0][1] == size
    return stop is Stop.BLANK and BLANK.unpack_from(data) == (segment.end - start, MAGIC_BLANK)
