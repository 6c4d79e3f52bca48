"""Shows the content of a store directory, without a lock: `python -m broker_store.log.dump DIR [options]`.

Opens files read-only and changes nothing, so it works on a running store, a broken one, or RocketMQ's.
"""

import argparse
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from broker_store.log.commit_log.scan import ScannedRecord, Stop
from broker_store.log.file_walk import walk_file
from broker_store.log.files.names import parse_file_name
from gantry_wire.records.units import CHECKPOINT, CONSUME_QUEUE_UNIT, INDEX_HEADER

_UNITS_SHOWN = 20


def main(arguments: list[str] | None = None) -> int:
    """Print the summary, or the requested records or units. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="broker_store.log.dump", description=__doc__)
    parser.add_argument("directory", type=Path, help="the store directory, which holds commitlog/")
    parser.add_argument("--records", type=int, default=0, metavar="N", help="print the first N records")
    parser.add_argument(
        "--from", type=int, default=0, dest="start", metavar="POSITION", help="begin at this record"
    )
    parser.add_argument("--queue", metavar="TOPIC/ID", help="print the last units of this queue")
    options = parser.parse_args(arguments)
    if not (options.directory / "commitlog").is_dir():
        sys.stderr.write(f"{options.directory} holds no commitlog directory: give the store directory\n")
        return 2
    lines = queue_lines(options.directory, options.queue) if options.queue else _all_lines(options)
    for line in lines:
        sys.stdout.write(line + "\n")
    return 0


def _all_lines(options: argparse.Namespace) -> Iterator[str]:
    yield from checkpoint_lines(options.directory)
    yield from log_lines(options.directory, options.start, options.records)
    if not options.records:
        yield from index_lines(options.directory)


def checkpoint_lines(directory: Path) -> Iterator[str]:
    """Describe the small files."""
    try:
        log_ms, queues_ms, index_ms, _, confirm = CHECKPOINT.unpack_from(
            (directory / "checkpoint").read_bytes()
        )
        yield f"checkpoint  log {log_ms} ms, queues {queues_ms} ms, index {index_ms} ms, confirm {confirm}"
    except (OSError, struct.error) as problem:
        yield f"checkpoint  unreadable: {problem}"
    yield f"last stop   {'unclean (abort file exists)' if (directory / 'abort').exists() else 'clean, or no longer in use'}"


def log_lines(directory: Path, start: int, records_max: int) -> Iterator[str]:
    """Walk the segments. One line each, one per requested record, and one per stretch without a record."""
    shown = 0
    for path in sorted((directory / "commitlog").iterdir()):
        base = parse_file_name(path.name)
        size = path.stat().st_size
        if base is None or base + size <= start:
            continue
        count = bytes_used = 0
        end, stop, fault = base, Stop.MORE, ""
        for found, end, stop, fault in walk_file(path, base, max(start, base)):  # noqa: B007 - the last values are shown
            count += len(found)
            bytes_used += sum(record[1] for record in found)
            for record in found[: records_max - shown]:
                shown += 1
                yield _record_line(record)
        reason = f", {fault}" if stop is Stop.BAD else ""
        yield f"segment     {path.name}: {count} records, {bytes_used} bytes, ends at {end} ({stop.value}{reason})"


def queue_lines(directory: Path, name: str) -> Iterator[str]:
    """Show the number of units in each file of a queue, and the last of them."""
    for path in sorted((directory / "consumequeue" / name).iterdir()):
        first = parse_file_name(path.name)
        if first is None:
            continue
        units = [unit for unit in CONSUME_QUEUE_UNIT.iter_unpack(path.read_bytes()) if unit[1] > 0]
        first //= CONSUME_QUEUE_UNIT.size
        yield f"queue file  {path.name}: {len(units)} units from offset {first}"
        for place, (position, size, code) in list(enumerate(units))[-_UNITS_SHOWN:]:
            yield f"  offset {first + place}: position {position}, size {size}, tags code {code}"


def index_lines(directory: Path) -> Iterator[str]:
    """Show the header of each index file."""
    folder = directory / "index"
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        with path.open("rb") as file:
            header = file.read(INDEX_HEADER.size)
        if len(header) == INDEX_HEADER.size:
            begin_ms, end_ms, _, end, slots, count = INDEX_HEADER.unpack(header)
            yield f"index file  {path.name}: {max(count - 1, 0)} entries in {slots} slots, {begin_ms}..{end_ms} ms, up to {end}"


def _record_line(record: ScannedRecord) -> str:
    position, size, queue_id, queue_offset, sys_flag, store_ms, crc, topic, properties = record
    shown = properties.replace(b"\x01", b"=").replace(b"\x02", b" ").decode(errors="replace")
    name = topic.decode(errors="replace")
    return f"{position} +{size} {name}/{queue_id}@{queue_offset} stored {store_ms} flag {sys_flag:#x} crc {crc:#010x} {shown}"


if __name__ == "__main__":
    sys.exit(main())
