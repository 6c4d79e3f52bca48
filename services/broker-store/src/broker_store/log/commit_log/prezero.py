"""Writes zeros ahead of the tail, so that a flush finds allocated blocks (about a third faster).

One background thread works in slices. It never touches a byte that the writer has claimed: both sides take
the lock to announce what they write, and the writer waits in the rare case that they meet.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from broker_store.log.commit_log.segment import Segment, cut_segment, open_segment
from broker_store.log.files.files import SPACE_ERRORS, File, Files
from broker_store.log.files.spare_descriptors import NO_DESCRIPTOR
from broker_store.log.settings import LogSettings

_NOBODY = 1 << 62
"""Start of the current stretch when there is none: above every position."""


class Thread(Protocol):
    """A thread that works in steps, each after a wake or after the seconds that the last one returned."""

    @property
    def wake(self) -> Callable[[], None]:
        """Runs a step soon. Never blocks."""
        ...

    def start(self) -> None:
        """Work from now on."""
        ...

    def stop(self) -> None:
        """End after the running step. Blocks until then."""
        ...


MakeThread = Callable[[Callable[[], float | None], str], Thread]
"""Makes a thread with a step and a name."""


class Prezero:
    """Zeroes [claimed end, claimed end + prezero_bytes) in the tail, and prepares the next segment."""

    def __init__(
        self,
        files: Files,
        directory: str,
        settings: LogSettings,
        on_failure: Callable[[OSError], None],
        may_work: Callable[[], bool],
    ) -> None:
        self._files = files
        self._directory = directory
        self._settings = settings
        self._on_failure = on_failure
        self._may_work = may_work  # on a full disk the last blocks are for acks and offsets
        self._lock = threading.Condition()
        self._busy_start = _NOBODY
        self._claimed = 0
        self._zeroed_end = 0
        self._segment: Segment | None = None
        self._spare: Segment | None = None
        self._own: tuple[str, File] | None = None
        self._full_at = -1
        self._wake_at = _NOBODY
        self._closing = False
        self._thread: Thread | None = None

    def start(self, make_thread: MakeThread) -> None:
        """Start the background thread. Does nothing when switched off."""
        if self._settings.prezero_bytes and self._thread is None:
            self._thread = make_thread(self._step, "prezero")
            self._thread.start()
            self._thread.wake()

    def close(self) -> None:
        """Stop the background thread after its current slice."""
        self._closing = True
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        if self._own is not None:
            self._own[1].close()
            self._own = None

    def follow(self, segment: Segment, end: int) -> None:
        """Work ahead of a tail that ends here in this segment. Nothing ahead is known to be zeroed."""
        with self._lock:
            self._await_idle(0)
            self._segment = segment
            self._claimed = end
            if self._spare is not None and self._spare.start != segment.end:
                self._spare = None
            self._zeroed_end = end if self._spare is None else max(self._zeroed_end, end)
            self._full_at = -1
            self._wake_at = end
        self._wake()

    def forget(self) -> None:
        """Work on nothing, and forget what was made ahead, until `follow`: the files there are about to be removed."""
        with self._lock:
            self._await_idle(0)
            self._segment = self._spare = self._own = None
            self._full_at = -1

    def claim(self, end: int) -> None:
        """Announce that bytes up to here will be written. Waits until no zero can land below."""
        with self._lock:
            if self._busy_start < end:
                self._await_idle(end)
            self._claimed = end
        if end >= self._wake_at:
            self._wake_at = _NOBODY
            self._wake()

    def take_spare(self, start: int) -> Segment:
        """Return the segment at this position, prepared ahead or made now. The tail moves into it."""
        with self._lock:
            self._await_idle(0)
            spare, self._spare = self._spare, None
            if spare is None or spare.start != start:
                spare = open_segment(self._files, self._directory, start, self._settings.segment_bytes)
                self._wake_at = start  # the first segment of a log: the thread sleeps and knows of none
            self._segment = spare
            self._zeroed_end = max(self._zeroed_end, start)
        return spare

    def take_back(self, segment: Segment | None, end: int, unused: list[Segment]) -> None:
        """Remove what a failed batch left: the tail ends here again, and segments made for the batch are empty.

        Truncating and extending needs no space on a full disk and leaves zeros, whatever was written. The
        result is synced, so that no crash brings back what was refused.
        """
        with self._lock:
            self._await_idle(0)
            for made in unused:
                cut_segment(made, made.start)
                made.file.sync()
            if segment is not None:
                cut_segment(segment, end)
                segment.file.sync()
            self._spare = unused[0] if unused else self._spare
            self._segment = segment
            self._claimed = self._zeroed_end = self._full_at = end

    def zero_slice(self) -> bool:
        """Do one slice of work. False when there is nothing to do."""
        with self._lock:
            work = self._next_slice()
            if work is None:
                return False
            segment, start, end = work
            self._busy_start = start
        try:
            if segment is None:
                file = self._own_file(self._make_spare(start))
            else:
                file = self._own_file(segment)
                file.zero(start - segment.start, end - start)
        except OSError as error:
            self._stop_zeroing(error, start)
            return False
        finally:
            with self._lock:
                self._busy_start = _NOBODY
                self._zeroed_end = max(self._zeroed_end, end)
                self._lock.notify_all()
        try:
            file.sync()  # allocate the blocks now, not in the next flush of a batch
        except OSError as error:
            self._on_failure(error)
            return False
        return True

    def _next_slice(self) -> tuple[Segment | None, int, int] | None:
        segment, slice_bytes = self._segment, self._settings.prezero_slice_bytes
        if segment is None or self._closing or self._full_at == self._claimed or not self._may_work():
            return None
        start = max(self._zeroed_end, self._claimed)
        limit = self._claimed + self._settings.prezero_bytes
        if start >= segment.end:
            segment = self._spare
            if segment is None and start < limit:
                return None, start, start
        if segment is None or start >= min(limit, segment.end):
            self._wake_at = start - self._settings.prezero_bytes // 2
            return None
        return segment, start, min(start - start % slice_bytes + slice_bytes, segment.end)

    def _own_file(self, segment: Segment) -> File:
        """Return a descriptor of this thread's own.

        The kernel reports a failed write-back once per descriptor. A sync here on the descriptor of flushes
        would take the report away from the flush that must fail.
        """
        if self._own is None or self._own[0] != segment.path:
            if self._own is not None:
                self._own[1].close()
                self._own = None
            self._own = (segment.path, self._files.open(segment.path))
        return self._own[1]

    def _make_spare(self, start: int) -> Segment:
        segment = open_segment(self._files, self._directory, start, self._settings.segment_bytes)
        self._files.sync_dir(self._directory)
        self._spare = segment
        return segment

    def _stop_zeroing(self, error: OSError, start: int) -> None:
        if error.errno in SPACE_ERRORS | NO_DESCRIPTOR:
            self._full_at = self._claimed  # retried when the tail has moved; the writer meets the end itself
            self._wake_at = start
        else:
            self._on_failure(error)

    def _await_idle(self, end: int) -> None:
        while self._busy_start < (end or _NOBODY):
            self._lock.wait()

    def _wake(self) -> None:
        if self._thread is not None:
            self._thread.wake()

    def _step(self) -> float | None:
        return 0.0 if self.zero_slice() else None
