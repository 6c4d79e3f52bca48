"""Segments: the files of the CommitLog, named by the position of their first byte. Knows names and sizes only."""

from dataclasses import dataclass
from itertools import pairwise

from broker_store.log.errors import LogUnreadable
from broker_store.log.files.files import File, Files
from broker_store.log.files.names import file_name, parse_file_name


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
    created while it ran, but not their sizes. Any other size refuses the start, as in RocketMQ: the
    segment size of a log cannot be changed.
    """
    starts = [start for name in files.listdir(directory) if (start := parse_file_name(name)) is not None]
    segments: list[Segment] = []
    for start, following in pairwise((*starts, None)):
        assert start is not None
        path = f"{directory}/{file_name(start)}"
        size = files.size(path)
        is_new = following is None or (size == 0 and following == start + segment_bytes)
        if start % segment_bytes or size > segment_bytes or (size < segment_bytes and not is_new):
            raise LogUnreadable(
                f"{path} has {size} bytes where segments of {segment_bytes} are configured: "
                "set mappedFileSizeCommitLog to the size this log was written with"
            )
        segments.append(open_segment(files, directory, start, segment_bytes))
    return segments


def cut_segment(segment: Segment, end: int) -> None:
    """Leave only zeros, and no blocks, from this position to the end of the segment."""
    segment.file.truncate(end - segment.start)
    segment.file.truncate(segment.end - segment.start)
