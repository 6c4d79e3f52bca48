"""Walks the segments of a directory without opening a log: for programs that only read."""

import os
from collections.abc import Iterator
from pathlib import Path

from broker_store.log.commit_log.scan import ScannedRecord, Stop, record_size_at, scan_records
from broker_store.log.files.names import parse_file_name
from gantry_wire.records.message_record import BLANK

CHUNK_BYTES = 4 * 1024 * 1024


def log_end(directory: Path, confirm: int) -> int:
    """Return where the log of a stopped store ends: behind the last whole record that follows the others without a gap.

    `confirm`: a position below which nothing needs a check. What is counted is synced first. Raises OSError.
    """
    segments = [
        (base, path) for path in directory.iterdir() if (base := parse_file_name(path.name)) is not None
    ]
    position = max(confirm, min((base for base, _ in segments), default=0))
    for base, path in sorted(segments):
        end = base + path.stat().st_size
        if end <= position:
            continue
        if base > position:
            break
        with path.open("rb") as file:
            os.fsync(file.fileno())
        *_, (_, position, stop, _) = walk_file(path, base, position)
        if stop is Stop.BLANK:
            position = end
    return position


def walk_file(path: Path, base: int, start: int) -> Iterator[tuple[list[ScannedRecord], int, Stop, str]]:
    """Yield the whole records of one segment from `start` on, where they end, why the walk stopped there, and what is wrong."""
    with path.open("rb") as file:
        stop = Stop.MORE
        while stop is Stop.MORE:
            file.seek(start - base)
            chunk = file.read(CHUNK_BYTES)
            found: list[ScannedRecord] = []
            at, stop, fault = scan_records(chunk, start, 0, found)
            if stop is Stop.MORE and at == 0:
                size = record_size_at(chunk[: BLANK.size].ljust(BLANK.size, b"\0"))
                if size <= len(chunk):
                    yield [], start, Stop.BAD if chunk else Stop.MORE, "it is cut short"
                    return
                file.seek(start - base)
                at, stop, fault = scan_records(file.read(size), start, 0, found)
                if at == 0:
                    stop, fault = Stop.BAD, fault or "it is cut short"
            start += at
            yield found, start, stop, fault
