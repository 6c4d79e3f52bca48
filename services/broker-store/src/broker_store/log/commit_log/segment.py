"""Segments: the files of the CommitLog, named by the position of their first byte. Knows names and sizes only."""

from dataclasses import dataclass
from itertools import pairwise

from broker_store.log.errors import LogUnreadable
from broker_store.log.files.files import File, Files
from broker_store.log.files.names import file_name, parse_file_name

_READ_BYTES = 1024 * 1024


@dataclass(slots=True, eq=False)
class Segment:
    """One open CommitLog file with positions start ≤ p < end."""

    start: int
    end: int
    path: str
    file: File


def open_segment(files: Files, directory: str, start: int, segment_bytes: int) -> Segment:
    """Open the segment at this position; create it or extend it to full size if needed."""
    path = f"{directory}/{file_name(start)}"
    return Segment(start, start + segment_bytes, path, files.open(path, create_bytes=segment_bytes))


def load_segments(files: Files, directory: str, segment_bytes: int) -> list[Segment]:
    """Open all segments in order. Recovery reports gaps between them.

    A last file that is too short (a crash during its creation) is extended, and so is an empty one whose
    successor begins where it should end: a flush makes the names of all segments durable that were
    created while it ran, but not their sizes. So is one that a crash left short while a batch was taken
    back: then what follows it is unwritten. Any other size refuses the start, as in RocketMQ: the
    segment size of a log cannot be changed.
    """
    starts = [start for name in files.listdir(directory) if (start := parse_file_name(name)) is not None]
    segments: list[Segment] = []
    for number, (start, following) in enumerate(pairwise((*starts, None)), 1):
        assert start is not None
        path = f"{directory}/{file_name(start)}"
        size = files.size(path)
        is_new = following is None or (size == 0 and following == start + segment_bytes)
        is_short = size < segment_bytes and not is_new
        if is_short and not start % segment_bytes:
            is_short = not _are_unwritten(
                files, directory, start + segment_bytes, starts[number:], segment_bytes
            )
        if start % segment_bytes or size > segment_bytes or is_short:
            raise LogUnreadable(
                f"{path} has {size} bytes where segments of {segment_bytes} are configured: "
                "set mappedFileSizeCommitLog to the size this log was written with"
            )
        segments.append(open_segment(files, directory, start, segment_bytes))
    return segments


def _are_unwritten(
    files: Files, directory: str, start: int, following: list[int], segment_bytes: int
) -> bool:
    """Whether the files that follow begin where they should, have all of their size or none of it, and hold zeros."""
    if following != list(range(start, start + len(following) * segment_bytes, segment_bytes)):
        return False
    return all(_is_unwritten(files, f"{directory}/{file_name(each)}", segment_bytes) for each in following)


def _is_unwritten(files: Files, path: str, segment_bytes: int) -> bool:
    if files.size(path) not in (0, segment_bytes):
        return False
    file = files.open(path)
    try:
        at = file.next_data(0)
        while at is not None and at < segment_bytes:
            data = file.pread(_READ_BYTES, at)
            if data.count(0) < len(data):
                return False
            at = file.next_data(at + len(data)) if data else None
    finally:
        file.close()
    return True


def cut_segment(segment: Segment, end: int) -> None:
    """Leave only zeros, and no blocks, from this position to the end of the segment."""
    segment.file.truncate(end - segment.start)
    segment.file.truncate(segment.end - segment.start)
