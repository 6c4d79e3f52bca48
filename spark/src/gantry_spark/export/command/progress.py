"""Progress for the user on stderr: the current stage, and while Spark works the number of finished pieces."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOK_SECONDS: Final = 1.0
SAY_SECONDS: Final = 5.0


def say(words: str) -> None:
    """Print one line; a closed terminal is no reason to stop."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"gantry: {words}\n")
        sys.stderr.flush()


@contextlib.contextmanager
def pieces_shown(context: SparkContext) -> Generator[None]:
    """Print every few seconds how many tasks of the running stage are done."""
    is_over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(context, is_over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


def _watch(context: SparkContext, is_over: threading.Event) -> None:
    shown, waited = "", 0.0
    while not is_over.wait(LOOK_SECONDS):
        waited += LOOK_SECONDS
        words = _pieces(context)
        if words and words != shown and waited >= SAY_SECONDS:
            say(f"  {words}")
            shown, waited = words, 0.0


def _pieces(context: SparkContext) -> str:
    tracker = context.statusTracker()
    for stage in tracker.getActiveStageIds():
        info = tracker.getStageInfo(stage)
        if info is not None and info.numTasks:
            return f"written: {info.numCompletedTasks} of {info.numTasks} pieces"
    return ""


def size_words(count: int) -> str:
    """Return a number of bytes in readable form."""
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count} bytes"
